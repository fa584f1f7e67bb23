//! Whether the sources of an image have changed since it was made.
//!
//! The quick look asks for what decides which code runs: the time of every directory, at any depth,
//! which changes with each name that is added, replaced or taken away in it; and time and size of
//! every file that the trace opened, or, where there was no trace, of all that look like code. It
//! leaves out `__pycache__`, since Python compares what is in there with the sources itself. The
//! full look compares every file.
//!
//! squashfs keeps whole seconds. That is enough: an image is made only once the second of the
//! newest change is over ([`crate::squash`]).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use image_format::squash::{ListingPosition, NodeKind, SquashAttributes, SquashEntry, SquashNode};
use image_format::tree::seconds;

use super::error::MountError;
use super::healed;
use super::layer::ImageLayer;
use super::plan::{MountPlan, MountTarget};
use super::wanted::Freshness;

/// For so long a comparison holds for ranks of its job that come later: they ask once a node.
/// What comes still later may come after an upgrade.
pub(crate) const HOLDS: Duration = Duration::from_secs(60);
/// How many threads ask at a time: on a shared filesystem each question is a round trip.
const ASKERS: usize = 32;
/// Fewer questions than this need no threads.
const FEW: usize = 64;
/// How many changes are named.
const NAMED: usize = 3;

/// Compares the image with its sources, where they are there.
///
/// # Errors
/// [`MountError::Stale`], with what has changed; [`MountError::Condition`].
pub(crate) fn check(plan: &MountPlan<'_>) -> Result<(), MountError> {
    compared(plan).map(drop)
}

/// The same, and how many files of the sources were compared.
///
/// # Errors
/// As [`check`].
pub(crate) fn compared(plan: &MountPlan<'_>) -> Result<u64, MountError> {
    if let Some(condition) = &plan.wanted.condition {
        (condition.holds)(plan.wanted.freshness).map_err(MountError::Condition)?;
        // It may have asked in threads; a namespace is entered alone.
        sandbox::namespace::until_alone();
    }
    let Some(layer) = plan.layers.first() else { return Ok(0) };
    let MountTarget::Over(paths) = &plan.place else { return Ok(0) };
    // Only an image that says what it was made of can be older than that.
    if layer.manifest().is_none() || plan.wanted.at.is_some() {
        return Ok(0);
    }
    let mut look = SourceState { layer, compared: 0, changed: Vec::new(), more: 0 };
    for (path, inner) in paths.iter().filter(|(path, _)| path.exists()) {
        let Some(node) = layer.find(inner) else { continue };
        match plan.wanted.freshness {
            Freshness::No => {}
            Freshness::Quick => look.quick(path, node),
            Freshness::Full => look.full(path, node),
        }
    }
    match look.changed.is_empty() {
        true => Ok(look.compared),
        false => Err(MountError::Stale { image: plan.image.to_owned(), changed: look.said() }),
    }
}

struct SourceState<'a> {
    layer: &'a ImageLayer,
    /// How many files, without directories and links.
    compared: u64,
    changed: Vec<String>,
    /// Changes beyond those that are named.
    more: usize,
}

/// A file or directory that is asked for, and what it was.
type SourceCheck = (PathBuf, SquashAttributes);

impl SourceState<'_> {
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

    fn quick(&mut self, path: &Path, node: SquashNode) {
        let Ok(packed) = self.layer.image.attributes(node) else { return };
        let mut questions = vec![(path.to_owned(), packed)];
        self.deciding(path, node, &mut questions);
        for ((path, packed), how) in questions.iter().zip(answers(&questions)) {
            self.count(packed);
            how.into_iter().for_each(|how| self.note(path, how));
        }
    }

    /// Adds all below a directory that decides which code runs.
    fn deciding(&self, directory: &Path, node: SquashNode, questions: &mut Vec<SourceCheck>) {
        for entry in self.entries(node) {
            let decides = match entry.kind {
                NodeKind::Directory => entry.name != b"__pycache__",
                NodeKind::File => self.is_used(&entry),
                // That it is another one changes the directory's time.
                _ => false,
            };
            if !decides {
                continue;
            }
            let path = directory.join(OsStr::from_bytes(&entry.name));
            if let Ok(packed) = self.layer.image.attributes(entry.node) {
                questions.push((path.clone(), packed));
            }
            if entry.kind == NodeKind::Directory {
                self.deciding(&path, entry.node, questions);
            }
        }
    }

    /// Whether the trace opened a file, or it lies where what it opened does; without a trace,
    /// whether it looks like code.
    fn is_used(&self, file: &SquashEntry) -> bool {
        let image = &self.layer.image;
        match self.layer.manifest().map_or(0, |manifest| manifest.front) {
            0 => is_code(&file.name),
            front => {
                let place = image.open(file.node).and_then(|content| image.position(&content));
                // Of a damaged one nothing is known.
                place.map_or(true, |place| place < front)
            }
        }
    }

    fn full(&mut self, path: &Path, node: SquashNode) {
        let Ok(packed) = self.layer.image.attributes(node) else { return };
        let there = fs::symlink_metadata(path);
        let is_dir = there.as_ref().is_ok_and(Metadata::is_dir);
        self.compare(path, &packed, there);
        if packed.kind != NodeKind::Directory || !is_dir {
            return;
        }
        let entries = self.entries(node);
        for entry in &entries {
            let below = path.join(OsStr::from_bytes(&entry.name));
            match healed::bytecode(self.layer, node, entry) {
                Some(healed) => self.bytecode(&below, entry.node, &healed),
                None => self.full(&below, entry.node),
            }
        }
        let packed: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
        for there in fs::read_dir(path).into_iter().flatten().flatten() {
            if !packed.contains(there.file_name().as_bytes()) {
                self.note(&there.path(), "is new");
            }
        }
    }

    /// Bytecode that was compiled into the image is none of the sources'.
    fn bytecode(&mut self, path: &Path, node: SquashNode, healed: &BTreeSet<Vec<u8>>) {
        let entries = self.entries(node);
        let is_healed = |entry: &SquashEntry| healed.contains(&entry.name);
        if entries.iter().all(is_healed) && !path.exists() {
            return;
        }
        let Ok(packed) = self.layer.image.attributes(node) else { return };
        self.compare(path, &packed, fs::symlink_metadata(path));
        for entry in entries.iter().filter(|entry| !is_healed(entry)) {
            self.full(&path.join(OsStr::from_bytes(&entry.name)), entry.node);
        }
        let packed: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
        for there in fs::read_dir(path).into_iter().flatten().flatten() {
            if !packed.contains(there.file_name().as_bytes()) {
                self.note(&there.path(), "is new");
            }
        }
    }

    fn count(&mut self, packed: &SquashAttributes) {
        self.compared += u64::from(packed.kind == NodeKind::File);
    }

    fn compare(&mut self, path: &Path, packed: &SquashAttributes, there: io::Result<Metadata>) {
        self.count(packed);
        if let Some(how) = difference(packed, there) {
            self.note(path, how);
        }
    }

    fn entries(&self, directory: SquashNode) -> Vec<SquashEntry> {
        let mut entries = Vec::new();
        // A damaged image is said to be so by whatever reads it.
        let _ = self.layer.image.list(directory, ListingPosition::default(), &mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        });
        entries
    }
}

/// How what is there differs from what was packed.
fn difference(packed: &SquashAttributes, there: io::Result<Metadata>) -> Option<&'static str> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match there {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Some("is gone"),
        // Whoever may not look at it may use the image all the same.
        Err(error) if error.kind() == PermissionDenied => None,
        Err(_) => Some("cannot be looked at"),
        Ok(there) if there.is_dir() != (packed.kind == NodeKind::Directory) => {
            Some("is something else")
        }
        Ok(there) if seconds(there.mtime()) != packed.mtime => Some("has changed"),
        Ok(there) if there.is_file() && there.len() != packed.size => Some("has another size"),
        Ok(_) => None,
    }
}

/// The differences, in the order of the questions.
fn answers(questions: &[SourceCheck]) -> Vec<Option<&'static str>> {
    let answer = |(path, packed): &SourceCheck| difference(packed, fs::symlink_metadata(path));
    if questions.len() < FEW {
        return questions.iter().map(answer).collect();
    }
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(vec![None; questions.len()]));
    std::thread::scope(|scope| {
        for _ in 0..ASKERS {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(question) = questions.get(index)
                {
                    if let Some(how) = answer(question) {
                        answers.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(how);
                    }
                }
            });
        }
    });
    sandbox::namespace::until_alone();
    answers.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a file looks like code by its name: Python's, libraries, and what says where they are.
fn is_code(name: &[u8]) -> bool {
    let ends = [&b".py"[..], b".pyc", b".pth", b".egg-link", b".so"];
    ends.iter().any(|end| name.ends_with(end)) || name.windows(4).any(|part| part == b".so.")
}
