//! Python modules searched over `sys.path`.
//!
//! CPython's FileFinder (importlib) stats each directory of `sys.path` in turn at every import,
//! to see whether its listing of it is still right, then looks for the module's files in the
//! first directory that lists a fitting name. So the directories, not the misses, are the cost.

use std::collections::{HashMap, HashSet};

use recording::module_search::SysPath;
use recording::{Cause, Kind, PathId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DetectedStorm, Storm, StormSource};
use crate::source_path::SourcePath;
use crate::survey::{MetadataOp, OpId, OpSurvey, ProgramId, split};
use crate::tally::OpTally;
use crate::words::{count, counted, operations};

/// What makes imports search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PythonSource {
    /// PYTHONPATH.
    Pythonpath {
        /// Directories of `sys.path`.
        directories: u64,
        /// Of those, how many PYTHONPATH names.
        named: u64,
        /// Metadata operations that each of these costs, whatever is in it.
        metadata_ops_each: u64,
    },
    /// One directory of `sys.path`.
    SysPathEntry {
        /// The directory.
        directory: SourcePath,
        /// Metadata operations in it.
        metadata_ops: u64,
        /// Of those, failed lookups.
        enoent: u64,
        /// Of them, those on the directory itself: one an import that comes by.
        own: u64,
    },
    /// Bytecode that is compiled anew.
    Bytecode {
        /// Files that were written.
        written: u64,
    },
    /// The program that imports.
    Importer {
        /// The program.
        program: String,
        /// Module files that it read.
        files: u64,
        /// Metadata operations.
        metadata_ops: u64,
    },
    /// The environment that most modules were searched in, if that is not the system's own.
    Environment {
        /// Its directory.
        directory: SourcePath,
        /// Metadata operations in its directories of `sys.path`.
        metadata_ops: u64,
    },
}

impl PythonSource {
    pub(super) fn sentence(&self) -> String {
        match self {
            PythonSource::Pythonpath { directories, named, metadata_ops_each } => format!(
                "PYTHONPATH gave {} of the {} directories; each costs {} before any module is read",
                count(*named),
                count(*directories),
                operations(*metadata_ops_each)
            ),
            PythonSource::SysPathEntry { directory, metadata_ops, enoent, .. } => {
                let metadata_ops = operations(*metadata_ops);
                format!("{directory}: {metadata_ops}, {} of these failed", count(*enoent))
            }
            PythonSource::Bytecode { written } => format!(
                "{} bytecode files were compiled and written: the stored ones do not fit their \
                 sources (another time of change, or none)",
                count(*written)
            ),
            PythonSource::Importer { program, files, metadata_ops } => format!(
                "{program} imported {} with {}",
                counted(*files, "file", "files"),
                operations(*metadata_ops)
            ),
            PythonSource::Environment { directory, metadata_ops } => {
                format!("{directory}: the environment, with {}", operations(*metadata_ops))
            }
        }
    }
}

/// Fewer bytecode files written are a module that was just edited.
const WRITES: u64 = 20;

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let imports = Imports::find(survey);
    let avoidable = imports.claim.len() as u64 - imports.files.len() as u64;
    if avoidable == 0 {
        return None;
    }
    let directories = survey.sys_path.entries().len() as u64;
    Some(DetectedStorm {
        storm: Storm::Python,
        title: format!(
            "modules were searched in {} of sys.path",
            counted(directories, "directory", "directories")
        ),
        cause: "at each import Python stats every directory of sys.path, in order, and then looks \
                for the module's source, bytecode and package files in the first that may have it"
            .to_owned(),
        observed: "a Python process's operations on modules and the directories of sys.path: \
                   inferred from the path"
            .to_owned(),
        avoidable,
        inferred: Some(imports.claim.len() as u64),
        time: None,
        sources: imports.sources(survey).into_iter().map(StormSource::Python).collect(),
        evidence: "module",
        claim: imports.claim,
    })
}

/// The operations in one directory of `sys.path`.
#[derive(Clone, Copy, Default)]
struct SysPathEntry {
    ops: u64,
    failed: u64,
    /// Operations on the directory itself: one an import that comes by.
    own: u64,
    /// Whether PYTHONPATH names it.
    is_named: bool,
}

#[derive(Default)]
struct Imports<'a> {
    claim: Vec<OpId>,
    entries: HashMap<&'a [u8], SysPathEntry>,
    /// The module files that were opened.
    files: HashSet<PathId>,
    /// Bytecode files that were written.
    writes: u64,
    programs: OpTally<ProgramId>,
}

impl<'a> Imports<'a> {
    fn find(survey: &OpSurvey<'a>) -> Imports<'a> {
        let mut imports = Imports::default();
        for (id, op) in survey.free().filter(|(_, op)| op.why.cause == Cause::PythonImport) {
            imports.claim.push(id);
            imports.take(&op, &survey.sys_path);
        }
        imports
    }

    fn take(&mut self, op: &MetadataOp<'a>, sys_path: &SysPath) {
        let path = op.path;
        self.programs.add(op.program, op.is_enoent());
        let (_, name) = split(path);
        let is_read = op.kind == Kind::Open && op.succeeded() && is_module(name);
        if let (true, Some(file)) = (is_read, op.path_id) {
            self.files.insert(file);
        }
        // CPython writes FILE.pyc.NUMBER and renames it.
        self.writes += u64::from(op.kind == Kind::Change && op.succeeded() && is_bytecode(path));
        let Some(directory) = sys_path.entry_of(path) else { return };
        let entry = self.entries.entry(directory).or_default();
        entry.ops += 1;
        entry.failed += u64::from(op.is_enoent());
        entry.own += u64::from(directory == path && op.kind == Kind::Stat);
        entry.is_named = sys_path.is_from_pythonpath(directory);
    }

    /// What one directory of PYTHONPATH more costs: the operations on itself.
    fn slope(&self) -> Option<u64> {
        let named: Vec<_> = self.entries.values().filter(|entry| entry.is_named).collect();
        let own: u64 = named.iter().map(|entry| entry.own).sum();
        (own > 0).then(|| own.div_ceil(named.len() as u64))
    }

    fn by_ops(&self) -> Vec<(&'a [u8], SysPathEntry)> {
        let mut entries: Vec<_> =
            self.entries.iter().map(|(directory, entry)| (*directory, *entry)).collect();
        entries.sort_by(|(a, left), (b, right)| right.ops.cmp(&left.ops).then(a.cmp(b)));
        entries
    }

    fn named(&self) -> u64 {
        self.entries.values().filter(|entry| entry.is_named).count() as u64
    }

    fn sources(&self, survey: &OpSurvey) -> Vec<PythonSource> {
        let mut sources = Vec::new();
        if let Some(metadata_ops_each) = self.slope() {
            let (directories, named) = (survey.sys_path.entries().len() as u64, self.named());
            sources.push(PythonSource::Pythonpath { directories, named, metadata_ops_each });
        }
        for (directory, entry) in self.by_ops().into_iter().take(3) {
            sources.push(PythonSource::SysPathEntry {
                directory: survey.source_directory(directory),
                metadata_ops: entry.ops,
                enoent: entry.failed,
                own: entry.own,
            });
        }
        if self.writes >= WRITES {
            sources.push(PythonSource::Bytecode { written: self.writes });
        }
        if let Some((program, counted)) = self.programs.top() {
            sources.push(PythonSource::Importer {
                program: survey.full_name(program).to_owned(),
                files: self.files.len() as u64,
                metadata_ops: counted.ops,
            });
        }
        if let Some((prefix, metadata_ops)) = self.environment() {
            let directory = survey.source_directory(prefix);
            sources.push(PythonSource::Environment { directory, metadata_ops });
        }
        sources
    }

    /// The environment with most operations, if that is not the system's own, and how many.
    fn environment(&self) -> Option<(&'a [u8], u64)> {
        let mut prefixes = OpTally::default();
        for (directory, entry) in &self.entries {
            prefixes.count(prefix_of(directory).unwrap_or_default(), entry.ops);
        }
        let (prefix, counted) = prefixes.top()?;
        (!prefix.is_empty()).then_some((prefix, counted.ops))
    }
}

fn is_module(name: &[u8]) -> bool {
    [&b".py"[..], b".pyc", b".so"].iter().any(|end| name.ends_with(end))
}

/// Whether it is a file of a `__pycache__` directory, or such a directory.
fn is_bytecode(path: &[u8]) -> bool {
    let (above, name) = split(path);
    name == b"__pycache__" || split(above).1 == b"__pycache__"
}

fn is_site(name: &[u8]) -> bool {
    matches!(name, b"site-packages" | b"dist-packages" | b"lib-dynload")
        || (name.starts_with(b"python") && name.ends_with(b".zip"))
}

/// The standard library: `lib/python3.11`.
fn is_library(name: &[u8], above: &[u8]) -> bool {
    let is_version = |rest: &[u8]| rest.first().is_some_and(u8::is_ascii_digit);
    let (_, parent) = split(above);
    name.strip_prefix(b"python").is_some_and(is_version) && matches!(parent, b"lib" | b"lib64")
}

/// The environment that a directory of `sys.path` belongs to; none for the system's own.
fn prefix_of(directory: &[u8]) -> Option<&[u8]> {
    let (above, name) = split(directory);
    let library = if is_site(name) { above } else { directory };
    let (lib, python) = split(library);
    let (prefix, _) = split(lib);
    let is_own = !matches!(prefix, b"" | b"/" | b"/usr" | b"/usr/local");
    (is_library(python, lib) && is_own).then_some(prefix)
}
