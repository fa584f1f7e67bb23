//! What is wrong with a cache.

use std::path::{Path, PathBuf};

use recording::shown_name;
use schemars::JsonSchema;
use serde::Serialize;

/// A kind of fault. The first four are dangers, the rest are wrong or useless answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Modules would evaluate or wait for what `cachebuild` never makes.
    Hostile,
    /// Somebody else may write what every user evaluates.
    Untrusted,
    /// It shows what not everyone may read.
    Disclosing,
    /// It ends too early, or lacks files that are older than it.
    Partial,
    /// A file was added, removed or changed since.
    Stale,
    /// It was built for another release of Modules.
    ForeignVersion,
    /// Modules passes over it.
    Unused,
    /// There is none.
    Absent,
    /// It could not be checked.
    Unchecked,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fault {
    /// Which.
    pub kind: FaultKind,
    /// The file or directory that it is about, from the modulepath on; none for the cache as a
    /// whole. What is not UTF-8 in it is replaced.
    pub name: Option<String>,
    /// What is wrong, in words.
    pub what: String,
}

impl Fault {
    pub(super) fn whole(kind: FaultKind, what: impl Into<String>) -> Fault {
        Fault { kind, name: None, what: what.into() }
    }

    pub(super) fn of(kind: FaultKind, name: &Path, what: impl Into<String>) -> Fault {
        Fault { kind, name: Some(shown_name(name)), what: what.into() }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Checked {
    /// The modulepath.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub modulepath: PathBuf,
    /// The cache.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub cache: PathBuf,
    /// Its size in bytes; 0 if there is none.
    pub bytes: u64,
    /// What it records.
    pub entries: FaultCounts,
    /// What is wrong, the worst first.
    pub faults: Vec<Fault>,
    /// What is not wrong, and worth knowing.
    pub notes: Vec<String>,
}

impl Checked {
    /// A check that has found nothing yet.
    pub(super) fn of(modulepath: &Path, cache: &Path) -> Checked {
        Checked {
            modulepath: modulepath.to_owned(),
            cache: cache.to_owned(),
            bytes: 0,
            entries: FaultCounts::default(),
            faults: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Whether it gives what a walk gives, to everyone, from a file that can be trusted.
    pub fn is_good(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether a new cache would mend any of it.
    pub fn wants_build(&self) -> bool {
        let hopeless = |fault: &Fault| fault.kind == FaultKind::Unchecked;
        !self.is_good() && !self.faults.iter().all(hopeless)
    }
}

/// How many entries of each kind a cache has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FaultCounts {
    /// Modulefiles, with all that is in them.
    pub modulefiles: u64,
    /// rc files, with all that is in them.
    pub rc_files: u64,
    /// Files that are no modulefiles.
    pub invalid: u64,
    /// Files that each user looks at anew.
    pub limited_files: u64,
    /// Directories that each user walks anew.
    pub limited_directories: u64,
}
