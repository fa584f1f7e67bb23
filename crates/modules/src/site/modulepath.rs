//! `$MODULEPATH`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// An entry that Modules reads in another way than as an absolute path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModulepathOddity {
    /// It depends on the directory that one is in.
    Relative,
    /// It has a variable in it, which Modules resolves.
    Variable,
}

/// The entries of a modulepath in their order, each once, empty ones left out, and what is odd
/// about one (`getModulePathList`).
pub fn modulepath(value: &OsStr) -> Vec<(PathBuf, Option<ModulepathOddity>)> {
    let mut entries: Vec<(PathBuf, Option<ModulepathOddity>)> = Vec::new();
    for entry in value.as_bytes().split(|byte| *byte == b':').filter(|entry| !entry.is_empty()) {
        let odd = match entry {
            _ if entry.contains(&b'$') => Some(ModulepathOddity::Variable),
            [b'/', ..] => None,
            _ => Some(ModulepathOddity::Relative),
        };
        let path = PathBuf::from(OsStr::from_bytes(entry));
        if !entries.iter().any(|(known, _)| *known == path) {
            entries.push((path, odd));
        }
    }
    entries
}
