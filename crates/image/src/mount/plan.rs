//! What is asked for, opened: which images, over which paths.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image_format::sif::{Filesystem, Sif};

use super::asked::SharedMountRequest;
use super::beside::{self, BesideImage, OpenedAt, OverPaths};
use super::error::{self, MountError};
use super::layer::ImageLayer;
use super::overlay::OpenedOverlay;
use super::wanted::MountRequest;
use crate::hot::{self, HotFile};

/// Where the image goes.
#[derive(Debug)]
pub(crate) enum MountTarget {
    /// Over these paths: where it is, and where that lies in the image.
    Over(Vec<(PathBuf, PathBuf)>),
    /// It is all there is.
    Root,
}

/// All that is known before anything is changed.
#[derive(Debug)]
pub(crate) struct MountPlan<'a> {
    pub wanted: &'a MountRequest,
    /// The image's file; empty where there are only binds. Of several images, the one that is a whole
    /// root, or the first.
    pub image: &'a Path,
    /// It was said where that one goes.
    pub is_placed: bool,
    /// The other images.
    pub beside: Vec<BesideImage<'a>>,
    /// Squashfs of the image, the lowest first.
    pub layers: Vec<ImageLayer>,
    /// Partitions of a SIF that hold an ext3: (file, offset, size), seen by root only.
    pub partitions: Vec<(File, u64, u64)>,
    /// What is wrong with a hot part that is here, and not used.
    pub refused: Option<String>,
    pub(super) overlays: Vec<OpenedOverlay>,
    pub place: MountTarget,
    /// The working directory.
    pub directory: &'a Path,
    /// The same for those with the same LD_LIBRARY_PATH.
    pub library_path: &'a str,
    /// What a whole root depends on besides.
    pub around: &'a str,
}

impl MountPlan<'_> {
    pub fn of<'a>(asked: &'a SharedMountRequest<'_>) -> Result<MountPlan<'a>, MountError> {
        let SharedMountRequest { wanted, image, directory, library_path, around, .. } = asked;
        let mut images = beside::open(asked)?;
        let mut overlays = Vec::new();
        for overlay in &wanted.overlays {
            overlays.push(OpenedOverlay::of(overlay)?);
        }
        let image = image.as_deref().unwrap_or(Path::new(""));
        let first = (!images.is_empty()).then(|| images.remove(0));
        let first = first.unwrap_or_else(|| OpenedAt::nothing(image));
        let OpenedAt { file: image, is_placed, opened, place } = first;
        let OpenedImage { layers, partitions, refused, .. } = opened;
        let beside = images.into_iter().map(BesideImage::of).collect::<Result<_, _>>()?;
        let mut plan = MountPlan {
            wanted,
            image,
            is_placed,
            beside,
            layers,
            partitions,
            refused,
            overlays,
            place,
            directory,
            library_path,
            around,
        };
        plan.add_served_overlays()?;
        plan.squashes().iter().for_each(|layer| layer.is_run_by(&wanted.command));
        Ok(plan)
    }

    pub fn is_root(&self) -> bool {
        matches!(self.place, MountTarget::Root)
    }

    /// The paths that the image is mounted over; `/` where it is a whole root.
    pub fn over(&self) -> Vec<PathBuf> {
        match &self.place {
            MountTarget::Over(paths) => paths.iter().map(|(path, _)| path.clone()).collect(),
            MountTarget::Root => vec!["/".into()],
        }
    }

    /// The same, with those of the other images.
    pub fn all_over(&self) -> Vec<PathBuf> {
        let beside = self.beside.iter().flat_map(|image| &image.paths);
        self.over().into_iter().chain(beside.map(|(path, _)| path.clone())).collect()
    }

    /// Every squashfs, in the order in which they are mounted: the other images come first.
    pub fn squashes(&self) -> Vec<ImageLayer> {
        let beside = self.beside.iter().map(|image| &image.layer);
        beside.chain(&self.layers).cloned().collect()
    }

    /// The images that lie over paths: all but a whole root.
    pub fn over_paths(&self) -> impl Iterator<Item = OverPaths<'_>> {
        let first = match (&self.place, self.layers.first()) {
            (MountTarget::Over(paths), Some(layer)) => {
                Some(OverPaths { file: self.image, is_placed: self.is_placed, layer, paths })
            }
            _ => None,
        };
        first.into_iter().chain(self.beside.iter().map(BesideImage::over_paths))
    }

    /// The file of the image's hot part on this node, where there is one.
    pub fn hot_part(&self) -> Option<String> {
        self.layers.first()?.hot_part()
    }

    /// Whether the command can write over the image.
    pub fn is_writable(&self) -> bool {
        self.wanted.writable_tmpfs || self.overlays.iter().any(|one| !one.wanted.read_only)
    }

    /// Squashfs overlays are served as the image is, and an ordinary user's ext3 that is only seen.
    fn add_served_overlays(&mut self) -> Result<(), MountError> {
        if !may_mount_ext3() {
            for (file, offset, size) in std::mem::take(&mut self.partitions) {
                let part = Some((offset, size));
                self.layers.push(ImageLayer::open(self.image, file, part, None)?);
            }
        }
        for overlay in self.overlays.iter().filter(|overlay| overlay.is_served()) {
            let path = &overlay.wanted.path;
            let file = overlay.file.try_clone().map_err(error::file(path, "open"))?;
            self.layers.push(ImageLayer::open(path, file, None, None)?);
        }
        Ok(())
    }
}

/// Whether the kernel mounts an ext3 for this process: it does for root.
pub(super) fn may_mount_ext3() -> bool {
    rustix::process::geteuid().is_root()
}

/// An image's file, opened.
#[derive(Default)]
pub(crate) struct OpenedImage {
    /// The images in it, the lowest first.
    pub layers: Vec<ImageLayer>,
    /// Those that only root can mount.
    pub partitions: Vec<(File, u64, u64)>,
    pub is_sif: bool,
    /// What is wrong with a hot part that is here, and not used.
    pub refused: Option<String>,
}

/// Opens an image; what of it lies in memory of this node is read from there.
pub(crate) fn layers(path: &Path) -> Result<OpenedImage, MountError> {
    let open = || File::open(path).map_err(error::file(path, "open"));
    let there = path.metadata().map_err(error::file(path, "find"))?;
    // To open a FIFO waits for a writer.
    if there.file_type().is_fifo() || there.is_dir() {
        let why = "is no regular file".to_owned();
        return Err(MountError::Image { path: path.to_owned(), why });
    }
    let file = open()?;
    // Of what was opened: the path may be another file's by now.
    let there = file.metadata().map_err(error::file(path, "look at"))?;
    let (hot, refused) = hot::find(&there);
    let hot = hot.map(Arc::new);
    let source = HotFile { file: &file, hot: hot.as_deref() };
    if !Sif::is_in(&source).map_err(error::file(path, "read"))? {
        let layers = vec![ImageLayer::open(path, file, None, hot)?];
        return Ok(OpenedImage { layers, refused, ..OpenedImage::default() });
    }
    let wrong = |why: String| MountError::Image { path: path.to_owned(), why };
    let sif = Sif::read(&source).map_err(|error| wrong(error.to_string()))?;
    let root = sif.primary().ok_or_else(|| wrong("this SIF has no root partition".to_owned()))?;
    let mut layers = Vec::new();
    let mut partitions = Vec::new();
    for object in [root].into_iter().chain(sif.overlays()) {
        let Some(partition) = &object.partition else { continue };
        match partition.filesystem {
            Filesystem::Squashfs => {
                let part = Some((object.offset, object.size));
                layers.push(ImageLayer::open(path, open()?, part, hot.clone())?);
            }
            Filesystem::Ext3 if object.id != root.id => {
                partitions.push((open()?, object.offset, object.size));
            }
            other => return Err(wrong(format!("its partition {} is {other:?}", object.id))),
        }
    }
    Ok(OpenedImage { layers, partitions, is_sif: true, refused })
}

/// Where an image goes: to the given place, or where it says that it belongs.
pub(super) fn place(
    path: &Path,
    image: &ImageLayer,
    at: Option<&Path>,
    is_sif: bool,
) -> Result<MountTarget, MountError> {
    let root = Path::new("/");
    if let Some(at) = at {
        let at = std::path::absolute(at).map_err(error::file(at, "find"))?;
        return Ok(if at == root {
            MountTarget::Root
        } else {
            MountTarget::Over(vec![(at, root.into())])
        });
    }
    if is_sif {
        return Ok(MountTarget::Root);
    }
    if let Some(manifest) = image.manifest() {
        let layout = &manifest.layout;
        let inside = |path: &PathBuf| {
            let inner = path.strip_prefix(layout.base()).unwrap_or(path);
            (path.clone(), root.join(inner))
        };
        return match layout.paths() {
            [only] if only == root => Ok(MountTarget::Root),
            paths => Ok(MountTarget::Over(paths.iter().map(inside).collect())),
        };
    }
    // Somebody else's: a whole root looks like one.
    match ["bin", "etc", "usr"].iter().all(|name| image.has(name)) {
        true => Ok(MountTarget::Root),
        false => Err(MountError::Nowhere(path.to_owned())),
    }
}
