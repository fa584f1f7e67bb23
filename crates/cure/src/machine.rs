//! What can be done where the reader of the findings is.
//!
//! A recording does not tell it, and a command that is refused where it is pasted is no cure. So
//! whoever wants cures says what holds here, or that nothing is known: then only that is a cure
//! which needs nothing of the machine.

use std::path::{Path, PathBuf};

/// What can be done here; each is looked at only where it matters.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Whether bash takes the builtins of `becalm run --builtins`; of a script or shell that was executed
    /// itself, whether the shell that runs it does.
    pub takes_builtins: fn(Option<&Path>) -> bool,
    /// Who can change a file in place.
    pub file_writer: fn(&Path) -> FileWriter,
    /// Whether files and images may be mounted for a command alone.
    pub can_mount: fn() -> bool,
    /// Why an image of a directory is not to be mounted over it; none if it may be.
    pub why_no_image: fn(&Path) -> Option<String>,
    /// Why `becalm elf pack` would not take a program here, or its pack not be used; none where nothing is
    /// known to speak against it.
    pub why_no_pack: fn(&Path) -> Option<String>,
    /// How many directories there are at and below one, bytecode aside; no more are counted than so
    /// many.
    pub directories_below: fn(&Path, u64) -> u64,
    /// The files at and below a directory, relative to it: none of one that is not there. None where
    /// it cannot be read, or there are more than so many.
    pub files_below: fn(&Path, usize) -> Option<Vec<PathBuf>>,
    /// What keeps the module tool of this machine from walking this modulepath.
    pub module_cure: fn(&Path) -> ModuleCure,
}

/// Who can change a file in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileWriter {
    /// This user.
    You,
    /// Another one, by name; none where it has no name.
    Owner(Option<String>),
    /// The administrator.
    Root,
    /// Nobody: it is not there.
    Nobody,
}

/// What keeps the module tool from walking a modulepath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModuleCure {
    /// A cache of its own: its release reads one, `load` passes over it, this user may write it, and
    /// nothing in it is private.
    Cache,
    /// becalm's index: `becalm modules avail` answers what this release answers.
    Index {
        /// The shell that the hook is for.
        shell: &'static str,
    },
    /// Nothing that is known.
    Unknown,
}

impl Machine {
    /// A recording from somewhere: nothing is known.
    pub const fn unknown() -> Machine {
        Machine {
            takes_builtins: |_| false,
            file_writer: |_| FileWriter::Nobody,
            can_mount: || false,
            why_no_image: |_| Some("nothing is known of the machine".to_owned()),
            why_no_pack: |_| Some("nothing is known of the machine".to_owned()),
            directories_below: |_, most| most,
            files_below: |_, _| None,
            module_cure: |_| ModuleCure::Unknown,
        }
    }
}
