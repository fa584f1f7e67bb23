//! Whether the sources of an image have changed since it was made.
//!
//! The quick look must not be a storm of its own: it compares the times of the packed folders and
//! of those in which Python's packages are, or, where there are none, of the folders right below;
//! at most [`MOST_FOLDERS`]. A package that is installed, upgraded or taken away changes one of
//! them; a file that is edited in place does not. The full look compares every file.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::MountError;
use super::layer::Layer;
use super::plan::{Plan, Where};
use super::wanted::Freshness;
use crate::squash::{Attributes, Entry, Mark, NodeId, NodeKind};

/// How many folders the quick look asks for.
const MOST_FOLDERS: usize = 24;
/// How many changes are named.
const NAMED: usize = 3;

/// Compares the image with its sources, where they are there.
///
/// # Errors
/// [`MountError::Stale`], with what has changed.
pub(crate) fn check(plan: &Plan<'_>) -> Result<(), MountError> {
    let layer = &plan.layers[0];
    let Where::Over(paths) = &plan.place else { return Ok(()) };
    // Only an image that says what it was made of can be older than that.
    if layer.manifest().is_none() || plan.wanted.at.is_some() {
        return Ok(());
    }
    let mut look = Look { layer, changed: Vec::new(), more: 0, asked: 0 };
    for (path, inner) in paths.iter().filter(|(path, _)| path.exists()) {
        let Some(node) = layer.find(inner) else { continue };
        match plan.wanted.freshness {
            Freshness::No => {}
            Freshness::Quick => look.quick(path, node),
            Freshness::Full => look.full(path, node),
        }
    }
    match look.changed.is_empty() {
        true => Ok(()),
        false => Err(MountError::Stale { image: plan.image.to_owned(), changed: look.said() }),
    }
}

struct Look<'a> {
    layer: &'a Layer,
    changed: Vec<String>,
    /// Changes beyond those that are named.
    more: usize,
    asked: usize,
}

impl Look<'_> {
    fn said(&self) -> String {
        match self.more {
            0 => self.changed.join(", "),
            more => format!("{} and {more} more", self.changed.join(", ")),
        }
    }

    fn note(&mut self, path: &Path, how: &str) {
        match self.changed.len() < NAMED {
            true => self.changed.push(format!("{} {how}", path.display())),
            false => self.more += 1,
        }
    }

    fn quick(&mut self, path: &Path, node: NodeId) {
        self.folder(path, node);
        let below = self.folders(path, node);
        let mut packages = Vec::new();
        for (lib, node) in below.iter().filter(|(path, _)| is_named(path, "lib")) {
            let pythons = self.folders(lib, *node).into_iter();
            for (python, node) in pythons.filter(|(path, _)| is_named(path, "python")) {
                let found = self.layer.image.lookup(node, b"site-packages");
                packages
                    .extend(found.ok().flatten().map(|node| (python.join("site-packages"), node)));
            }
        }
        // Each of the others would be a question more, and changes with these.
        let telling = if packages.is_empty() { below } else { packages };
        for (path, node) in telling {
            self.folder(&path, node);
        }
    }

    /// Compares a folder's time.
    fn folder(&mut self, path: &Path, node: NodeId) {
        if self.asked >= MOST_FOLDERS {
            return;
        }
        self.asked += 1;
        if let Ok(packed) = self.layer.image.attributes(node) {
            self.compare(path, &packed, fs::symlink_metadata(path));
        }
    }

    fn full(&mut self, path: &Path, node: NodeId) {
        let Ok(packed) = self.layer.image.attributes(node) else { return };
        let there = fs::symlink_metadata(path);
        let is_dir = there.as_ref().is_ok_and(Metadata::is_dir);
        self.compare(path, &packed, there);
        if packed.kind != NodeKind::Folder || !is_dir {
            return;
        }
        let entries = self.entries(node);
        for entry in &entries {
            self.full(&path.join(OsStr::from_bytes(&entry.name)), entry.node);
        }
        let packed: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
        for there in fs::read_dir(path).into_iter().flatten().flatten() {
            if !packed.contains(there.file_name().as_bytes()) {
                self.note(&there.path(), "is new");
            }
        }
    }

    fn compare(&mut self, path: &Path, packed: &Attributes, there: io::Result<Metadata>) {
        let how = match there {
            Err(error) if error.kind() == io::ErrorKind::NotFound => "is gone",
            // What cannot be looked at is no sign of a change.
            Err(_) => return,
            Ok(there) if there.is_dir() != (packed.kind == NodeKind::Folder) => "is something else",
            Ok(there) if there.mtime() as u32 != packed.mtime => "has changed",
            Ok(there) if there.is_file() && there.len() != packed.size => "has another size",
            Ok(_) => return,
        };
        self.note(path, how);
    }

    /// The folders in a folder: path and node.
    fn folders(&self, path: &Path, folder: NodeId) -> Vec<(PathBuf, NodeId)> {
        let entries = self.entries(folder).into_iter();
        let folders = entries.filter(|entry| entry.kind == NodeKind::Folder);
        folders.map(|entry| (path.join(OsStr::from_bytes(&entry.name)), entry.node)).collect()
    }

    fn entries(&self, folder: NodeId) -> Vec<Entry> {
        let mut entries = Vec::new();
        // A damaged image is said to be so by whatever reads it.
        let _ = self.layer.image.list(folder, Mark::default(), &mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        });
        entries
    }
}

/// Whether a path's last name begins so: `lib64`, `python3.11`.
fn is_named(path: &Path, start: &str) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(start.as_bytes()))
}
