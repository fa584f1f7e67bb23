//! Directories listed by the hundred: find, du, ls -R, git status, rm -r, os.walk.

use std::collections::{HashMap, HashSet};

use recording::{Kind, ProcessId, Role};

use super::{Case, culprit};
use crate::findings::{Culprit, Storm};
use crate::survey::{Ask, AskId, ProgramId, Survey, split};
use crate::tally::Tally;
use crate::threshold::is_storm;
use crate::words::{counted, questions};

/// A process that lists fewer directories does not walk. A shell that expands `*` lists one a glob.
const DIRECTORIES: usize = 50;

pub(super) fn detect(survey: &Survey) -> Option<Case> {
    let walks = Walks::find(survey);
    let avoidable = walks.claim.len() as u64;
    if !is_storm(avoidable, survey.total()) {
        return None;
    }
    let (program, _) = walks.programs.top()?;
    let program = survey.name(program);
    let directories = walks.directories();
    Some(Case {
        storm: Storm::Walk,
        title: format!("{program} listed {}", counted(directories, "directory", "directories")),
        cause: "each directory of a walk is opened and listed, and most walks then ask for the \
                attributes of every entry, one question each"
            .to_owned(),
        observed: format!(
            "processes that listed {DIRECTORIES} directories or more, and what they asked of these \
             directories' entries"
        ),
        avoidable,
        guessed: None,
        time: None,
        culprits: walks.culprits(survey, directories),
        next: Vec::new(),
        evidence: "prefix".to_owned(),
        claim: walks.claim,
    })
}

#[derive(Default)]
struct Walks<'a> {
    claim: Vec<AskId>,
    programs: Tally<ProgramId>,
    /// Operations of Python processes.
    of_python: u64,
    /// Directories where a walk began, and what was asked below them.
    roots: Tally<&'a [u8]>,
    listed: HashMap<ProcessId, HashSet<&'a [u8]>>,
}

impl<'a> Walks<'a> {
    fn find(survey: &Survey<'a>) -> Walks<'a> {
        let mut listed: HashMap<ProcessId, HashSet<&[u8]>> = HashMap::new();
        for (_, ask) in survey.free().filter(|(_, ask)| ask.kind == Kind::List && !is_service(ask))
        {
            listed.entry(ask.process()).or_default().insert(ask.path);
        }
        listed.retain(|_, directories| directories.len() >= DIRECTORIES);
        let mut walks = Walks { listed, ..Walks::default() };
        for (id, ask) in survey.free() {
            if let Some(directory) = walks.directory_of(ask) {
                walks.claim.push(id);
                walks.programs.add(ask.program, ask.is_missing());
                walks.of_python += u64::from(ask.role == Role::Python);
                walks.roots.add(walks.root_of(ask.process(), directory), ask.is_missing());
            }
        }
        walks
    }

    /// The listed directory that an operation of a walk is about.
    fn directory_of(&self, ask: &Ask<'a>) -> Option<&'a [u8]> {
        if is_service(ask) {
            return None;
        }
        let listed = self.listed.get(&ask.process())?;
        let directory = ask.split().0;
        match ask.kind {
            Kind::List | Kind::Open if listed.contains(ask.path) => Some(ask.path),
            Kind::Open | Kind::Stat | Kind::Access | Kind::Readlink
                if listed.contains(directory) =>
            {
                Some(directory)
            }
            _ => None,
        }
    }

    /// The highest listed directory above a listed directory, the root itself left out.
    fn root_of(&self, process: ProcessId, directory: &'a [u8]) -> &'a [u8] {
        let Some(listed) = self.listed.get(&process) else { return directory };
        let (mut root, mut above) = (directory, split(directory).0);
        while above.len() > 1 {
            if listed.contains(above) {
                root = above;
            }
            above = split(above).0;
        }
        root
    }

    fn directories(&self) -> u64 {
        self.listed.values().map(|directories| directories.len() as u64).sum()
    }

    fn culprits(&self, survey: &Survey, directories: u64) -> Vec<Culprit> {
        let mut culprits = Vec::new();
        if let Some((program, asked)) = self.programs.top() {
            let name = survey.full_name(program);
            let mut program = name.to_owned();
            // The calls do not tell the script from what it imports.
            if self.of_python * 2 > self.claim.len() as u64 {
                program += ", or a module that it imports (importlib.metadata, pkg_resources),";
            }
            let processes = self.listed.len() as u64;
            let text = format!(
                "{program} listed {} in {}: {}, {:.1} a directory",
                counted(directories, "directory", "directories"),
                counted(processes, "process", "processes"),
                questions(asked.asks),
                asked.asks as f64 / directories.max(1) as f64,
            );
            let numbers = [
                ("directories", directories),
                ("processes", processes),
                ("operations", asked.asks),
            ];
            culprits.push(culprit("program", name, text, &numbers));
        }
        for (root, asked) in self.roots.by_asks().into_iter().take(3) {
            let root = survey.shown(root);
            let text = format!("below {root}: {}", questions(asked.asks));
            let numbers = [("operations", asked.asks), ("missing", asked.missing)];
            culprits.push(culprit("directory", root, text, &numbers));
        }
        culprits
    }
}

/// What the loader asks is no part of a walk.
fn is_service(ask: &Ask) -> bool {
    ask.event.in_loader
}
