//! What running programs open, and were seen to ask for.

use std::ffi::OsString;
use std::path::PathBuf;

use super::ProbeCall;
use crate::{Errno, FileId};

/// One call of dlopen, as far as the search goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dlopen {
    /// The name, as passed.
    pub name: OsString,
    /// Whose code calls: a name without a slash is looked for on its behalf, and what is loaded comes
    /// to use its DT_RPATH.
    pub caller: FileId,
}

/// What a loader was seen to ask for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordedProbe {
    /// By which call.
    pub call: ProbeCall,
    /// The path, absolute.
    pub path: PathBuf,
    /// The error that it ended with.
    pub error: Option<Errno>,
}

/// Something that a loader was seen to ask for, and that no simulated one does; or the reverse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnexplainedProbe {
    /// How many before it are explained.
    pub at: usize,
    /// What was asked for; none where the recording ends too early.
    pub path: Option<PathBuf>,
}

impl std::fmt::Display for UnexplainedProbe {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.path {
            Some(path) => write!(out, "why it looked for {} is not known", path.display()),
            None => out.write_str("it was not seen to look for all that is simulated"),
        }
    }
}
