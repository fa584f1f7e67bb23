//! The metadata operations of Python's imports, as a value.

use std::collections::BTreeMap;

use recording::Micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trouble::PythonTrouble;
use recording::module_search::LookupReason;

/// The metadata operations of Python's imports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportScan {
    /// How the nesting of imports is known.
    pub nesting: Nesting,
    /// The runs of Python in it, in the order of their starts.
    pub pythons: Vec<Python>,
    /// All metadata operations of the recording, the hook's taken out.
    pub all: ImportCounts,
    /// Those of Python's runs.
    pub python: ImportCounts,
    /// Those made for imports.
    pub imports: ImportCounts,
    /// The same by reason, most first.
    pub reasons: Vec<ByReason>,
    /// The imports, in the order of their first begin.
    pub modules: Vec<Import>,
    /// The same by the first part of their names, most operations first.
    pub packages: Vec<PackageImports>,
    /// The entries of `sys.path` that are known, in their order.
    pub sys_path: Vec<ScannedPathEntry>,
    /// What one entry more costs.
    pub slope: Option<Slope>,
    /// What is out of the ordinary, most operations first.
    pub troubles: Vec<PythonTrouble>,
}

/// How the nesting of imports is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Nesting {
    /// Each interpreter said what it imports, from module `site` on.
    Exact,
    /// Some did, some did not.
    Mixed,
    /// None did: files name their modules, and modules are below their packages.
    ByPath,
}

/// Metadata operations, counted in three ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportCounts {
    /// All of them.
    pub metadata_ops: u64,
    /// How many different paths they named.
    pub distinct: u64,
    /// How many ended with ENOENT or ENOTDIR.
    pub enoent: u64,
}

/// One run of Python: a process, from its exec on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Python {
    /// The file that runs.
    pub program: String,
    /// Its arguments.
    pub argv: Vec<String>,
    /// Its process id.
    pub pid: u32,
    /// Whether it said what it imports.
    pub exact: bool,
    /// Its metadata operations, the hook's taken out.
    pub counts: ImportCounts,
}

/// Operations of one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ByReason {
    /// The reason.
    pub reason: LookupReason,
    /// The operations.
    #[serde(flatten)]
    pub counts: ImportCounts,
}

/// A module, imported below another (or at the top).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Import {
    /// Its dotted name.
    pub module: String,
    /// The import in which it was made, by its place in the list.
    pub parent: Option<usize>,
    /// How many imports it is in.
    pub depth: u64,
    /// Whether it was seen to begin and end; else a file's path named it.
    pub exact: bool,
    /// How often: more than once in several processes, or where it failed.
    pub times: u64,
    /// The first file that answered for it.
    pub file: Option<String>,
    /// Those for it alone.
    pub own: ImportCounts,
    /// The same with all imports that were made in it.
    pub cumulative: ImportCounts,
    /// Its own operations by reason.
    pub reasons: BTreeMap<LookupReason, u64>,
    /// How long it took, in a run that was not recorded.
    pub time: Option<Time>,
}

/// What `python -X importtime` says of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Time {
    /// Without the imports that were made in it.
    #[serde(rename = "own_us")]
    pub own: Micros,
    /// With them.
    #[serde(rename = "cumulative_us")]
    pub cumulative: Micros,
}

/// All modules whose names begin with the same part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PackageImports {
    /// That part: `numpy`.
    pub package: String,
    /// How many modules.
    pub modules: u64,
    /// The operations for them.
    #[serde(flatten)]
    pub counts: ImportCounts,
}

/// An entry of `sys.path`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScannedPathEntry {
    /// The directory, or the zipped package.
    pub path: String,
    /// Whether PYTHONPATH names it.
    pub from_pythonpath: bool,
    /// Operations for imports, on it and below it.
    #[serde(flatten)]
    pub counts: ImportCounts,
    /// Those on the directory itself, which are made whether or not a module is found in it.
    pub itself: u64,
    /// How many modules, and packages with all in them, were found in it.
    pub found: u64,
}

/// What one entry more on `sys.path` costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slope {
    /// Operations on the directory of an entry itself: the mean.
    pub metadata_ops_per_entry: f64,
    /// Of how many entries: those of PYTHONPATH, if it names any, else the one with the
    /// most.
    pub entries: u64,
    /// Whether they are PYTHONPATH's.
    pub of_pythonpath: bool,
}
