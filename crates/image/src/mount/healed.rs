//! What was made while the image was: bytecode has no file among the sources that it could be
//! compared with, and a bound library names others than its source finds where a directory has
//! changed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use image_format::squash::{ListingPosition, NodeKind, SquashEntry, SquashNode};

use super::beside::OverPaths;
use super::bytecode_dirs::is_packed_unchecked;
use super::fresh::BYTECODE;
use super::layer::ImageLayer;

/// No chain of symbolic links is longer (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Of a directory's `__pycache__`, the names of what was compiled into it; none where the entry
/// is another, or nothing was.
pub(super) fn bytecode(
    layer: &ImageLayer,
    directory: SquashNode,
    entry: &SquashEntry,
) -> Option<BTreeSet<Vec<u8>>> {
    let healed = layer.manifest().is_some_and(|manifest| manifest.healed > 0);
    if !healed || entry.name != b"__pycache__" || entry.kind != NodeKind::Directory {
        return None;
    }
    let mut names = BTreeSet::new();
    // A damaged image is said to be so by whatever reads it.
    let _ = layer.image.list(entry.node, ListingPosition::default(), &mut |file| {
        if file.kind == NodeKind::File && was_compiled(layer, directory, &file) {
            names.insert(file.name);
        }
        ControlFlow::Continue(())
    });
    (!names.is_empty()).then_some(names)
}

/// Whether a directory's `__pycache__` is of the image alone: the sources had none.
pub(super) fn is_made(layer: &ImageLayer, directory: SquashNode, entry: &SquashEntry) -> bool {
    bytecode(layer, directory, entry)
        .is_some_and(|made| layer.entries(entry.node).iter().all(|one| made.contains(&one.name)))
}

/// It has the time of its source, which no bytecode has that was written after that; and it names
/// its source, which such as Python takes unasked does not.
fn was_compiled(layer: &ImageLayer, directory: SquashNode, file: &SquashEntry) -> bool {
    let image = &layer.image;
    let Some(end) = file.name.iter().position(|byte| *byte == b'.') else { return false };
    let source = [&file.name[..end], b".py"].concat();
    let Ok(Some(source)) = image.lookup(directory, &source) else { return false };
    let times = image.attributes(source).and_then(|it| Ok((it, image.attributes(file.node)?)));
    times.is_ok_and(|(source, bytecode)| source.mtime == bytecode.mtime)
        && !is_packed_unchecked(layer, file.node)
}

/// Directories of an image that have not changed, and in which it has what was made for others that
/// have: bytecode of a source that is a link into one of these, and libraries that would find
/// another one in them.
pub(super) fn healed_for_others(image: &OverPaths<'_>, live: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let Some(manifest) = image.layer.manifest() else { return Vec::new() };
    let mut found = Vec::new();
    if manifest.healed > 0 {
        for (path, inner) in image.paths {
            if let Some(node) = image.layer.find(inner) {
                linked_modules(image.layer, path, node, live, &mut found);
            }
        }
    }
    if !manifest.bound.is_empty() && live.iter().any(|live| offers_others(image, live)) {
        let bound = manifest.bound.iter().filter_map(|bound| bound.path.parent());
        found.extend(bound.map(Path::to_owned));
    }
    found
}

/// Adds directories below one with a module that is a link through a directory that has changed.
fn linked_modules(
    layer: &ImageLayer,
    directory: &Path,
    node: SquashNode,
    live: &BTreeSet<PathBuf>,
    found: &mut Vec<PathBuf>,
) {
    for entry in layer.entries(node) {
        let path = directory.join(OsStr::from_bytes(&entry.name));
        match entry.kind {
            NodeKind::Directory if entry.name != BYTECODE => {
                linked_modules(layer, &path, entry.node, live, found);
            }
            NodeKind::Symlink if entry.name.ends_with(b".py") && leads_through(&path, live) => {
                found.push(directory.to_owned());
            }
            _ => {}
        }
    }
}

/// Whether following a link meets one of these directories.
fn leads_through(link: &Path, directories: &BTreeSet<PathBuf>) -> bool {
    let mut at = link.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(to) = fs::read_link(&at) else { return false };
        let Some(above) = at.parent().map(|above| above.join(to)) else { return false };
        let (Some(directory), Some(name)) = (above.parent(), above.file_name()) else {
            return false;
        };
        // What leads nowhere by now is shown as it is.
        let Ok(directory) = directory.canonicalize() else { return true };
        if directories.contains(&directory) || directories.contains(&directory.join(name)) {
            return true;
        }
        at = directory.join(name);
    }
    true
}

/// Whether a directory has by now, or had, a name that a library may have.
fn offers_others(image: &OverPaths<'_>, live: &Path) -> bool {
    let mut places = image.paths.iter().filter_map(|(path, inner)| {
        let below = live.strip_prefix(path).ok()?;
        image.layer.find(&inner.join(below))
    });
    let Some(node) = places.next() else { return false };
    let may_be = |name: &[u8]| !name.ends_with(b".py") && name != BYTECODE;
    let was = image.layer.entries(node).into_iter();
    let was: BTreeSet<(Vec<u8>, bool)> = was
        .filter(|entry| may_be(&entry.name) && !image.layer.is_made(entry))
        .map(|entry| (entry.name, entry.kind == NodeKind::Symlink))
        .collect();
    let Ok(listed) = fs::read_dir(live) else { return true };
    let is = listed.flatten().filter(|entry| may_be(entry.file_name().as_bytes())).map(|entry| {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        (entry.file_name().as_bytes().to_owned(), is_link)
    });
    let is: BTreeSet<_> = is.collect();
    let leads_elsewhere = |(name, _): &(Vec<u8>, bool)| {
        let packed = image.layer.image.lookup(node, name).ok().flatten();
        let packed = packed.and_then(|packed| image.layer.image.target(packed).ok());
        let now = fs::read_link(live.join(OsStr::from_bytes(name)));
        now.ok().map(|now| now.as_os_str().as_bytes().to_owned()) != packed
    };
    is != was || is.iter().filter(|(_, is_link)| *is_link).any(leads_elsewhere)
}
