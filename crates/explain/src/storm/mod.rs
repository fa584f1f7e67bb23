//! The storms, one file each: what belongs to it, what its sources are, and how it is detected.
//!
//! A detector looks at the operations that are still free, claims those that are its storm's,
//! and names their sources. What one finds is [a storm](crate::threshold) if it is waited for long
//! enough; otherwise its operations stay free.
//!
//! A storm is registered here and nowhere else in this crate: its file, its name in [`Storm`], its
//! sources in [`StormSource`], its detector in [`DETECTORS`].

mod configuration;
pub(crate) mod data;
mod dlopen;
mod files;
mod fork;
mod given_files;
mod loader;
mod locale;
mod modules;
mod path;
mod python;
mod repeat;
mod repeat_reason;
mod search_list;
mod walk;
mod walk_module;

use recording::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::survey::{OpId, OpSurvey};

pub use configuration::ConfigurationSource;
pub use data::DataSource;
pub use files::FilesSource;
pub use fork::{CallerLine, ForkSource};
pub use loader::{AllLists, LoaderSource, OneList};
pub use locale::LocaleSource;
pub use modules::{ModuleTool, ModulesSource, SubcommandOps};
pub use path::PathSource;
pub use python::PythonSource;
pub use repeat::RepeatSource;
pub use repeat_reason::RepeatReason;
pub use search_list::{FoundList, SearchListSource};
pub use walk::{ImportsAround, WalkSource};

/// The storms that are known.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Storm {
    /// Libraries searched at program start.
    Loader,
    /// Libraries searched by a running program.
    Dlopen,
    /// Python modules searched over `sys.path`.
    Python,
    /// Environment Modules or Lmod walking a modulepath.
    Modules,
    /// The same program run over and over.
    Fork,
    /// Locales, message catalogues, character set converters.
    Locale,
    /// Programs searched over PATH.
    Path,
    /// Names searched in the directories of any other list.
    SearchList,
    /// Metadata operations on the same path again and again.
    Repeat,
    /// Directories listed by the hundred.
    Walk,
    /// Files looked at by the thousand, each by itself.
    Files,
    /// Configuration looked for in many places.
    Configuration,
    /// Mapped files fetched page by page.
    Data,
}

impl Storm {
    /// The name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Storm::Loader => "loader search",
            Storm::Dlopen => "dlopen search",
            Storm::Python => "python import",
            Storm::Modules => "module tool",
            Storm::Fork => "fork storm",
            Storm::Locale => "locale/gconv",
            Storm::Path => "PATH search",
            Storm::SearchList => "search list",
            Storm::Repeat => "repeated stat",
            Storm::Walk => "directory walk",
            Storm::Files => "many files",
            Storm::Configuration => "configuration",
            Storm::Data => "page faults",
        }
    }
}

/// What causes a storm. In JSON `kind` tells them apart, over all storms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StormSource {
    /// Of a loader or dlopen search.
    Loader(LoaderSource),
    /// Of Python's imports.
    Python(PythonSource),
    /// Of the module tool.
    Modules(ModulesSource),
    /// Of a fork storm.
    Fork(ForkSource),
    /// Of locales.
    Locale(LocaleSource),
    /// Of a search over PATH.
    Path(PathSource),
    /// Of a search in a list of directories.
    SearchList(SearchListSource),
    /// Of repeats.
    Repeat(RepeatSource),
    /// Of a walk.
    Walk(WalkSource),
    /// Of many files.
    Files(FilesSource),
    /// Of configuration.
    Configuration(ConfigurationSource),
    /// Of page faults.
    Data(DataSource),
}

impl StormSource {
    /// What it did, as a person would say it, its numbers included; `of` are all metadata
    /// operations of its storm.
    pub fn sentence(&self, of: u64) -> String {
        match self {
            StormSource::Loader(source) => source.sentence(of),
            StormSource::Python(source) => source.sentence(),
            StormSource::Modules(source) => source.sentence(of),
            StormSource::Fork(source) => source.sentence(of),
            StormSource::Locale(source) => source.sentence(),
            StormSource::Path(source) => source.sentence(),
            StormSource::SearchList(source) => source.sentence(),
            StormSource::Repeat(source) => source.sentence(),
            StormSource::Walk(source) => source.sentence(),
            StormSource::Files(source) => source.sentence(),
            StormSource::Configuration(source) => source.sentence(),
            StormSource::Data(source) => source.sentence(),
        }
    }
}

/// What a detector found.
pub(crate) struct DetectedStorm {
    /// Which storm.
    pub storm: Storm,
    /// What happened, as a person would say it, without a full stop.
    pub title: String,
    /// Why it happens.
    pub cause: String,
    /// How it was seen.
    pub observed: String,
    /// The operations that are its.
    pub claim: Vec<OpId>,
    /// How many of them a known cure would take away at most.
    pub avoidable: u64,
    /// How many of them are inferred, where that is not what their causes say.
    pub inferred: Option<u64>,
    /// How long they took, where that is not their calls' time.
    pub time: Option<Nanos>,
    /// What causes them, the worst first.
    pub sources: Vec<StormSource>,
    /// What `becalm report --by` shows the evidence.
    pub evidence: &'static str,
}

pub(crate) type StormDetector = fn(&OpSurvey) -> Option<DetectedStorm>;

/// The detectors, in the order in which they may claim:
///
/// 1. PATH searches, because they are made before the program is there that they look for.
/// 2. Fork storms: what a child of one does, for whatever reason, it does because it was run; not
///    running it is the cure of all of it.
/// 3. What the caller's identity tells: the module tool, the loader.
/// 4. What the path tells of a Python process.
/// 5. Configuration, by its names, and searches in other lists, by the names that are tried in one
///    directory after the other.
/// 6. Many files, before walks: whoever lists directories to open all that is in them does it for
///    the files.
/// 7. Walks, before what only the path tells: a walk comes by locale directories too.
/// 8. What is left: locales, by their paths, and repeats.
///
/// What page faults fetch is nobody's operation: [`data`] claims none, and comes beside these.
pub(crate) const DETECTORS: &[StormDetector] = &[
    path::detect,
    fork::detect,
    modules::detect,
    loader::detect,
    dlopen::detect,
    python::detect,
    configuration::detect,
    search_list::detect,
    files::detect,
    walk::detect,
    locale::detect,
    repeat::detect,
];
