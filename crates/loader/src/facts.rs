//! What an ELF file says of its own search, as a recording keeps it.

use std::ffi::OsStr;
use std::path::Path;

use recording::MappedElf;

use crate::{ElfError, ElfObject};

/// What the ELF file at `path` says of its own search. A statically linked program says
/// nothing, which is no error.
///
/// # Errors
/// [`ElfError`]. A file that is not ELF is [`ElfError::NotElf`].
pub fn facts(path: &Path) -> Result<MappedElf, ElfError> {
    Ok(ElfObject::read(path)?.image())
}

impl ElfObject {
    /// As a recording keeps it: lists split, texts lossily decoded.
    pub fn image(&self) -> MappedElf {
        let text = |name: &OsStr| name.to_string_lossy().into_owned();
        MappedElf {
            soname: self.soname.as_deref().map(text),
            needed: self.needed().map(|name| text(name)).collect(),
            rpath: self.rpath.as_deref().map_or_else(Vec::new, split),
            runpath: self.runpath.as_deref().map_or_else(Vec::new, split),
            interpreter: self.interpreter.as_deref().map(text),
        }
    }
}

/// The directories of a search list. A list that is empty names none; an empty element names the
/// working directory, and is kept.
fn split(list: &OsStr) -> Vec<String> {
    let list = list.to_string_lossy();
    if list.is_empty() { Vec::new() } else { list.split(':').map(str::to_owned).collect() }
}
