//! Who can read what goes into an image: whoever reads the image reads all of it.

use std::collections::{BTreeSet, HashMap};
use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use access::{everyone_may, list_lets_everyone, mode_lets_everyone};
use image_format::tree::{FileNode, FileNodeKind, FileTree};
use rustix::fs::{Access, access};

use crate::squash::ImageOptions;

/// What a list or permissions give: to read, and to enter a directory.
const READ: u8 = 4;
const ENTER: u8 = 1;
/// The first file of a tree, or directory in or above it, that not everybody can read.
pub(crate) fn first_private(tree: &FileTree, options: &ImageOptions<'_>) -> Option<PathBuf> {
    let above = tree.layout.paths().iter().filter_map(|path| path.parent());
    first_private_directory(above).or_else(|| private_node(tree, options))
}

/// The same of one file.
pub(crate) fn private_file(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    first_private_directory(path.parent().into_iter())
        .or_else(|| (!gives_all(&path, READ)).then_some(path))
}

/// The first of these directories, and of those above them, that not everybody can enter.
fn first_private_directory<'a>(below: impl Iterator<Item = &'a Path>) -> Option<PathBuf> {
    let directories: BTreeSet<&Path> = below.flat_map(Path::ancestors).collect();
    directories.into_iter().find(|path| !gives_all(path, ENTER)).map(Path::to_owned)
}

fn private_node(tree: &FileTree, options: &ImageOptions<'_>) -> Option<PathBuf> {
    let packed: Vec<_> = (0..).zip(&tree.nodes).filter(|(_, node)| wanted(node) != 0).collect();
    // Its permissions are known already.
    let closed = packed
        .iter()
        .filter(|(_, node)| !mode_lets_everyone(node.attributes.mode.into(), wanted(node)));
    let mut closed = closed.map(|(id, _)| tree.source(*id));
    let is_packed =
        |path: &PathBuf| !options.skip_unreadable || access(path, Access::READ_OK).is_ok();
    if let Some(path) = closed.find(is_packed) {
        return Some(path);
    }
    let lists = AclLists::default();
    let says_less = |index: usize| {
        let (id, node) = packed[index];
        // What was listed already need not be asked for: it is a question a file.
        if node.has_acl == Some(false) && lists.are_told(tree, id, node) {
            return false;
        }
        !list_lets_everyone(&tree.source(id), wanted(node))
    };
    let index = first_index(packed.len(), options.readers, &says_less)?;
    Some(tree.source(packed[index].0))
}

/// Which filesystems list access control lists among the xattrs, by device.
#[derive(Default)]
struct AclLists(Mutex<HashMap<u64, bool>>);

impl AclLists {
    /// Whether the filesystem of a file does. All of Linux do; of GPFS, which is none of it, nobody
    /// says so.
    fn are_told(&self, tree: &FileTree, id: u32, node: &FileNode) -> bool {
        const GPFS: rustix::fs::FsWord = 0x4750_4653;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(node.attributes.identity.0).or_insert_with(|| {
            rustix::fs::statfs(tree.source(id)).is_ok_and(|it| it.f_type != GPFS)
        })
    }
}

/// The rights that it takes to read a file, or a directory and what is in it; none for what has no
/// content on the disk.
fn wanted(node: &FileNode) -> u8 {
    match node.kind {
        _ if node.is_above => 0,
        FileNodeKind::Directory(_) => READ | ENTER,
        FileNodeKind::File { given: None, .. } => READ,
        _ => 0,
    }
}

fn gives_all(path: &Path, rights: u8) -> bool {
    metadata(path).is_ok_and(|there| everyone_may(path, there.mode(), rights))
}

/// The first number below `end` for which it is so, asked in threads: on a shared filesystem each
/// question is a round trip.
fn first_index(
    end: usize,
    threads: usize,
    is_so: &(dyn Fn(usize) -> bool + Sync),
) -> Option<usize> {
    let (next, first) = (AtomicUsize::new(0), AtomicUsize::new(end));
    let ask = || {
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && index < first.load(Ordering::Relaxed)
        {
            if is_so(index) {
                first.fetch_min(index, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(ask);
        }
    });
    Some(first.into_inner()).filter(|first| *first < end)
}
