//! Files in a tree that name the path that it stands for: what they lead to is the original,
//! which is right, and not calmed.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extract::ExtractList;
use crate::outside::elf::ElfReader;

/// Texts are not longer.
const MOST_TEXT: u64 = 1 << 20;

/// How many files name the path that a tree stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Named {
    /// Texts in directories `bin`: scripts by their `#!` line, mostly.
    pub scripts: u64,
    /// `.pth` files.
    pub pth: u64,
    /// Programs and libraries, by RPATH or RUNPATH.
    pub rpaths: u64,
}

/// Looks through a tree. What cannot be read is not counted.
pub(super) fn count(tree: &Path, list: &ExtractList, paths: &[&Path]) -> Named {
    let mut named = Named::default();
    let names = |text: &[u8]| paths.iter().any(|path| holds(text, path.as_os_str().as_bytes()));
    for (inner, _) in &list.files {
        let file = tree.join(inner);
        let in_bin = inner.parent().is_some_and(|directory| directory.ends_with("bin"));
        let is_pth = inner.extension().is_some_and(|end| end == "pth");
        let Ok(about) = file.symlink_metadata() else { continue };
        let may_be_elf = about.permissions().mode() & 0o111 != 0 || is_library(inner);
        if may_be_elf && let Some(search) = search_paths(&file) {
            named.rpaths += u64::from(search.iter().any(|path| names(path)));
        } else if (in_bin || is_pth) && about.len() <= MOST_TEXT {
            let text = fs::read(&file).unwrap_or_default();
            let counter = if is_pth { &mut named.pth } else { &mut named.scripts };
            *counter += u64::from(names(&text) && !text.contains(&0));
        }
    }
    named
}

fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    name.ends_with(b".so") || name.windows(4).any(|part| part == b".so.")
}

/// RPATH and RUNPATH; none where it is no ELF file.
fn search_paths(file: &Path) -> Option<Vec<Vec<u8>>> {
    let file = File::open(file).ok()?;
    let read = |offset, buffer: &mut [u8]| Ok(file.read_at(buffer, offset)?);
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).ok().filter(|()| magic == *b"\x7fELF")?;
    ElfReader::new(&read).ok()??.search_paths().ok()
}

/// Whether a text has a path in it whose last name is whole.
fn holds(text: &[u8], path: &[u8]) -> bool {
    let part_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let mut from = 0;
    while let Some(at) = find(&text[from..], path) {
        let end = from + at + path.len();
        if !text.get(end).is_some_and(part_of_name) {
            return true;
        }
        from = end;
    }
    false
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    // What is looked for begins with a slash, and few texts have many.
    let starts = text.iter().enumerate().filter(|(_, byte)| Some(*byte) == what.first());
    starts.map(|(at, _)| at).find(|at| text[*at..].starts_with(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_named_where_its_last_name_is_whole() {
        let path = b"/shared/env";
        for text in ["#!/shared/env/bin/python\n", "/shared/env2 /shared/env", "'/shared/env'"] {
            assert!(holds(text.as_bytes(), path), "{text}");
        }
        for text in ["", "/shared/env2/bin", "/shared/env-x", "shared/env"] {
            assert!(!holds(text.as_bytes(), path), "{text}");
        }
    }
}
