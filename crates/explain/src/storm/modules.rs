//! Environment Modules or Lmod walking a modulepath.

use std::collections::HashSet;

use recording::query::clean;
use recording::{Cause, Exec, Kind, PathId};

use super::{Case, command, culprit};
use crate::findings::{Culprit, Step, Storm};
use crate::survey::{Ask, AskId, Survey, split, variable};
use crate::tally::Tally;
use crate::threshold::is_storm;
use crate::words::{count, counted, listed, pasted, percent, questions};

pub(super) fn detect(survey: &Survey) -> Option<Case> {
    let walk = Walk::find(survey);
    // What the tool asks for itself, without any modulepath, no cure of the tree changes.
    if !is_storm(walk.paths.by_asks().iter().map(|(_, count)| count.asks).sum(), survey.total()) {
        return None;
    }
    let files = walk.files.len() as u64;
    let subcommand = walk.subcommands.top().map(|(word, _)| word).unwrap_or_default();
    Some(Case {
        storm: Storm::Modules,
        title: format!(
            "`module {subcommand}` opened {} in {}",
            counted(files, "modulefile", "modulefiles"),
            counted(walk.directories.len() as u64, "directory", "directories")
        ),
        cause: "without an index the module tool lists every directory of the modulepath, opens \
                each file to see whether it is a modulefile, and evaluates each rc file"
            .to_owned(),
        observed: "calls of the process that runs modulecmd or lmod".to_owned(),
        avoidable: walk.paths.by_asks().iter().map(|(_, count)| count.asks).sum(),
        guessed: None,
        time: None,
        culprits: walk.culprits(survey),
        next: walk.next().into_iter().collect(),
        evidence: "module".to_owned(),
        claim: walk.claim,
    })
}

#[derive(Default)]
struct Walk {
    claim: Vec<AskId>,
    /// Directories of MODULEPATH, and what was asked below them.
    paths: Tally<Vec<u8>>,
    /// Modulefiles that were opened.
    files: HashSet<PathId>,
    /// rc files that were opened.
    rc_files: HashSet<PathId>,
    /// Directories that were listed.
    directories: HashSet<PathId>,
    subcommands: Tally<String>,
    is_lmod: bool,
}

impl Walk {
    fn find(survey: &Survey) -> Walk {
        let paths = modulepaths(survey);
        let mut walk = Walk::default();
        for (id, ask) in survey.free().filter(|(_, ask)| ask.why.cause == Cause::ModuleTool) {
            walk.claim.push(id);
            let Some(modulepath) = paths.iter().find(|directory| is_below(ask.path, directory))
            else {
                continue;
            };
            walk.paths.add(modulepath.clone(), ask.is_missing());
            walk.see(survey, ask);
        }
        walk
    }

    /// Takes in an operation below a modulepath.
    fn see(&mut self, survey: &Survey, ask: &Ask) {
        if let Some(exec) = ask.exec {
            self.subcommands.add(subcommand(exec), ask.is_missing());
            self.is_lmod |= split(survey.recording.path(exec.image)).1.starts_with(b"lua");
        }
        let (Some(path), true) = (ask.path_id, ask.is_yes()) else { return };
        match ask.kind {
            Kind::List => {
                self.directories.insert(path);
                self.files.remove(&path);
            }
            Kind::Open if is_rc(ask.split().1) => {
                self.rc_files.insert(path);
            }
            Kind::Open if !self.directories.contains(&path) => {
                self.files.insert(path);
            }
            _ => {}
        }
    }

    fn culprits(&self, survey: &Survey) -> Vec<Culprit> {
        let mut culprits = Vec::new();
        for (path, asked) in self.paths.by_asks().into_iter().take(3) {
            let path = survey.shown(&path);
            let text = format!(
                "modulepath {path}: {}, {} of all that the tool asked",
                questions(asked.asks),
                percent(asked.asks, self.claim.len() as u64)
            );
            let numbers = [("operations", asked.asks), ("missing", asked.missing)];
            culprits.push(culprit("modulepath", path, text, &numbers));
        }
        let numbers = [
            ("directories", self.directories.len() as u64),
            ("modulefiles", self.files.len() as u64),
            ("rc_files", self.rc_files.len() as u64),
        ];
        let text = format!(
            "{} listed, {} and {} opened",
            counted(numbers[0].1, "directory", "directories"),
            counted(numbers[1].1, "modulefile", "modulefiles"),
            counted(numbers[2].1, "rc file", "rc files"),
        );
        culprits.push(culprit("tree", "tree", text, &numbers));
        let runs: Vec<_> = self
            .subcommands
            .by_asks()
            .into_iter()
            .take(3)
            .map(|(word, asked)| format!("`module {word}` {}", count(asked.asks)))
            .collect();
        if runs.len() > 1 {
            let text = format!("questions by sub-command: {}", listed(&runs));
            culprits.push(culprit("subcommand", "module", text, &[]));
        }
        culprits
    }

    /// What to do depends on the release of Modules, on who may write there and on what is private:
    /// the audit looks at that.
    fn next(&self) -> Option<Step> {
        let (path, _) = self.paths.top().filter(|_| !self.is_lmod)?;
        let path = pasted(&path)?;
        let text = "See what in the tree makes it so, and what can be changed here";
        Some(command(text, format!("becalm modules audit {path}")))
    }
}

/// The directories of all MODULEPATH variables of the recording, deepest first.
fn modulepaths(survey: &Survey) -> Vec<Vec<u8>> {
    let execs = survey.recording.processes.iter().flat_map(|process| &process.execs);
    let values: HashSet<&str> = execs.filter_map(|exec| variable(exec, "MODULEPATH")).collect();
    let directories = values.into_iter().flat_map(|value| value.split(':'));
    let directories: HashSet<Vec<u8>> = directories
        .filter(|directory| directory.starts_with('/'))
        .map(|directory| clean(directory.as_bytes()).into_owned())
        .collect();
    let mut directories: Vec<_> = directories.into_iter().collect();
    directories.sort_by_key(|directory| (std::cmp::Reverse(directory.len()), directory.clone()));
    directories
}

/// Whether `path` is `directory` or below it.
fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

fn is_rc(name: &[u8]) -> bool {
    matches!(name, b".modulerc" | b".modulerc.lua" | b".version")
}

/// The sub-command: the first word after the name of the shell that modulecmd writes for.
fn subcommand(exec: &Exec) -> String {
    let words = exec.argv.iter().map(String::as_str);
    let after = words.skip_while(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        !(name.starts_with("modulecmd") || name.starts_with("lmod"))
    });
    let mut words = after.skip(1).filter(|word| !word.starts_with('-'));
    let _shell = words.next();
    words.next().unwrap_or_default().to_owned()
}
