//! Programs searched over PATH: execve that fails directory by directory (execvp(3)), and shells
//! that stat every directory before they start or miss a command.

use std::collections::{BTreeSet, HashMap, HashSet};

use recording::{Kind, Name, Outcome, ProcessId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DetectedStorm, Storm, StormSource};
use crate::source_path::SourcePath;
use crate::survey::{MetadataOp, OpId, OpSurvey, ProgramId, variable};
use crate::tally::OpTally;
use crate::words::{count, counted, operations};

/// execvp(3) goes on to the next directory after this error too.
const EACCES: u16 = 13;
/// The most commands that are named.
const COMMANDS: usize = 10;

/// What is searched over PATH, by whom and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PathSource {
    /// The program that searches most.
    PathSearcher {
        /// The program.
        program: String,
        /// Names that were searched for, by all programs.
        commands: u64,
        /// Metadata operations of this program.
        metadata_ops: u64,
        /// Of those, how many sent the search to the next directory (ENOENT, ENOTDIR, EACCES).
        failed: u64,
    },
    /// One directory of PATH.
    PathEntry {
        /// The directory.
        directory: SourcePath,
        /// Metadata operations in it.
        metadata_ops: u64,
        /// Of those, how many sent the search to the next directory.
        failed: u64,
        /// How many names were found in it by whomever, what was found at once included.
        had: u64,
    },
    /// A name that is searched for.
    Command {
        /// The name.
        command: Name,
        /// The directories it was looked for in.
        directories: u64,
        /// Metadata operations that sent the search to the next directory.
        failed: u64,
        /// The one file of that name that was executed; none where there is none, or several.
        executed: Option<SourcePath>,
    },
}

impl PathSource {
    pub(super) fn sentence(&self) -> String {
        match self {
            PathSource::PathSearcher { program, commands, metadata_ops, failed } => format!(
                "{program} looked for {}: {}, {} of these failed",
                counted(*commands, "command", "commands"),
                operations(*metadata_ops),
                count(*failed)
            ),
            PathSource::PathEntry { directory, failed, had, .. } => {
                let had = match had {
                    0 => "never had the command".to_owned(),
                    had => format!("had {}", counted(*had, "other", "others")),
                };
                format!(
                    "{directory} was searched {} in vain and {had}",
                    counted(*failed, "time", "times")
                )
            }
            PathSource::Command { command, directories, failed, .. } => format!(
                "{command} was looked for in {}: {}",
                counted(*directories, "directory", "directories"),
                counted(*failed, "failed lookup", "failed lookups")
            ),
        }
    }
}

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let path = PathDirectories::of(survey);
    let found = PathSearches::find(survey, &path);
    if found.failed == 0 {
        return None;
    }
    let widest = found.directories_a_search();
    let claim = found.claim.clone();
    Some(DetectedStorm {
        storm: Storm::Path,
        title: format!("programs were searched in up to {widest} directories of PATH"),
        cause:
            "a program named without its directory is tried in every directory of PATH, in order, \
                until one has it; shells remember where they found it, new processes do not"
                .to_owned(),
        observed: "failed execve calls are observed; stat and access calls count where one \
                   process looks for the same name in two or more directories of a PATH"
            .to_owned(),
        avoidable: found.failed,
        inferred: Some(found.inferred),
        time: None,
        sources: found.sources(survey).into_iter().map(StormSource::Path).collect(),
        evidence: "process",
        claim,
    })
}

/// The directories of all PATH variables of the recording.
struct PathDirectories<'a> {
    set: HashSet<&'a [u8]>,
}

impl<'a> PathDirectories<'a> {
    fn of(survey: &OpSurvey<'a>) -> PathDirectories<'a> {
        let mut path = PathDirectories { set: HashSet::new() };
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
struct PathSearches<'a> {
    claim: Vec<OpId>,
    /// Operations that sent the search to the next directory.
    failed: u64,
    /// stat and access calls: only the pattern says that they are searches.
    inferred: u64,
    directories: OpTally<&'a [u8]>,
    names: OpTally<&'a [u8]>,
    programs: OpTally<ProgramId>,
    directories_of_name: HashMap<&'a [u8], BTreeSet<&'a [u8]>>,
    /// Names that are in a directory.
    had: HashMap<&'a [u8], HashSet<&'a [u8]>>,
}

impl<'a> PathSearches<'a> {
    fn find(survey: &OpSurvey<'a>, path: &PathDirectories) -> PathSearches<'a> {
        let mut searches: HashMap<(ProcessId, &[u8]), Vec<OpId>> = HashMap::new();
        for (id, op) in survey.free() {
            if is_probe(&op, path) {
                searches.entry((op.process(), op.split().1)).or_default().push(id);
            }
        }
        let mut found = PathSearches::default();
        for op in survey.ops().filter(|op| is_hit(op, path)) {
            let (directory, name) = op.split();
            found.had.entry(directory).or_default().insert(name);
        }
        for ops in searches.into_values() {
            let failed: BTreeSet<_> = ops
                .iter()
                .map(|id| survey.op(*id))
                .filter(|op| has_failed(op))
                .map(|op| op.split().0)
                .collect();
            let exec = ops.iter().any(|id| survey.op(*id).kind == Kind::Exec);
            if failed.len() >= 2 || (exec && !failed.is_empty()) {
                ops.iter().for_each(|id| found.take(survey, *id));
            }
        }
        found.claim.sort_unstable();
        found
    }

    fn take(&mut self, survey: &OpSurvey<'a>, id: OpId) {
        let op = survey.op(id);
        let (directory, name) = op.split();
        let failed = has_failed(&op);
        self.claim.push(id);
        self.failed += u64::from(failed);
        self.inferred += u64::from(op.kind != Kind::Exec);
        self.directories.add(directory, failed);
        self.names.add(name, failed);
        self.directories_of_name.entry(name).or_default().insert(directory);
        self.programs.add(op.program, failed);
    }

    /// The most directories that one name was looked for in.
    fn directories_a_search(&self) -> u64 {
        self.directories_of_name.values().map(BTreeSet::len).max().unwrap_or(0) as u64
    }

    fn sources(&self, survey: &OpSurvey) -> Vec<PathSource> {
        let mut sources = Vec::new();
        if let Some((program, counted)) = self.programs.top() {
            sources.push(PathSource::PathSearcher {
                program: survey.full_name(program).to_owned(),
                commands: self.names.len(),
                metadata_ops: counted.ops,
                failed: counted.failed,
            });
        }
        for (directory, counted) in self.directories.by_failed().into_iter().take(3) {
            sources.push(PathSource::PathEntry {
                directory: survey.source_directory(directory),
                metadata_ops: counted.ops,
                failed: counted.failed,
                had: self.had.get(directory).map_or(0, HashSet::len) as u64,
            });
        }
        sources.extend(self.commands(survey));
        sources
    }

    /// The names that are searched for: the first in any case, the others where it is known what
    /// they are.
    fn commands(&self, survey: &OpSurvey) -> Vec<PathSource> {
        let executed = executed(survey);
        let names = self.names.by_failed().into_iter().filter(|(_, counted)| counted.failed > 0);
        let named = names.enumerate().filter_map(|(at, (name, counted))| {
            let path = executed.get(name).copied().flatten();
            (at == 0 || path.is_some()).then(|| PathSource::Command {
                command: survey.name_of(name),
                directories: self.directories_of_name.get(name).map_or(0, BTreeSet::len) as u64,
                failed: counted.failed,
                executed: path.map(|path| survey.source_directory(path)),
            })
        });
        named.take(COMMANDS).collect()
    }
}

/// The files that were executed, by name; none where several have it: it then depends on who runs
/// it.
fn executed<'s>(survey: &'s OpSurvey) -> HashMap<&'s [u8], Option<&'s [u8]>> {
    let mut files = HashMap::new();
    for op in survey.ops().filter(|op| op.kind == Kind::Exec && op.succeeded()) {
        let known = files.entry(op.split().1).or_insert(Some(op.path));
        *known = known.filter(|path| *path == op.path);
    }
    files
}

/// Whether an operation can be part of a search over PATH.
fn is_probe(op: &MetadataOp, path: &PathDirectories) -> bool {
    if op.event.in_loader || op.split().1.is_empty() {
        return false;
    }
    match op.kind {
        Kind::Exec => has_failed(op),
        Kind::Stat | Kind::Access => path.set.contains(op.split().0),
        _ => false,
    }
}

/// Whether an operation shows that a directory of PATH has a file of that name.
fn is_hit(op: &MetadataOp, path: &PathDirectories) -> bool {
    let is_look = matches!(op.kind, Kind::Exec | Kind::Stat | Kind::Access);
    is_look && op.succeeded() && !op.event.in_loader && path.set.contains(op.split().0)
}

/// Whether the search went on after it.
fn has_failed(op: &MetadataOp) -> bool {
    op.is_enoent() || op.event.outcome == Outcome::Failed(EACCES)
}
