//! What a call is for, as a person would say it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a call is for. In the order in which a command comes to it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CallPurpose {
    /// Tcl's start: its libraries, scripts and encodings.
    Interpreter,
    /// `modulecmd.tcl` and its extension library.
    ModulesCode,
    /// The site's configuration, and rc files for all modulepaths.
    Configuration,
    /// Programs that Modules starts.
    Programs,
    /// A modulepath's cache, there or not.
    Caches,
    /// Directories of modulepaths.
    Directories,
    /// `.modulerc` and `.version`.
    RcFiles,
    /// Modulefiles opened for their first line.
    Cookies,
    /// Modulefiles that were read beside the one that is meant.
    Siblings,
    /// Modulefiles that were asked for.
    Modulefiles,
    /// Collections.
    Collections,
    /// Who asks: users, groups, hosts.
    Identity,
    /// The answer, written.
    Answer,
    /// All else: what modulefiles ask for, the terminal, memory.
    Others,
}

impl CallPurpose {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            CallPurpose::Interpreter => "Tcl starts: its libraries, scripts and encodings",
            CallPurpose::ModulesCode => "Modules' own code, and its extension library",
            CallPurpose::Configuration => "the site's configuration, and rc files for all",
            CallPurpose::Programs => "other programs that it starts",
            CallPurpose::Caches => "caches of modulepaths, there or not",
            CallPurpose::Directories => "modulepaths' directories, listed",
            CallPurpose::RcFiles => "rc files, evaluated",
            CallPurpose::Cookies => "modulefiles, opened for the magic cookie",
            CallPurpose::Siblings => "siblings, read to see which modulefile is meant",
            CallPurpose::Modulefiles => "modulefiles that were asked for, evaluated",
            CallPurpose::Collections => "collections",
            CallPurpose::Identity => "who asks: users, groups and hosts",
            CallPurpose::Answer => "the answer, written",
            CallPurpose::Others => "all else: modulefiles' own calls, the terminal, memory",
        }
    }

    /// Whether it is paid for the start of each `module` command, whatever the modulepaths hold.
    pub fn is_start(self) -> bool {
        matches!(
            self,
            CallPurpose::Interpreter | CallPurpose::ModulesCode | CallPurpose::Configuration
        )
    }

    /// Whether it is looked at to know what there is, and an index or a tidier tree spares it.
    pub fn is_walk(self) -> bool {
        matches!(self, CallPurpose::Directories | CallPurpose::RcFiles | CallPurpose::Cookies)
    }
}
