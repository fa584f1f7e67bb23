//! Directories that have changed since an image was made, shown over it as they are now
//! (`--live`).
//!
//! A changed directory is bound from the source over the image, and each directory in it that has
//! not changed is bound from the image over that: so a package that was upgraded is the new one, and
//! all others are still read from the image. A file that was edited in place takes its directory
//! along, with the bytecode in it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use image_format::squash::{NodeKind, SquashNode};
use sandbox::mounts::{self, PathHandle};

use super::error::{self, MountError};
use super::fresh::BYTECODE;
use super::fresh::SourceChanges;
use super::healed::healed_for_others;
use super::layer::ImageLayer;
use super::plan::MountPlan;

/// No more is mounted at one path: the mark, the images, an underlay and a bind.
const MOST_COPIES: usize = 8 + super::beside::MOST_IMAGES;

/// The directories that are to be shown from the source, sorted; a file, where it alone was packed.
/// With those that have changed come those in which the image has something that was made for what
/// is no more.
pub(super) fn directories(found: &SourceChanges, plan: &MountPlan<'_>) -> Vec<PathBuf> {
    let mut live = changed(found, &plan.all_over());
    if !live.is_empty() {
        let images = plan.over_paths().filter(|image| !image.is_placed);
        let healed: Vec<PathBuf> =
            images.flat_map(|image| healed_for_others(&image, &live)).collect();
        live.extend(healed);
    }
    live.into_iter().collect()
}

fn changed(found: &SourceChanges, packed: &[PathBuf]) -> BTreeSet<PathBuf> {
    let directory = |(path, _): &(PathBuf, &str)| {
        let is_dir = fs::symlink_metadata(path).is_ok_and(|there| there.is_dir());
        // Bytecode is shown with the sources beside it.
        let is_dir = is_dir && !path.ends_with(OsStr::from_bytes(BYTECODE));
        match (is_dir || packed.contains(path), path.parent()) {
            (false, Some(above)) => above.to_owned(),
            _ => path.clone(),
        }
    };
    found.changed.iter().map(directory).collect()
}

/// A packed path, opened before the image is mounted over it.
pub(super) struct LiveSource<'a> {
    layer: &'a ImageLayer,
    path: PathBuf,
    node: SquashNode,
    source: PathHandle,
}

impl LiveSource<'_> {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens those of these paths, and where each is in the image, that have changes.
pub(super) fn open<'a>(
    layer: Option<&'a ImageLayer>,
    live: &[PathBuf],
    paths: &[(PathBuf, PathBuf)],
) -> Result<Vec<LiveSource<'a>>, MountError> {
    let mut sources = Vec::new();
    let Some(layer) = layer else { return Ok(sources) };
    for (path, inner) in paths {
        if let Some(node) = layer.find(inner)
            && live.iter().any(|live| live.starts_with(path))
        {
            let source = PathHandle::at(path).map_err(error::file(path, "open"))?;
            sources.push(LiveSource { layer, path: path.clone(), node, source });
        }
    }
    Ok(sources)
}

/// Shows changed directories from their source.
pub(super) fn lay<'a>(
    live: &[PathBuf],
    sources: impl IntoIterator<Item = &'a LiveSource<'a>>,
) -> Result<(), MountError> {
    for LiveSource { layer, path, node, source } in sources {
        let image = PathHandle::at(path).map_err(error::file(path, "open"))?;
        LiveMounts { layer, live }.lay(path, *node, source, &image, false)?;
    }
    Ok(())
}

/// Shows a directory of the source at its own path, read-only as the image: nobody changes the source
/// through it.
fn show(source: &PathHandle, path: &Path) -> Result<(), MountError> {
    let look = |path: &Path| fs::metadata(path).map(|there| (there.dev(), there.ino()));
    let wrong = || error::file(path, "show what has changed in");
    let meant = look(&source.path()).map_err(wrong())?;
    mounts::bind(source, path, false)?;
    // Of a packed path, all that was mounted over it comes along.
    for _ in 0..MOST_COPIES {
        if look(path).map_err(wrong())? == meant {
            break;
        }
        mounts::take_away(path)?;
    }
    Ok(mounts::seal(path)?)
}

struct LiveMounts<'a> {
    layer: &'a ImageLayer,
    live: &'a [PathBuf],
}

impl LiveMounts<'_> {
    /// One directory and all below it. `image` was opened before anything was bound above it;
    /// `is_live`: the directory that it is in is shown from its source.
    fn lay(
        &self,
        path: &Path,
        node: SquashNode,
        source: &PathHandle,
        image: &PathHandle,
        is_live: bool,
    ) -> Result<(), MountError> {
        let is_changed = self.live.binary_search_by(|live| live.as_path().cmp(path)).is_ok();
        match (is_changed, is_live) {
            (true, false) => show(source, path)?,
            (false, true) => mounts::bind(image, path, false)?,
            _ => {}
        }
        for entry in self.layer.entries(node) {
            if entry.kind != NodeKind::Directory || entry.name == BYTECODE {
                continue;
            }
            let name = OsStr::from_bytes(&entry.name);
            let below = path.join(name);
            if !is_changed && !self.live.iter().any(|live| live.starts_with(&below)) {
                continue;
            }
            let from = source.path().join(name);
            // Gone, or a link by now: the directory shows it so.
            if !fs::symlink_metadata(&from).is_ok_and(|there| there.is_dir()) {
                continue;
            }
            let from = PathHandle::at(&from).map_err(error::file(&below, "open"))?;
            let packed = PathHandle::at(&image.path().join(name));
            let packed = packed.map_err(error::file(&below, "find in the image"))?;
            self.lay(&below, entry.node, &from, &packed, is_changed)?;
        }
        Ok(())
    }
}
