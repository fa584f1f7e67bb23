//! Libraries that LD_LIBRARY_PATH leads to, and that an image would not load: a loader searches it before
//! a DT_RUNPATH (musl's before any list), and asks for a bound name nowhere.
//!
//! Nothing is bound that LD_LIBRARY_PATH led to where the image was built. What it leads to by now is
//! looked up as the command will see it: once all is mounted, directory by directory. LD_PRELOAD
//! needs no look: what it names is loaded first, in an image, too.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::MountError;
use super::layer::ImageLayer;
use super::plan::MountPlan;
use super::wanted::Freshness;
use crate::heal::ReplaceableLibrary;

/// Where glibc looks before it looks into a directory itself; before 2.37 by names of hardware, one
/// within the other, and since 2.33 in levels of it. Which of them it takes is the processor's choice.
const LEVELS: &str = "glibc-hwcaps";
const HARDWARE: [&str; 13] = [
    "tls", "x86_64", "haswell", "avx512_1", "xeon_phi", "i686", "sse2", "aarch64", "cpuid",
    "atomics", "power8", "power9", "power10",
];
/// How many names of hardware are one within the other.
const DEEPEST: usize = 4;
/// What stands for another directory in each program, or for the loader's own choice.
const TOKENS: [&[u8]; 3] = [b"ORIGIN", b"LIB", b"PLATFORM"];

/// Looks whether LD_LIBRARY_PATH leads to other libraries than those that are bound.
///
/// # Errors
/// [`MountError::Replaced`], with the first of them.
pub(crate) fn check(plan: &MountPlan<'_>) -> Result<(), MountError> {
    let Some(list) = plan.wanted.library_path.as_deref() else { return Ok(()) };
    if plan.wanted.freshness == Freshness::No {
        return Ok(());
    }
    let images = Images::of(plan);
    let names: HashSet<&OsStr> =
        images.libraries().map(|(_, library)| library.name.as_os_str()).collect();
    let Some((first, _)) = images.libraries().next() else { return Ok(()) };
    let mut searched = Vec::new();
    for entry in entries(list) {
        if has_token(entry) {
            let entry = OsStr::from_bytes(entry).display();
            let why = format!(
                "LD_LIBRARY_PATH names {entry}, which is another directory for each program: build \
                 the image with --as-is, or run it as it is with --check no"
            );
            return Err(MountError::Image { path: first.file.to_owned(), why });
        }
        let path = Path::new(OsStr::from_bytes(entry));
        let path = if entry.is_empty() { Path::new(".") } else { path };
        add(path, &names, DEEPEST, &mut searched);
    }
    for (image, library) in images.libraries() {
        let file = image.bound_to(library);
        let there = searched.iter().filter_map(|directory| directory.has(&library.name));
        for found in there {
            match FoundLibrary::of(&found, &file) {
                FoundLibrary::NotTaken => {}
                FoundLibrary::Same => break,
                FoundLibrary::Other => {
                    let image = image.file.to_owned();
                    return Err(MountError::Replaced { image, library: found, file });
                }
            }
        }
    }
    Ok(())
}

/// The directories of LD_LIBRARY_PATH; an empty one is the working directory.
pub(super) fn entries(list: &OsStr) -> impl Iterator<Item = &[u8]> {
    let all = list.as_bytes().split(|byte| matches!(byte, b':' | b';'));
    // An empty variable is none.
    all.filter(|_| !list.is_empty())
}

fn has_token(entry: &[u8]) -> bool {
    entry.split(|byte| *byte == b'$').skip(1).any(|after| {
        let name = after.strip_prefix(b"{").unwrap_or(after);
        TOKENS.iter().any(|token| name.starts_with(token))
    })
}

/// An image with libraries that are bound.
struct BoundImage<'a> {
    file: &'a Path,
    layer: &'a ImageLayer,
    /// Where it lies, where that was said; and where that is in the image.
    placed: Option<&'a [(PathBuf, PathBuf)]>,
}

impl BoundImage<'_> {
    /// The file that a bound name means in this run.
    fn bound_to(&self, library: &ReplaceableLibrary) -> PathBuf {
        let moved = || {
            let base = self.layer.manifest()?.layout.base();
            let inner = Path::new("/").join(library.file.strip_prefix(base).ok()?);
            let placed = self.placed?.iter();
            let mut at =
                placed.filter_map(|(at, top)| Some(at.join(inner.strip_prefix(top).ok()?)));
            at.next()
        };
        let file = library.moves.then(moved).flatten();
        file.unwrap_or_else(|| library.file.clone())
    }
}

struct Images<'a>(Vec<BoundImage<'a>>);

impl<'a> Images<'a> {
    fn of(plan: &'a MountPlan<'_>) -> Images<'a> {
        let over = plan.over_paths().map(|image| BoundImage {
            file: image.file,
            layer: image.layer,
            placed: image.is_placed.then_some(image.paths),
        });
        // A whole root.
        let root = plan.layers.first().filter(|_| plan.is_root());
        let root = root.map(|layer| BoundImage { file: plan.image, layer, placed: None });
        Images(over.chain(root).collect())
    }

    fn libraries(&self) -> impl Iterator<Item = (&BoundImage<'a>, &ReplaceableLibrary)> {
        self.0.iter().flat_map(|image| {
            let of = image.layer.manifest().into_iter();
            of.flat_map(|manifest| &manifest.replaceable).map(move |library| (image, library))
        })
    }
}

/// A directory that is searched.
struct LibraryPathDirectory {
    path: PathBuf,
    /// Those of the bound names that it has; none: it may be searched, and not listed.
    names: Option<HashSet<OsString>>,
}

impl LibraryPathDirectory {
    fn has(&self, name: &Path) -> Option<PathBuf> {
        let is_there = self.names.as_ref().is_none_or(|names| names.contains(name.as_os_str()));
        is_there.then(|| self.path.join(name))
    }
}

/// Adds a directory, after those in it that a loader asks before: it is read once for all names.
fn add(path: &Path, names: &HashSet<&OsStr>, depth: usize, to: &mut Vec<LibraryPathDirectory>) {
    let mut there = HashSet::new();
    let mut before = Vec::new();
    let listed = match fs::read_dir(path) {
        Ok(listed) => listed,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return to.push(LibraryPathDirectory { path: path.to_owned(), names: None });
        }
        Err(_) => return,
    };
    for entry in listed.flatten() {
        let name = entry.file_name();
        if names.contains(name.as_os_str()) {
            there.insert(name);
        } else if name == LEVELS || HARDWARE.iter().any(|hardware| name == *hardware) {
            before.push(name);
        }
    }
    before.sort();
    for name in before.into_iter().filter(|_| depth > 0) {
        let below = path.join(&name);
        if name != LEVELS {
            add(&below, names, depth - 1, to);
            continue;
        }
        for level in fs::read_dir(&below).into_iter().flatten().flatten() {
            add(&level.path(), names, 0, to);
        }
    }
    if !there.is_empty() {
        to.push(LibraryPathDirectory { path: path.to_owned(), names: Some(there) });
    }
}

/// What a loader makes of a file of that name.
enum FoundLibrary {
    /// It goes on: the file cannot be opened, or is for another machine.
    NotTaken,
    /// It is what is bound.
    Same,
    /// It is another, or ends the start.
    Other,
}

impl FoundLibrary {
    fn of(found: &Path, bound: &Path) -> FoundLibrary {
        let Ok(there) = fs::metadata(found) else { return FoundLibrary::NotTaken };
        let is_same =
            |bound: fs::Metadata| (bound.dev(), bound.ino()) == (there.dev(), there.ino());
        if fs::metadata(bound).is_ok_and(is_same) {
            return FoundLibrary::Same;
        }
        // A pipe would be waited for.
        if !there.is_file() {
            return FoundLibrary::NotTaken;
        }
        match (machine(found), machine(bound)) {
            (None, _) => FoundLibrary::NotTaken,
            (Some(Some(found)), Some(Some(bound))) if found != bound => FoundLibrary::NotTaken,
            _ => FoundLibrary::Other,
        }
    }
}

/// For which machine a file is: its class, byte order and machine. None where it cannot be opened, or is
/// no ELF file.
fn machine(path: &Path) -> Option<Option<[u8; 4]>> {
    let mut file = File::open(path).ok()?;
    let mut start = [0; 20];
    let read = file.read_exact(&mut start);
    let is_elf = read.is_ok() && start.starts_with(b"\x7fELF");
    Some(is_elf.then_some([start[4], start[5], start[18], start[19]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_divided_as_loaders_do() {
        let of = |list: &str| {
            let all = entries(OsStr::new(list));
            all.map(|entry| String::from_utf8_lossy(entry).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of(""), Vec::<String>::new());
        assert_eq!(of("/a:;b"), ["/a", "", "b"]);
        for (entry, is_one) in [
            ("/a/$LIB", true),
            ("${ORIGIN}/lib", true),
            ("/$x/${PLATFORM}", true),
            ("/a$b/LIB", false),
            ("/a", false),
        ] {
            assert_eq!(has_token(entry.as_bytes()), is_one, "{entry}");
        }
    }
}
