//! Environment Modules or Lmod walking a modulepath.

use std::collections::HashSet;

use recording::query::clean;
use recording::{Cause, Exec, Kind, PathId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DetectedStorm, Storm, StormSource};
use crate::source_path::SourcePath;
use crate::survey::{MetadataOp, OpId, OpSurvey, split, variable};
use crate::tally::OpTally;
use crate::words::{count, counted, listed, operations, percent};

/// What makes the module tool read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModulesSource {
    /// One directory of MODULEPATH.
    Modulepath {
        /// The directory.
        directory: SourcePath,
        /// Metadata operations below it.
        metadata_ops: u64,
        /// Of those, failed lookups.
        enoent: u64,
    },
    /// What was read below all of them.
    Modulefiles {
        /// Which tool reads.
        tool: ModuleTool,
        /// Directories that were listed.
        directories: u64,
        /// Modulefiles that were opened.
        modulefiles: u64,
        /// rc files that were opened.
        rc_files: u64,
    },
    /// Which sub-commands read; only where there are several.
    Subcommands {
        /// The sub-commands, most operations first.
        subcommands: Vec<SubcommandOps>,
    },
}

/// Which module tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModuleTool {
    /// Environment Modules.
    #[default]
    Modules,
    /// Lmod.
    Lmod,
}

/// How many operations one sub-command made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubcommandOps {
    /// `avail`, `load`…
    pub subcommand: String,
    /// Metadata operations below a modulepath.
    pub metadata_ops: u64,
}

impl ModulesSource {
    pub(super) fn sentence(&self, of: u64) -> String {
        match self {
            ModulesSource::Modulepath { directory, metadata_ops, .. } => format!(
                "modulepath {directory}: {}, {} of all that the tool made",
                operations(*metadata_ops),
                percent(*metadata_ops, of)
            ),
            ModulesSource::Modulefiles { directories, modulefiles, rc_files, .. } => format!(
                "{} listed, {} and {} opened",
                counted(*directories, "directory", "directories"),
                counted(*modulefiles, "modulefile", "modulefiles"),
                counted(*rc_files, "rc file", "rc files"),
            ),
            ModulesSource::Subcommands { subcommands } => {
                let each = subcommands.iter();
                let each =
                    each.map(|it| format!("`module {}` {}", it.subcommand, count(it.metadata_ops)));
                format!("metadata operations by sub-command: {}", listed(&each.collect::<Vec<_>>()))
            }
        }
    }
}

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let walk = ModuletreeWalk::find(survey);
    // What the tool reads for itself, without any modulepath, no cure of the tree changes.
    if walk.paths.len() == 0 {
        return None;
    }
    let files = walk.files.len() as u64;
    let subcommand = walk.subcommands.top().map(|(word, _)| word).unwrap_or_default();
    Some(DetectedStorm {
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
        avoidable: walk.paths.by_ops().iter().map(|(_, count)| count.ops).sum(),
        inferred: None,
        time: None,
        sources: walk.sources(survey).into_iter().map(StormSource::Modules).collect(),
        evidence: "module",
        claim: walk.claim,
    })
}

#[derive(Default)]
struct ModuletreeWalk {
    claim: Vec<OpId>,
    /// Directories of MODULEPATH, and the operations below them.
    paths: OpTally<Vec<u8>>,
    /// Modulefiles that were opened.
    files: HashSet<PathId>,
    /// rc files that were opened.
    rc_files: HashSet<PathId>,
    /// Directories that were listed.
    directories: HashSet<PathId>,
    subcommands: OpTally<String>,
    tool: ModuleTool,
}

impl ModuletreeWalk {
    fn find(survey: &OpSurvey) -> ModuletreeWalk {
        let paths = modulepaths(survey);
        let mut walk = ModuletreeWalk::default();
        for (id, op) in survey.free().filter(|(_, op)| op.why.cause == Cause::ModuleTool) {
            walk.claim.push(id);
            let Some(modulepath) = paths.iter().find(|directory| is_below(op.path, directory))
            else {
                continue;
            };
            walk.paths.add(modulepath.clone(), op.is_enoent());
            walk.see(survey, &op);
        }
        walk
    }

    /// Takes in an operation below a modulepath.
    fn see(&mut self, survey: &OpSurvey, op: &MetadataOp) {
        if let Some(exec) = op.exec {
            self.subcommands.add(subcommand(exec), op.is_enoent());
            if split(survey.recording.path(exec.image)).1.starts_with(b"lua") {
                self.tool = ModuleTool::Lmod;
            }
        }
        let (Some(path), true) = (op.path_id, op.succeeded()) else { return };
        match op.kind {
            Kind::List => {
                self.directories.insert(path);
                self.files.remove(&path);
            }
            Kind::Open if is_rc(op.split().1) => {
                self.rc_files.insert(path);
            }
            Kind::Open if !self.directories.contains(&path) => {
                self.files.insert(path);
            }
            _ => {}
        }
    }

    fn sources(&self, survey: &OpSurvey) -> Vec<ModulesSource> {
        let mut sources = Vec::new();
        for (path, counted) in self.paths.by_ops().into_iter().take(3) {
            sources.push(ModulesSource::Modulepath {
                directory: survey.source_directory(&path),
                metadata_ops: counted.ops,
                enoent: counted.failed,
            });
        }
        sources.push(ModulesSource::Modulefiles {
            tool: self.tool,
            directories: self.directories.len() as u64,
            modulefiles: self.files.len() as u64,
            rc_files: self.rc_files.len() as u64,
        });
        let runs = self.subcommands.by_ops().into_iter().take(3);
        let subcommands: Vec<_> = runs
            .map(|(subcommand, counted)| SubcommandOps { subcommand, metadata_ops: counted.ops })
            .collect();
        if subcommands.len() > 1 {
            sources.push(ModulesSource::Subcommands { subcommands });
        }
        sources
    }
}

/// The directories of all MODULEPATH variables of the recording, deepest first.
fn modulepaths(survey: &OpSurvey) -> Vec<Vec<u8>> {
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
