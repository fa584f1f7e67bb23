//! Whether the sources of an image have changed since it was made.
//!
//! The quick look asks for what decides which code runs: the time of every directory, at any depth,
//! which changes with each name that is added, replaced or taken away in it; and time and size of
//! every file that the trace opened, and of every source whose bytecode it opened, or, where there
//! was no trace, of all that look like code. A file that it leaves out is looked at when it is first
//! looked up ([`super::untraced`]), where becalm serves the image; where the kernel mounts it, or it
//! is unpacked, nobody could do that, and every file is looked at before. Of
//! `__pycache__` it asks for the directory's own time: Python compares what is in there with the
//! sources itself, but for such bytecode as it takes unasked ([`super::bytecode_dirs`]). Where a
//! packed path leads to another inode than it did, times say nothing, and every file's content is
//! compared. The full look compares every file.
//!
//! squashfs keeps whole seconds. That is enough: an image is made only once the second of the
//! newest change is over ([`crate::squash`]).

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image_format::squash::{NodeKind, SquashEntry, SquashNode};

use super::beside::OverPaths;
use super::bytecode_dirs::{decides_nothing, unasked};
use super::compare::{SourceCheck, SourceComparison, SourceIdentity, differences};
use super::error::MountError;
use super::healed;
use super::layer::ImageLayer;
use super::plan::MountPlan;
use super::untraced::{LookedUpNodes, UntracedFiles};
use super::wanted::{Freshness, MountMethod, MountRequest};

/// Where Python keeps bytecode.
pub(super) const BYTECODE: &[u8] = b"__pycache__";

/// When the quick look asks for files that the trace did not open.
#[derive(Clone, Copy)]
pub(crate) enum UntracedLook<'a> {
    /// With all others.
    Before,
    /// When one is looked up, by whoever serves the image.
    AtLookup,
    /// The same, where others use the image already: what each image was asked for by then, of which the
    /// kernel remembers the answer, is looked at before.
    AtNextLookup(&'a [Option<LookedUpNodes>]),
}

impl UntracedLook<'_> {
    /// By what an image will be mounted by: where the kernel does that, nobody sees which names are
    /// looked up.
    pub fn of(wanted: &MountRequest) -> UntracedLook<'static> {
        match wanted.by {
            Some(MountMethod::Kernel) => UntracedLook::Before,
            None if !door_to_fuse_is_there() => UntracedLook::Before,
            _ => UntracedLook::AtLookup,
        }
    }

    /// What of an image was looked up; none: every file is to be compared.
    fn looked_up(self, plan: &MountPlan<'_>, layer: &ImageLayer) -> Option<HashSet<SquashNode>> {
        match self {
            UntracedLook::Before => None,
            UntracedLook::AtLookup => Some(HashSet::new()),
            UntracedLook::AtNextLookup(all) => {
                let mut images = plan.squashes().into_iter().zip(all);
                let own = images.find(|(image, _)| Arc::ptr_eq(&image.image, &layer.image));
                own.and_then(|(_, looked_up)| Some(looked_up.as_ref()?.nodes(layer)))
            }
        }
    }
}

/// Whether becalm can serve an image here.
pub(super) fn door_to_fuse_is_there() -> bool {
    Path::new("/dev/fuse").exists()
}

/// Compares the image with its sources, where they are there.
///
/// # Errors
/// [`MountError::Stale`], with what has changed; [`MountError::Condition`].
pub(crate) fn check(plan: &MountPlan<'_>, untraced: UntracedLook<'_>) -> Result<u64, MountError> {
    look_at_condition(plan)?;
    let mut files = 0;
    for image in plan.over_paths() {
        let found = changes_of(plan, &image, untraced);
        if !found.changed.is_empty() {
            let (image, changed) = (image.file.to_owned(), found.said());
            return Err(MountError::Stale { image, changed });
        }
        files += found.files;
    }
    Ok(files)
}

/// What has changed.
///
/// # Errors
/// [`MountError::Condition`].
pub(crate) fn changes(
    plan: &MountPlan<'_>,
    untraced: UntracedLook<'_>,
) -> Result<SourceComparison, MountError> {
    look_at_condition(plan)?;
    let mut all = SourceComparison::default();
    for image in plan.over_paths() {
        let found = changes_of(plan, &image, untraced);
        all.files += found.files;
        all.changed.extend(found.changed);
    }
    Ok(all)
}

fn look_at_condition(plan: &MountPlan<'_>) -> Result<(), MountError> {
    if let Some(condition) = &plan.wanted.condition {
        (condition.holds)(plan.wanted.freshness).map_err(MountError::Condition)?;
        // It may have asked in threads; a namespace is entered alone.
        sandbox::namespace::until_alone();
    }
    Ok(())
}

/// The same of one of the images.
fn changes_of(
    plan: &MountPlan<'_>,
    image: &OverPaths<'_>,
    untraced: UntracedLook<'_>,
) -> SourceComparison {
    let mut found = SourceComparison::default();
    let OverPaths { layer, paths, .. } = *image;
    // Only an image that says what it was made of can be older than that.
    if layer.manifest().is_none() || image.is_placed {
        return found;
    }
    let there = paths.iter().filter(|(path, _)| path.exists());
    let sources: Vec<_> = there
        .filter_map(|(path, inner)| {
            Some((path.as_path(), layer.find(inner)?, layer.identity(path)))
        })
        .collect();
    match plan.wanted.freshness {
        Freshness::No => {}
        Freshness::Quick => {
            let mut look = QuickLook::new(layer, untraced.looked_up(plan, layer));
            look.at(&sources);
            if look.left == 0 && look.looked_up.is_some() {
                // Nobody will look at anything later.
                look = QuickLook::new(layer, None);
                look.at(&sources);
            }
            found.add(&look.checks, &differences(layer, &look.checks));
            if look.left > 0 {
                layer.look_later(look.later);
            }
        }
        Freshness::Full => sources
            .iter()
            .for_each(|(path, node, source)| full(layer, path, *node, *source, &mut found)),
    }
    found
}

struct QuickLook<'a> {
    layer: &'a ImageLayer,
    /// What the kernel has asked for, and does not ask for again; none: all is to be looked at now.
    looked_up: Option<HashSet<SquashNode>>,
    checks: Vec<SourceCheck>,
    /// What is for whoever serves the image to look at.
    later: UntracedFiles,
    /// How many files that are.
    left: u64,
}

impl QuickLook<'_> {
    fn new(layer: &ImageLayer, looked_up: Option<HashSet<SquashNode>>) -> QuickLook<'_> {
        QuickLook { layer, looked_up, checks: Vec::new(), later: UntracedFiles::new(), left: 0 }
    }

    /// Adds what decides of these paths, where they are in the image, and what lies there now.
    fn at(&mut self, sources: &[(&Path, SquashNode, SourceIdentity)]) {
        for (path, node, source) in sources {
            self.add((*path).to_owned(), *node, *source);
            self.deciding(path, *node, source.below());
        }
        self.unasked_bytecode();
    }

    /// Adds what need not be looked at when it is looked up, unless there may be another source by then.
    fn compare(&mut self, path: PathBuf, node: SquashNode, source: SourceIdentity) {
        if source != SourceIdentity::Other {
            self.later.known.insert(node);
        }
        self.add(path, node, source);
    }

    /// Whether nobody will look at a file or directory of bytecode when it is looked up.
    fn is_now_or_never(&self, node: SquashNode) -> bool {
        self.looked_up.as_ref().is_none_or(|looked_up| looked_up.contains(&node))
    }

    fn add(&mut self, path: PathBuf, node: SquashNode, source: SourceIdentity) {
        // A damaged image is said to be so by whatever reads it.
        if let Ok(packed) = self.layer.image.attributes(node) {
            self.checks.push(SourceCheck { path, node, packed, source });
        }
    }

    /// Adds all below a directory that decides which code runs.
    fn deciding(&mut self, directory: &Path, node: SquashNode, source: SourceIdentity) {
        let entries = self.layer.entries(node);
        // Of another source nothing is known by its times.
        let is_other = source == SourceIdentity::Other;
        let compiled = self.traced_bytecode(&entries);
        self.later.directories.insert(node, directory.to_owned());
        for entry in &entries {
            let path = || directory.join(OsStr::from_bytes(&entry.name));
            match entry.kind {
                NodeKind::Directory if self.layer.is_made(entry) => {}
                NodeKind::Directory if entry.name == BYTECODE => {
                    self.later.bytecode.insert(entry.node, (node, directory.to_owned()));
                    // Where the sources had none, one that is there by now changed their directory.
                    if (is_other || !compiled.is_empty() || self.is_now_or_never(entry.node))
                        && !healed::is_made(self.layer, node, entry)
                    {
                        self.compare(path(), entry.node, source);
                    }
                }
                NodeKind::Directory => {
                    self.add(path(), entry.node, source);
                    self.deciding(&path(), entry.node, source);
                }
                NodeKind::File => {
                    let is_compiled = || {
                        let stem = entry.name.strip_suffix(b".py");
                        stem.is_some_and(|stem| compiled.contains(stem))
                    };
                    if is_other
                        || self.is_now_or_never(entry.node)
                        || self.is_used(entry)
                        || is_compiled()
                    {
                        self.compare(path(), entry.node, source);
                    } else {
                        self.left += 1;
                    }
                }
                // That it is another one changes the directory's time.
                _ => {}
            }
        }
    }

    /// Adds the bytecode that Python takes unasked: written over in place, it changes no directory's
    /// time. Where becalm serves the image, it is looked at when it is looked up.
    fn unasked_bytecode(&mut self) {
        let kept = self.later.bytecode.iter().filter(|(node, _)| self.is_now_or_never(**node));
        let kept: Vec<_> = kept.map(|(node, (_, sources))| (*node, sources.clone())).collect();
        for (node, sources) in kept {
            let directory = sources.join(OsStr::from_bytes(BYTECODE));
            for entry in unasked(self.layer, node) {
                let path = directory.join(OsStr::from_bytes(&entry.name));
                self.add(path, entry.node, SourceIdentity::Unknown);
            }
        }
    }

    /// The modules of a directory whose bytecode the trace opened: of their sources it asked only
    /// whether they are older.
    fn traced_bytecode(&self, entries: &[SquashEntry]) -> HashSet<Vec<u8>> {
        let Some(kept) = entries.iter().find(|entry| entry.name == BYTECODE) else {
            return HashSet::new();
        };
        if self.front() == 0 {
            return HashSet::new();
        }
        let kept = self.layer.entries(kept.node);
        let used = kept.iter().filter(|entry| entry.kind == NodeKind::File && self.is_used(entry));
        used.filter_map(|entry| module(&entry.name).map(<[u8]>::to_vec)).collect()
    }

    fn front(&self) -> u64 {
        self.layer.manifest().map_or(0, |manifest| manifest.front)
    }

    /// Whether the trace opened a file; without a trace, whether it looks like code. An image of an
    /// older becalm has no list of them: there it is what lies where the trace's files do.
    fn is_used(&self, file: &SquashEntry) -> bool {
        let image = &self.layer.image;
        let opened = self.layer.manifest().and_then(|manifest| manifest.opened.as_ref());
        // Of a damaged one nothing is known.
        match (self.front(), opened) {
            (0, _) => is_code(&file.name),
            (_, Some(opened)) => image
                .attributes(file.node)
                .map_or(true, |about| opened.binary_search(&about.inode).is_ok()),
            (front, None) => {
                let place = image.open(file.node).and_then(|content| image.position(&content));
                place.map_or(true, |place| place < front)
            }
        }
    }
}

fn full(
    layer: &ImageLayer,
    path: &Path,
    node: SquashNode,
    source: SourceIdentity,
    found: &mut SourceComparison,
) {
    let Ok(packed) = layer.image.attributes(node) else { return };
    let is_packed_dir = packed.kind == NodeKind::Directory;
    let check = [SourceCheck { path: path.to_owned(), node, packed, source }];
    found.add(&check, &differences(layer, &check));
    if !is_packed_dir || !fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        return;
    }
    let entries = layer.entries(node);
    for entry in entries.iter().filter(|entry| !layer.is_made(entry)) {
        let below = path.join(OsStr::from_bytes(&entry.name));
        match healed::bytecode(layer, node, entry) {
            Some(healed) => {
                full_bytecode(layer, &below, entry.node, source.below(), &healed, found)
            }
            None => full(layer, &below, entry.node, source.below(), found),
        }
    }
    new_names(path, &entries, found);
}

/// Bytecode that was compiled into the image is none of the sources'.
fn full_bytecode(
    layer: &ImageLayer,
    path: &Path,
    node: SquashNode,
    source: SourceIdentity,
    healed: &BTreeSet<Vec<u8>>,
    found: &mut SourceComparison,
) {
    let entries = layer.entries(node);
    let is_healed = |entry: &SquashEntry| healed.contains(&entry.name);
    // The source had none, and has none by now, or one that decides nothing.
    if entries.iter().all(is_healed)
        && (!path.exists() || decides_nothing(path).is_ok_and(|nothing| nothing))
    {
        return;
    }
    let Ok(packed) = layer.image.attributes(node) else { return };
    let check = [SourceCheck { path: path.to_owned(), node, packed, source }];
    found.add(&check, &differences(layer, &check));
    for entry in entries.iter().filter(|entry| !is_healed(entry)) {
        full(layer, &path.join(OsStr::from_bytes(&entry.name)), entry.node, source, found);
    }
    new_names(path, &entries, found);
}

fn new_names(path: &Path, entries: &[SquashEntry], found: &mut SourceComparison) {
    let packed: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
    for there in fs::read_dir(path).into_iter().flatten().flatten() {
        let name = there.file_name();
        let is_bytecode =
            || name.as_bytes() == BYTECODE && decides_nothing(&there.path()).is_ok_and(|it| it);
        if !packed.contains(name.as_bytes()) && !is_bytecode() {
            found.changed.push((there.path(), "is new"));
        }
    }
}

/// The module that a file in `__pycache__` is the bytecode of: `m` of `m.cpython-311.pyc`.
pub(super) fn module(bytecode: &[u8]) -> Option<&[u8]> {
    let stem = bytecode.strip_suffix(b".pyc")?;
    let end = stem.windows(9).position(|part| part == b".cpython-");
    let end = end.or_else(|| stem.iter().rposition(|byte| *byte == b'.'));
    end.map(|end| &stem[..end])
}

/// Whether a file looks like code by its name: Python's, libraries, and what says where they are.
fn is_code(name: &[u8]) -> bool {
    let ends = [&b".py"[..], b".pyc", b".pth", b".egg-link", b".so"];
    ends.iter().any(|end| name.ends_with(end)) || name.windows(4).any(|part| part == b".so.")
}
