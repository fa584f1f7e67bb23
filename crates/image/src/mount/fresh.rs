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
//! compared. The same holds below a directory that was touched and has its old time: it may have been
//! renamed to where it is. The full look compares every file.
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
use super::bytecode_dirs::decides_nothing;
use super::compare::{ComparedSources, SourceCheck, SourceComparison, SourceIdentity, difference};
use super::error::MountError;
use super::healed;
use super::layer::ImageLayer;
use super::plan::MountPlan;
use super::quick::QuickLook;
use super::untraced::LookedUpNodes;
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
pub(crate) fn check(
    plan: &MountPlan<'_>,
    untraced: UntracedLook<'_>,
) -> Result<Vec<ComparedSources>, MountError> {
    look_at_condition(plan)?;
    let mut compared = Vec::new();
    for image in plan.over_paths() {
        let found = changes_of(plan, &image, untraced);
        if !found.changed.is_empty() {
            let (image, changed) = (image.file.to_owned(), found.said());
            return Err(MountError::Stale { image, changed });
        }
        compared.push(image.compared(&found));
    }
    Ok(compared)
}

/// What has changed in the sources of all images.
#[derive(Default)]
pub(crate) struct SourceChanges {
    /// How many files of each were compared.
    pub compared: Vec<ComparedSources>,
    /// What has changed, and how.
    pub changed: Vec<(PathBuf, &'static str)>,
}

/// What has changed.
///
/// # Errors
/// [`MountError::Condition`].
pub(crate) fn changes(
    plan: &MountPlan<'_>,
    untraced: UntracedLook<'_>,
) -> Result<SourceChanges, MountError> {
    look_at_condition(plan)?;
    let mut all = SourceChanges::default();
    for image in plan.over_paths() {
        let found = changes_of(plan, &image, untraced);
        all.compared.push(image.compared(&found));
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
            let is_served = matches!(untraced, UntracedLook::AtNextLookup(_));
            let look = QuickLook::new(layer, untraced.looked_up(plan, layer));
            let mut look = look.served(is_served);
            look.at(&sources);
            if look.left == 0 && look.looked_up.is_some() {
                // Nobody will look at anything later.
                look = QuickLook::new(layer, None);
                look.at(&sources);
            }
            look.compare_all(&mut found);
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

fn full(
    layer: &ImageLayer,
    path: &Path,
    node: SquashNode,
    source: SourceIdentity,
    found: &mut SourceComparison,
) {
    let Ok(packed) = layer.image.attributes(node) else { return };
    let is_packed_dir = packed.kind == NodeKind::Directory;
    let source = asked(layer, SourceCheck { path: path.to_owned(), node, packed, source }, found);
    if !is_packed_dir || !fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        return;
    }
    let entries = layer.entries(node);
    for entry in entries.iter().filter(|entry| !layer.is_made(entry)) {
        let below = path.join(OsStr::from_bytes(&entry.name));
        match healed::bytecode(layer, node, entry) {
            Some(healed) => full_bytecode(layer, &below, entry.node, source, &healed, found),
            None => full(layer, &below, entry.node, source, found),
        }
    }
    new_names(path, &entries, found);
}

/// Compares one, and says what is known then of what lies below it.
fn asked(layer: &ImageLayer, check: SourceCheck, found: &mut SourceComparison) -> SourceIdentity {
    let answer = difference(layer, &check);
    let below = if answer.is_moved { SourceIdentity::Other } else { check.source.below() };
    found.add(&[check], &[answer]);
    below
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
    let source = asked(layer, SourceCheck { path: path.to_owned(), node, packed, source }, found);
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
