//! Several images in one run, each at its own place, as squashfs-mount and uenv have it.
//!
//! All are mounted at one place, one over the other, so that one holder serves them and one guard goes
//! on; then each is bound where it belongs, what lies within another one after that.

use std::path::{Path, PathBuf};

use sandbox::mounts::{self, PathHandle};

use super::asked::SharedMountRequest;
use super::build::Build;
use super::compare::{ComparedSources, SourceComparison};
use super::error::{self, MountError};
use super::holder::BesideMounts;
use super::layer::ImageLayer;
use super::live;
use super::plan::{self, MountTarget, OpenedImage};
use super::points::{self, MountPointKind};

/// Each has a device and a thread of the holder's.
pub(super) const MOST_IMAGES: usize = 64;

/// An image, opened, and where it goes.
pub(super) struct OpenedAt<'a> {
    pub file: &'a Path,
    /// It was said where.
    pub is_placed: bool,
    pub opened: OpenedImage,
    pub place: MountTarget,
}

impl OpenedAt<'_> {
    fn of<'a>(file: &'a Path, at: Option<&Path>) -> Result<OpenedAt<'a>, MountError> {
        let opened = plan::layers(file)?;
        let place = match opened.layers.first() {
            Some(layer) => plan::place(file, layer, at, opened.is_sif)?,
            None => MountTarget::Over(Vec::new()),
        };
        Ok(OpenedAt { file, is_placed: at.is_some(), opened, place })
    }

    /// Where there are only binds.
    pub fn nothing(file: &Path) -> OpenedAt<'_> {
        let place = MountTarget::Over(Vec::new());
        OpenedAt { file, is_placed: false, opened: OpenedImage::default(), place }
    }

    fn is_root(&self) -> bool {
        matches!(self.place, MountTarget::Root)
    }
}

/// An image beside another one.
#[derive(Debug)]
pub(crate) struct BesideImage<'a> {
    pub file: &'a Path,
    is_placed: bool,
    pub layer: ImageLayer,
    /// Where it is, and where that lies in the image.
    pub paths: Vec<(PathBuf, PathBuf)>,
}

impl BesideImage<'_> {
    pub(super) fn of(image: OpenedAt<'_>) -> Result<BesideImage<'_>, MountError> {
        let OpenedAt { file, is_placed, opened, place } = image;
        let mut layers = opened.layers;
        match (place, layers.pop(), layers.is_empty() && opened.partitions.is_empty()) {
            (MountTarget::Over(paths), Some(layer), true) => {
                Ok(BesideImage { file, is_placed, layer, paths })
            }
            _ => {
                let why = "has overlays in it: among several images, only a whole root can";
                Err(MountError::Image { path: file.to_owned(), why: why.to_owned() })
            }
        }
    }

    pub(super) fn over_paths(&self) -> OverPaths<'_> {
        let BesideImage { file, is_placed, ref layer, ref paths } = *self;
        OverPaths { file, is_placed, layer, paths }
    }

    /// What later ranks are told.
    pub(super) fn mounts(&self) -> BesideMounts {
        BesideMounts {
            image: self.file.to_owned(),
            over: self.paths.iter().map(|(path, _)| path.clone()).collect(),
            hot_part: self.layer.hot_part(),
        }
    }
}

/// An image that lies over paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverPaths<'a> {
    pub file: &'a Path,
    /// It was said where: then nobody knows what it was made of.
    pub is_placed: bool,
    pub layer: &'a ImageLayer,
    pub paths: &'a [(PathBuf, PathBuf)],
}

impl OverPaths<'_> {
    /// What came of comparing it.
    pub fn compared(&self, found: &SourceComparison) -> ComparedSources {
        let manifest = self.layer.manifest();
        ComparedSources {
            image: self.file.to_owned(),
            files: found.files,
            read: found.read,
            trace: manifest.and_then(|manifest| manifest.trace.clone()),
            traced_in: manifest.and_then(|manifest| manifest.traced_in.clone()),
        }
    }
}

/// Opens all images: the one that is a whole root first, the others in their order.
pub(super) fn open<'a>(asked: &'a SharedMountRequest<'_>) -> Result<Vec<OpenedAt<'a>>, MountError> {
    let wanted = asked.wanted;
    let first = asked.image.as_deref().map(|file| (file, wanted.at.as_deref()));
    let others = asked.beside.iter().zip(&wanted.beside);
    let others = others.map(|(file, image)| (file.as_path(), image.at.as_deref()));
    let all = first.into_iter().chain(others);
    if let Some((file, _)) = all.clone().nth(MOST_IMAGES) {
        let why = format!("no more than {MOST_IMAGES} images can be seen together");
        return Err(MountError::Image { path: file.to_owned(), why });
    }
    let mut images = all.map(|(file, at)| OpenedAt::of(file, at)).collect::<Result<Vec<_>, _>>()?;
    let roots: Vec<usize> = (0..images.len()).filter(|index| images[*index].is_root()).collect();
    if let [first, second, ..] = roots[..] {
        let (path, other) = (images[second].file.to_owned(), images[first].file.display());
        let why = format!(
            "is a whole root, and so is {other}: give one of them a place (--image FILE:/PLACE), or \
             leave it out"
        );
        return Err(MountError::Image { path, why });
    }
    if let [root] = roots[..] {
        let root = images.remove(root);
        images.insert(0, root);
    }
    Ok(images)
}

/// A part of an image, to be bound: where, and where it lies in which image.
struct BoundPart<'a> {
    path: &'a Path,
    inner: &'a Path,
    layer: &'a ImageLayer,
    /// Its number among the other images; none: the first.
    beside: Option<usize>,
}

impl BoundPart<'_> {
    fn kind(&self) -> MountPointKind {
        match self.layer.is_dir(self.inner) {
            true => MountPointKind::Directory,
            false => MountPointKind::File,
        }
    }
}

/// The parts of images that lie over paths, the outer ones first.
fn parts<'a>(images: impl Iterator<Item = (Option<usize>, OverPaths<'a>)>) -> Vec<BoundPart<'a>> {
    let of = |(beside, image): (Option<usize>, OverPaths<'a>)| {
        let OverPaths { layer, paths, .. } = image;
        let part =
            move |(path, inner): &'a (PathBuf, PathBuf)| BoundPart { path, inner, layer, beside };
        paths.iter().map(part)
    };
    let mut parts: Vec<_> = images.flat_map(of).collect();
    parts.sort_by_key(|part| part.path);
    parts
}

/// Several images, none of which is a whole root, over their paths.
pub(super) fn over(build: &mut Build<'_>) -> Result<(), MountError> {
    let plan = build.plan;
    let sources = build.sources()?;
    let upper = build.directories()?;
    let numbers = [None].into_iter().chain((0..).map(Some));
    let parts = parts(numbers.zip(plan.over_paths()));
    let mut changed = Vec::new();
    for image in plan.over_paths() {
        changed.push(live::open(Some(image.layer), &build.live, image.paths)?);
    }
    // One that no other lies over: above it there may be files only.
    let outer = parts.iter().find(|part| part.kind() == MountPointKind::Directory);
    let stage = match outer {
        Some(outer) => build.points.make(outer.path, MountPointKind::Directory)?,
        None => points::anywhere(&[])?,
    };
    let before = PathHandle::at(&stage).map_err(error::file(&stage, "open"))?;
    build.stack(&stage, upper)?;
    let whole = PathHandle::at(&stage).map_err(error::file(&stage, "open"))?;
    for part in &parts {
        bind(build, part, &whole)?;
        let sources = changed.iter().flatten();
        live::lay(&build.live, sources.filter(|source| source.path() == part.path))?;
    }
    if outer.is_none() {
        (1..build.mounted).try_for_each(|_| mounts::take_away(&stage))?;
        mounts::bind(&before, &stage, false)?;
        mounts::take_away(&stage)?;
    }
    build.bind(sources)
}

/// The other images, laid into a whole root.
pub(super) fn into_root(build: &mut Build<'_>) -> Result<(), MountError> {
    let plan = build.plan;
    let images = plan.beside.iter().map(BesideImage::over_paths);
    for part in parts((0..).map(Some).zip(images)) {
        let number = part.beside.unwrap_or_default();
        let whole = PathHandle::at(&build.beside[number].path());
        bind(build, &part, &whole.map_err(error::file(part.path, "open"))?)?;
    }
    Ok(())
}

fn bind(build: &mut Build<'_>, part: &BoundPart<'_>, whole: &PathHandle) -> Result<(), MountError> {
    let at = build.points.make(part.path, part.kind())?;
    let image = part.beside.map_or(whole, |number| &build.beside[number]);
    let inner = part.inner.strip_prefix("/").unwrap_or(part.inner);
    let inside = PathHandle::at(&image.path().join(inner));
    let inside = inside.map_err(error::file(part.inner, "find in the image"))?;
    // Alone: the images lie over one another where they were mounted.
    Ok(mounts::bind_alone(&inside, &at)?)
}
