//! Directories listed by the hundred: find, du, ls -R, git status, rm -r, os.walk.

use std::collections::{HashMap, HashSet};

use recording::{Kind, ProcessId, Role};
use serde::{Deserialize, Serialize};

use super::{DetectedStorm, Storm, StormSource};
use crate::source_path::SourcePath;
use crate::survey::{MetadataOp, OpId, OpSurvey, ProgramId, split};
use crate::tally::OpTally;
use crate::words::{counted, operations};

/// A process that lists fewer directories does not walk. A shell that expands `*` lists one a glob.
const DIRECTORIES: usize = 50;

/// Who walks, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WalkSource {
    /// The program that walks most.
    Walker {
        /// The program.
        program: String,
        /// Whether it may as well be a module that a Python program imports.
        or_module: bool,
        /// Directories listed, by all programs.
        directories: u64,
        /// Processes that walked.
        processes: u64,
        /// Metadata operations of this program.
        metadata_ops: u64,
    },
    /// A directory where a walk began.
    WalkedTree {
        /// The directory.
        directory: SourcePath,
        /// Metadata operations below it.
        metadata_ops: u64,
        /// Of those, failed lookups.
        enoent: u64,
    },
}

impl WalkSource {
    pub(super) fn sentence(&self) -> String {
        match self {
            WalkSource::Walker { program, or_module, directories, processes, metadata_ops } => {
                // The calls do not tell the script from what it imports.
                let module = match or_module {
                    true => ", or a module that it imports (importlib.metadata, pkg_resources),",
                    false => "",
                };
                format!(
                    "{program}{module} listed {} in {}: {}, {:.1} a directory",
                    counted(*directories, "directory", "directories"),
                    counted(*processes, "process", "processes"),
                    operations(*metadata_ops),
                    *metadata_ops as f64 / (*directories).max(1) as f64,
                )
            }
            WalkSource::WalkedTree { directory, metadata_ops, .. } => {
                format!("below {directory}: {}", operations(*metadata_ops))
            }
        }
    }
}

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let walks = Walks::find(survey);
    let avoidable = walks.claim.len() as u64;
    if avoidable == 0 {
        return None;
    }
    let (program, _) = walks.programs.top()?;
    let program = survey.name(program);
    let directories = walks.directories();
    Some(DetectedStorm {
        storm: Storm::Walk,
        title: format!("{program} listed {}", counted(directories, "directory", "directories")),
        cause:
            "each directory of a walk is opened and listed, and most walks then stat every entry \
                of it"
                .to_owned(),
        observed: format!(
            "processes that listed {DIRECTORIES} directories or more, and their operations on these \
             directories' entries"
        ),
        avoidable,
        inferred: None,
        time: None,
        sources: walks.sources(survey, directories).into_iter().map(StormSource::Walk).collect(),
        evidence: "prefix",
        claim: walks.claim,
    })
}

#[derive(Default)]
struct Walks<'a> {
    claim: Vec<OpId>,
    programs: OpTally<ProgramId>,
    /// Operations of Python processes.
    of_python: u64,
    /// Directories where a walk began, and the operations below them.
    roots: OpTally<&'a [u8]>,
    listed: HashMap<ProcessId, HashSet<&'a [u8]>>,
}

impl<'a> Walks<'a> {
    fn find(survey: &OpSurvey<'a>) -> Walks<'a> {
        let mut listed: HashMap<ProcessId, HashSet<&[u8]>> = HashMap::new();
        for (_, op) in survey.free().filter(|(_, op)| op.kind == Kind::List && !is_service(op)) {
            listed.entry(op.process()).or_default().insert(op.path);
        }
        listed.retain(|_, directories| directories.len() >= DIRECTORIES);
        let mut walks = Walks { listed, ..Walks::default() };
        for (id, op) in survey.free() {
            if let Some(directory) = walks.directory_of(op) {
                walks.claim.push(id);
                walks.programs.add(op.program, op.is_enoent());
                walks.of_python += u64::from(op.role == Role::Python);
                walks.roots.add(walks.root_of(op.process(), directory), op.is_enoent());
            }
        }
        walks
    }

    /// The listed directory that an operation of a walk is about.
    fn directory_of(&self, op: &MetadataOp<'a>) -> Option<&'a [u8]> {
        if is_service(op) {
            return None;
        }
        let listed = self.listed.get(&op.process())?;
        let directory = op.split().0;
        match op.kind {
            Kind::List | Kind::Open if listed.contains(op.path) => Some(op.path),
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

    fn sources(&self, survey: &OpSurvey, directories: u64) -> Vec<WalkSource> {
        let mut sources = Vec::new();
        if let Some((program, counted)) = self.programs.top() {
            sources.push(WalkSource::Walker {
                program: survey.full_name(program).to_owned(),
                or_module: self.of_python * 2 > self.claim.len() as u64,
                directories,
                processes: self.listed.len() as u64,
                metadata_ops: counted.ops,
            });
        }
        for (root, counted) in self.roots.by_ops().into_iter().take(3) {
            sources.push(WalkSource::WalkedTree {
                directory: survey.source_directory(root),
                metadata_ops: counted.ops,
                enoent: counted.failed,
            });
        }
        sources
    }
}

/// What the loader does is no part of a walk.
fn is_service(op: &MetadataOp) -> bool {
    op.event.in_loader
}
