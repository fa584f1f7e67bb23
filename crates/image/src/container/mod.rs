//! A container in one file: a SIF of a whole root, or of directories over the root of another SIF,
//! with a layer to write to where one is wanted.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | the parts, put together |
//! | `base` | what is below the directories |

mod base;

use std::fs::File;
use std::path::{Path, PathBuf};

use image_format::ext3::{self, Ext3Overlay};
use image_format::sif::{
    self, Arch, Container, Filesystem, INSPECT_METADATA, Partition, Role, Sif, SifObjectKind,
    SifPart,
};
use image_format::tree::ImageLayout;
use rustix::fs::{FallocateFlags, Mode as FileMode, OFlags, fallocate, open};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ImageError;
use crate::heal::{Healing, heal};
use crate::out::{AccessMode, Out, UnnamedImage, directory_of};
use crate::readable::{first_private, private_file};
use crate::squash::{self, ImageOptions, ImageProgress, PathsImage};
use base::Base;

/// What a container is made of.
pub enum ContainerContent<'a> {
    /// A whole root directory, and what the container is told to do. What is not told is taken from
    /// the directory, if it was a container's before.
    Root(&'a Path, Container),
    /// All that a SIF holds, and over its root these paths, each at its own place.
    Over(&'a Path, &'a [PathBuf]),
}

/// What was made.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Sealed {
    /// The file's length.
    pub bytes: u64,
    /// Its UUID.
    pub uuid: String,
    /// For which processors it is, as Go names them.
    pub arch: &'static str,
    /// The SIF whose objects are in it, too.
    #[serde(serialize_with = "base_text")]
    #[schemars(with = "Option<image_format::path_json::PathText>")]
    pub base: Option<PathBuf>,
    /// The size of the layer in it that can be written to, in bytes.
    pub overlay_bytes: Option<u64>,
}

fn base_text<S: serde::Serializer>(base: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct BasePath<'a>(#[serde(with = "image_format::path_json")] &'a Path);
    base.as_deref().map(BasePath).serialize(to)
}

/// Packs a container into a SIF that has no name yet; where something goes wrong, nothing is left. The layer to write to is the last part.
///
/// All times in the SIF and its layer are [`ImageOptions::made`], or that of the newest file.
///
/// # Errors
/// Those of [`squash::build`]; a directory that is no root; a base that cannot be added to, or in
/// which the paths would hide something.
pub fn build(
    content: ContainerContent<'_>,
    target: &Path,
    options: &ImageOptions<'_>,
    overlay: Option<&Ext3Overlay>,
) -> Result<(UnnamedImage, PathsImage, Sealed), ImageError> {
    squash::check(target, options)?;
    match content {
        ContainerContent::Root(root, container) => {
            of_root(root, container, target, options, overlay)
        }
        ContainerContent::Over(base, paths) => over(base, paths, target, options, overlay),
    }
}

/// A new SIF of what another one holds, and a layer to write to. The target must not be there.
///
/// # Errors
/// A base that cannot be added to; what cannot be read or written.
pub fn with_overlay(
    base: &Path,
    target: &Path,
    overlay: &Ext3Overlay,
    progress: &dyn Fn(ImageProgress),
) -> Result<(UnnamedImage, Sealed), ImageError> {
    let base = Base::open(base)?;
    let out = Out::new(target, AccessMode::Executable)?.holding(private_file(&base.path))?;
    let layer = WritableLayer::new(target, overlay, base.arch(), overlay.created)?;
    let job = SifJob { target, created: overlay.created, arch: base.arch(), progress };
    let sealed = job.seal(&out, &base.with(vec![layer.part()?])?, Some(&layer))?;
    Ok((out.unnamed(), Sealed { base: Some(base.path.clone()), ..sealed }))
}

/// An ext3 image by itself. The target must not be there.
///
/// # Errors
/// A size or directory that cannot be; what cannot be written.
pub fn overlay(target: &Path, overlay: &Ext3Overlay) -> Result<UnnamedImage, ImageError> {
    let out = Out::new(target, AccessMode::Private)?;
    ext3::create(out.file(), overlay).map_err(ImageError::overlay(target))?;
    Ok(out.unnamed())
}

fn of_root(
    root: &Path,
    container: Container,
    target: &Path,
    options: &ImageOptions<'_>,
    overlay: Option<&Ext3Overlay>,
) -> Result<(UnnamedImage, PathsImage, Sealed), ImageError> {
    let layout = ImageLayout::of(&[root.to_owned()])?;
    squash::check_place(target, &layout)?;
    let no_shell = || ImageError::Unfit {
        path: root.to_owned(),
        why: "it is no whole root: there is no /bin/sh in it for a known processor",
    };
    let arch = Arch::of_root(root).ok_or_else(no_shell)?;
    let container = container.or_of_root(root);
    let out = Out::beside(target, AccessMode::Executable)?;
    let mut tree = squash::scan(layout, options)?;
    let out = out.holding(first_private(&tree, options))?;
    let sources = tree.fingerprint();
    let made = options.made.unwrap_or(sources.newest);
    tree.stands_for = PathBuf::from("/");
    // Whoever runs it sees it, though a temporary directory is its maker's alone; as apptainer
    // does.
    tree.nodes[0].attributes.mode |= 0o755;
    tree.add(&container.additions(), made)?;

    let texts = ContainerTexts::of(&container);
    let mut parts = texts.parts();
    let job = SifJob { target, created: made.into(), arch, progress: options.progress };
    let at = sif::next_partition(&parts);
    // Its Python runs in it, not on this system.
    let healing = Healing::none(options);
    let packing = squash::TreeAndSources {
        tree: &tree,
        sources: &sources,
        healing: &healing,
        is_there: &|_| false,
    };
    let built = squash::write(packing, options, &out, at)?;
    parts.push(job.packed(&built, Role::PrimarySystem));
    let layer = overlay
        .map(|overlay| WritableLayer::new(target, overlay, arch, job.created))
        .transpose()?;
    if let Some(layer) = &layer {
        parts.push(layer.part()?);
    }
    let sealed = job.seal(&out, &parts, layer.as_ref())?;
    Ok((out.unnamed(), built, sealed))
}

fn over(
    base: &Path,
    paths: &[PathBuf],
    target: &Path,
    options: &ImageOptions<'_>,
    overlay: Option<&Ext3Overlay>,
) -> Result<(UnnamedImage, PathsImage, Sealed), ImageError> {
    let layout = ImageLayout::at_their_places(paths)?;
    squash::check_place(target, &layout)?;
    let base = Base::open(base)?;
    base.check_target(target)?;
    let arch = base.arch();
    let out = Out::beside(target, AccessMode::Executable)?;
    let mut tree = squash::scan(layout, options)?;
    let private = private_file(&base.path).or_else(|| first_private(&tree, options));
    let out = out.holding(private)?;
    base.take_over(&mut tree)?;
    let sources = tree.fingerprint();
    let created = options.made.unwrap_or(sources.newest).into();
    let job = SifJob { target, created, arch, progress: options.progress };
    let at = sif::next_partition(&base.with(Vec::new())?);
    let layer = overlay
        .map(|overlay| WritableLayer::new(target, overlay, arch, job.created))
        .transpose()?;
    // Refused before hours of reading.
    let layer_part = || layer.iter().map(WritableLayer::part).collect::<Result<Vec<_>, _>>();
    base.with(layer_part()?)?;
    let healing = heal(&mut tree, options);
    let packing = squash::TreeAndSources {
        tree: &tree,
        sources: &sources,
        healing: &healing,
        is_there: &|outside| base.has(outside),
    };
    let built = squash::write(packing, options, &out, at)?;
    let mut more = vec![job.packed(&built, Role::Overlay)];
    more.extend(layer_part()?);
    let sealed = job.seal(&out, &base.with(more)?, layer.as_ref())?;
    Ok((out.unnamed(), built, Sealed { base: Some(base.path.clone()), ..sealed }))
}

/// What all parts of a SIF have in common.
struct SifJob<'a> {
    target: &'a Path,
    created: i64,
    arch: Arch,
    progress: &'a dyn Fn(ImageProgress),
}

impl SifJob<'_> {
    /// The part that is the squashfs.
    fn packed(&self, built: &PathsImage, role: Role) -> SifPart<'static> {
        let partition = Partition { filesystem: Filesystem::Squashfs, role, arch: self.arch };
        SifPart::in_place(built.image_bytes, partition)
    }

    /// Writes all other parts, and the table.
    fn seal(
        &self,
        out: &Out,
        parts: &[SifPart<'_>],
        layer: Option<&WritableLayer<'_>>,
    ) -> Result<Sealed, ImageError> {
        let tell = |done, of| (self.progress)(ImageProgress::Copying { done, of });
        let written = sif::write_telling(out.file(), parts, self.created, &tell);
        let written = written.map_err(ImageError::sif_write(self.target))?;
        if let Some(WritableLayer { overlay, .. }) = layer.filter(|layer| !layer.overlay.sparse) {
            // It is the last part.
            let start = written.size - overlay.size;
            fallocate(out.file(), FallocateFlags::empty(), start, overlay.size)
                .map_err(ImageError::at("set room aside for the overlay", self.target))?;
        }
        Ok(Sealed {
            uuid: sif::uuid_text(&written.uuid),
            arch: self.arch.name(),
            base: None,
            overlay_bytes: layer.map(|layer| layer.overlay.size),
            bytes: written.size,
        })
    }
}

/// A layer to write to, in a file without a name.
struct WritableLayer<'a> {
    file: File,
    overlay: &'a Ext3Overlay,
    arch: Arch,
    target: &'a Path,
}

impl<'a> WritableLayer<'a> {
    fn new(
        target: &'a Path,
        overlay: &'a Ext3Overlay,
        arch: Arch,
        created: i64,
    ) -> Result<WritableLayer<'a>, ImageError> {
        let file = tempfile::tempfile_in(directory_of(target));
        let file = file.map_err(ImageError::at("write a file beside it", target))?;
        let sparse = Ext3Overlay { sparse: true, created, ..overlay.clone() };
        ext3::create(&file, &sparse).map_err(ImageError::overlay(target))?;
        Ok(WritableLayer { file, overlay, arch, target })
    }

    fn part(&self) -> Result<SifPart<'_>, ImageError> {
        let (filesystem, role) = (Filesystem::Ext3, Role::Overlay);
        let partition = Partition { filesystem, role, arch: self.arch };
        SifPart::of_image(&self.file, "", partition).map_err(ImageError::at("stat", self.target))
    }
}

/// What a SIF says of a container beside its root.
struct ContainerTexts<'a> {
    container: &'a Container,
    labels: String,
    metadata: String,
}

impl ContainerTexts<'_> {
    fn of(container: &Container) -> ContainerTexts<'_> {
        let (labels, metadata) = (container.labels_json(), container.inspect_metadata());
        ContainerTexts { container, labels, metadata }
    }

    fn parts(&self) -> Vec<SifPart<'_>> {
        let Container { deffile, environment, labels, .. } = self.container;
        let mut parts = Vec::new();
        if let Some(deffile) = deffile {
            parts.push(SifPart::of_bytes(SifObjectKind::Deffile, "", deffile.as_bytes()));
        }
        if let Some(environment) = environment {
            parts.push(SifPart::of_bytes(SifObjectKind::Environment, "", environment.as_bytes()));
        }
        if !labels.is_empty() {
            parts.push(SifPart::of_bytes(SifObjectKind::Labels, "", self.labels.as_bytes()));
        }
        parts.push(SifPart::of_bytes(
            SifObjectKind::Json,
            INSPECT_METADATA,
            self.metadata.as_bytes(),
        ));
        parts
    }
}

/// Opens a file that bytes can be read from at any place. A pipe is not waited for.
fn opened(path: &Path) -> Result<File, ImageError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file =
        File::from(open(path, flags, FileMode::empty()).map_err(ImageError::at("open", path))?);
    match file.metadata().map_err(ImageError::at("stat", path))?.is_file() {
        true => Ok(file),
        false => Err(ImageError::Unfit { path: path.to_owned(), why: "is no regular file" }),
    }
}

/// The SIF in a file.
fn read(path: &Path, file: &File) -> Result<Sif, ImageError> {
    Sif::read(file).map_err(|source| ImageError::Sif { path: path.to_owned(), source })
}
