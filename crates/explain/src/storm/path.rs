//! Programs searched over PATH: execve that fails directory by directory (execvp(3)), and shells
//! that stat every directory before they start or miss a command.

use std::collections::{BTreeSet, HashMap, HashSet};

use recording::{Kind, Outcome, ProcessId};

use super::inside::options;
use super::{Case, advice, culprit};
use crate::findings::{Culprit, Step, Storm};
use crate::survey::{Ask, AskId, ProgramId, Survey, variable};
use crate::tally::Tally;
use crate::threshold::is_storm;
use crate::words::{count, counted, listed, pasted, questions};

/// execvp(3) goes on to the next directory after this error too.
const EACCES: u16 = 13;
/// The most programs whose full paths are told.
const NAMES: usize = 3;

pub(super) fn detect(survey: &Survey) -> Option<Case> {
    let path = Path::of(survey);
    let found = Searches::find(survey, &path);
    if !is_storm(found.vain, survey.total()) {
        return None;
    }
    let widest = found.directories_a_search();
    let claim = found.claim.clone();
    Some(Case {
        storm: Storm::Path,
        title: format!("programs were searched in up to {widest} directories of PATH"),
        cause:
            "a program named without its directory is tried in every directory of PATH, in order, \
                until one has it; shells remember where they found it, new processes do not"
                .to_owned(),
        observed: "failed execve calls are observed; stat and access calls count where one \
                   process asks for the same name in two or more directories of a PATH"
            .to_owned(),
        avoidable: found.vain,
        guessed: Some(found.guessed),
        time: None,
        culprits: found.culprits(survey),
        next: found.next(survey).into_iter().collect(),
        evidence: "process".to_owned(),
        claim,
    })
}

/// The directories of all PATH variables of the recording.
struct Path<'a> {
    set: HashSet<&'a [u8]>,
}

impl<'a> Path<'a> {
    fn of(survey: &Survey<'a>) -> Path<'a> {
        let mut path = Path { set: HashSet::new() };
        let mut seen = HashSet::new();
        let execs = survey.recording.processes.iter().flat_map(|process| &process.execs);
        for value in execs.filter_map(|exec| variable(exec, "PATH")) {
            // Most processes have their parent's.
            if !seen.insert(value) {
                continue;
            }
            for directory in value.split(':').map(trim) {
                if directory.starts_with(b"/") {
                    path.set.insert(directory);
                }
            }
        }
        path
    }
}

fn trim(directory: &str) -> &[u8] {
    let trimmed = directory.trim_end_matches('/');
    if trimmed.is_empty() {
        &directory.as_bytes()[..directory.len().min(1)]
    } else {
        trimmed.as_bytes()
    }
}

/// What was searched for.
#[derive(Default)]
struct Searches<'a> {
    claim: Vec<AskId>,
    /// Answers that sent the search to the next directory.
    vain: u64,
    /// stat and access calls: only the pattern says that they are searches.
    guessed: u64,
    directories: Tally<&'a [u8]>,
    names: Tally<&'a [u8]>,
    programs: Tally<ProgramId>,
    directories_of_name: HashMap<&'a [u8], BTreeSet<&'a [u8]>>,
}

impl<'a> Searches<'a> {
    fn find(survey: &Survey<'a>, path: &Path) -> Searches<'a> {
        let mut searches: HashMap<(ProcessId, &[u8]), Vec<AskId>> = HashMap::new();
        for (id, ask) in survey.free() {
            if is_probe(ask, path) {
                searches.entry((ask.process(), ask.split().1)).or_default().push(id);
            }
        }
        let mut found = Searches::default();
        for asks in searches.into_values() {
            let vain: BTreeSet<_> = asks
                .iter()
                .map(|id| &survey.asks[*id])
                .filter(|ask| is_vain(ask))
                .map(|ask| ask.split().0)
                .collect();
            let exec = asks.iter().any(|id| survey.asks[*id].kind == Kind::Exec);
            if vain.len() >= 2 || (exec && !vain.is_empty()) {
                asks.iter().for_each(|id| found.take(survey, *id));
            }
        }
        found.claim.sort_unstable();
        found
    }

    fn take(&mut self, survey: &Survey<'a>, id: AskId) {
        let ask = &survey.asks[id];
        let (directory, name) = ask.split();
        let vain = is_vain(ask);
        self.claim.push(id);
        self.vain += u64::from(vain);
        self.guessed += u64::from(ask.kind != Kind::Exec);
        self.directories.add(directory, vain);
        self.names.add(name, vain);
        self.directories_of_name.entry(name).or_default().insert(directory);
        self.programs.add(ask.program, vain);
    }

    /// The most directories that one name was looked for in.
    fn directories_a_search(&self) -> u64 {
        self.directories_of_name.values().map(BTreeSet::len).max().unwrap_or(0) as u64
    }

    fn culprits(&self, survey: &Survey) -> Vec<Culprit> {
        let mut culprits = Vec::new();
        if let Some((program, asked)) = self.programs.top() {
            let program = survey.full_name(program);
            let text = format!(
                "{program} looked for {}: {} of {} were in vain",
                counted(self.names.len(), "command", "commands"),
                count(asked.missing),
                questions(asked.asks),
            );
            let numbers = [("commands", self.names.len()), ("operations", asked.asks)];
            culprits.push(culprit("program", program, text, &numbers));
        }
        for (directory, asked) in self.directories.by_missing().into_iter().take(3) {
            let directory = survey.shown(directory);
            let yes = match asked.asks - asked.missing {
                0 => "never had what was asked".to_owned(),
                yes => format!("had it {}", counted(yes, "time", "times")),
            };
            let text = format!("{directory} was asked {} times and {yes}", count(asked.asks));
            let numbers = [("operations", asked.asks), ("missing", asked.missing)];
            culprits.push(culprit("directory", directory, text, &numbers));
        }
        if let Some((name, asked)) = self.names.by_missing().into_iter().next() {
            let directories = self.directories_of_name.get(name).map_or(0, BTreeSet::len) as u64;
            let text = format!(
                "{} was looked for in {}, {} answered no",
                survey.shown(name),
                counted(directories, "directory", "directories"),
                questions(asked.missing),
            );
            let numbers = [("directories", directories), ("missing", asked.missing)];
            culprits.push(culprit("command", survey.shown(name), text, &numbers));
        }
        culprits
    }

    /// By its full path a program is not searched. Which directories of PATH others need, no
    /// recording of this run tells.
    fn next(&self, survey: &Survey) -> Option<Step> {
        // What bash may do itself (`run --builtins`) is what it finds by name alone.
        let searched = |name: &[u8], missing: u64| missing > 0 && options(name).is_none();
        let names = self.names.by_missing().into_iter();
        let names = names.filter(|(name, asked)| searched(name, asked.missing));
        let known = names.filter_map(|(name, asked)| {
            let found = started(survey).filter(|ask| ask.split().1 == name).map(|ask| ask.path);
            let found: BTreeSet<_> = found.collect();
            // One file of that name, or it depends on who asks.
            let [path] = found.into_iter().collect::<Vec<_>>()[..] else { return None };
            Some((format!("`{}` is {}", pasted(name)?, pasted(path)?), asked.missing))
        });
        let known: Vec<_> = known.take(NAMES).collect();
        let spared: u64 = known.iter().map(|(_, missing)| missing).sum();
        if spared * 2 < self.vain {
            return None;
        }
        let names: Vec<_> = known.into_iter().map(|(name, _)| name).collect();
        Some(advice(format!(
            "Name by its full path what is started often, nothing is searched then: {}",
            listed(&names)
        )))
    }
}

/// The execve calls that found their program.
fn started<'s>(survey: &'s Survey) -> impl Iterator<Item = &'s Ask<'s>> {
    survey.asks.iter().filter(|ask| ask.kind == Kind::Exec && ask.is_yes())
}

/// Whether an operation can be part of a search over PATH.
fn is_probe(ask: &Ask, path: &Path) -> bool {
    if ask.event.in_loader || ask.split().1.is_empty() {
        return false;
    }
    match ask.kind {
        Kind::Exec => is_vain(ask),
        Kind::Stat | Kind::Access => path.set.contains(ask.split().0),
        _ => false,
    }
}

/// Whether the search went on after it.
fn is_vain(ask: &Ask) -> bool {
    ask.is_missing() || ask.event.outcome == Outcome::Failed(EACCES)
}
