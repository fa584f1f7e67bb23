//! Directories listed by the hundred: find, du, ls -R, git status, rm -r, os.walk.

use std::collections::{HashMap, HashSet};

use recording::module_search::distribution;
use recording::{Kind, Name, ProcessId, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::walk_module::PythonWalk;
use super::{DetectedStorm, Storm, StormSource};
use crate::source_path::SourcePath;
use crate::survey::{MetadataOp, OpId, OpSurvey, ProgramId, split};
use crate::tally::OpTally;
use crate::words::{counted, operations};

/// Where in its imports a program was, by the files of modules that it opened: inferred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportsAround {
    /// The module whose file was opened last before.
    pub after: Name,
    /// The one whose file was opened first after; none where no more was imported.
    pub before: Option<Name>,
}

/// A process that lists fewer directories does not walk. A shell that expands `*` lists one a glob.
const DIRECTORIES: usize = 50;

/// Who walks, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WalkSource {
    /// The program that walks most.
    Walker {
        /// The program.
        program: String,
        /// Whether it may as well be a module that a Python program imports.
        or_module: bool,
        /// The Python module that walks: one that is known to, on what only it lists, after its own
        /// file was opened.
        #[serde(default)]
        module: Option<Name>,
        /// Where in a Python program's imports the walk begins.
        #[serde(default)]
        imports: Option<ImportsAround>,
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
            WalkSource::Walker {
                program,
                or_module,
                module,
                imports,
                directories,
                processes,
                metadata_ops,
            } => {
                // The calls do not tell the script from what it imports.
                let module = match (module, imports) {
                    (Some(module), _) => format!("'s module {module}"),
                    (None, Some(ImportsAround { after, before: Some(before) })) => {
                        format!(", between the imports of {after} and {before},")
                    }
                    (None, Some(ImportsAround { after, before: None })) => {
                        format!(", after its last import ({after}),")
                    }
                    (None, None) if *or_module => ", or a module that it imports,".to_owned(),
                    (None, None) => String::new(),
                };
                format!(
                    "{program}{module} looked into {} in {}: {}, {:.1} a directory",
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
    let sources = walks.sources(survey, directories);
    let directories = counted(directories, "directory", "directories");
    Some(DetectedStorm {
        storm: Storm::Walk,
        title: match sources.first() {
            Some(WalkSource::Walker { module: Some(module), .. }) => {
                format!("{program}'s module {module} looked into {directories}")
            }
            _ => format!("{program} listed {directories}"),
        },
        cause:
            "each directory of a walk is opened and listed, and most walks then stat every entry \
                of it"
                .to_owned(),
        observed: format!(
            "processes that listed {DIRECTORIES} directories or more (or, in Python, looked into as \
             many distributions), and their operations on these directories' entries"
        ),
        avoidable,
        inferred: None,
        time: None,
        sources: sources.into_iter().map(StormSource::Walk).collect(),
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
        // What distributions say of themselves is asked of each, listed or not.
        for (_, op) in survey.free().filter(|(_, op)| op.role == Role::Python && !is_service(op)) {
            if let Some(directory) = distribution(op.path) {
                listed.entry(op.process()).or_default().insert(directory);
            }
        }
        listed.retain(|_, directories| directories.len() >= DIRECTORIES);
        let mut walks = Walks { listed, ..Walks::default() };
        for (id, op) in survey.free() {
            if let Some(directory) = walks.directory_of(&op) {
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
            let python = PythonWalk::of(survey, &self.claim);
            sources.push(WalkSource::Walker {
                program: survey.full_name(program).to_owned(),
                or_module: self.of_python * 2 > self.claim.len() as u64,
                module: python.as_ref().and_then(PythonWalk::module),
                imports: python.as_ref().and_then(PythonWalk::imports),
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
