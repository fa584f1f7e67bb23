//! An image's files, unpacked into a directory: where nothing can be mounted, an environment is
//! copied to the memory of the node as one file and unpacked there.
//!
//! Nothing is ever written outside the directory, whatever the image says: all of it is made anew
//! in a directory that only its maker may enter, no name has a slash in it or is `..`, nothing that
//! is there is opened, and symbolic links come last, when no path leads through them any more. The
//! directory takes its name once all is in it.
//!
//! | file | what it holds |
//! |---|---|
//! | `list` | what there is to unpack |
//! | `target` | the directory: new, or empty |
//! | `write` | files, directories and links, made |

mod list;
mod target;
mod write;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use image_format::sif::{Filesystem, Sif, SifObject};
use image_format::squash::{FilePart, SquashImage, SquashReadError};
use launch::Unfinished;
use rustix::fs::{Mode, OFlags, open, statvfs};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Manifest;
use crate::out::directory_of;
use crate::removed::remove_tree;
pub(crate) use list::ExtractList;
use target::ExtractTarget;
use write::ExtractWriter;

/// Bytes of decompressed blocks that are kept: small files share them.
const KEPT: usize = 128 << 20;
/// What a file takes on the disk is a multiple of this.
const BLOCK: u64 = 4096;

/// Why an image was not unpacked. Nothing is left of it then.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The system said no.
    #[error("{}: {operation}", path.display())]
    At {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something in the image cannot be read.
    #[error("{}", path.display())]
    Read {
        /// The image, or the file in it.
        path: PathBuf,
        /// Why not.
        source: SquashReadError,
    },
    /// A SIF that cannot be read.
    #[error("{}", path.display())]
    Sif {
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: image_format::sif::SifReadError,
    },
    /// There is something about the image, or a path in it, that will not do.
    #[error("{}: {why}", path.display())]
    Unfit {
        /// Which.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// It would not fit.
    #[error(
        "{}: {files} files with {bytes} bytes do not fit: there is room for {free_files} and \
         {free_bytes}", directory.display()
    )]
    NoRoom {
        /// Where.
        directory: PathBuf,
        /// How many files, directories and links there are.
        files: u64,
        /// What they take.
        bytes: u64,
        /// How many more the filesystem can hold.
        free_files: u64,
        /// What it has left.
        free_bytes: u64,
    },
}

impl ExtractError {
    fn at<E: Into<io::Error>>(
        operation: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> ExtractError {
        move |source| ExtractError::At { operation, path: path.to_owned(), source: source.into() }
    }

    fn read(path: &Path) -> impl FnOnce(SquashReadError) -> ExtractError {
        move |source| ExtractError::Read { path: path.to_owned(), source }
    }

    fn unfit(path: &Path, why: impl Into<String>) -> ExtractError {
        ExtractError::Unfit { path: path.to_owned(), why: why.into() }
    }
}

/// What is to be unpacked, and how.
pub struct ExtractRequest<'a> {
    /// Paths from the image's root; all of it if there are none.
    pub paths: &'a [PathBuf],
    /// The number of the object in a SIF; by default the one that is its root.
    pub object: Option<u32>,
    /// How many files to write at a time.
    pub writers: usize,
    /// Is told how many bytes are written, and of how many.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// How files are made.
pub(crate) struct ExtractRules<'a> {
    /// How many to write at a time.
    pub writers: usize,
    /// Is told how many bytes are written, and of how many.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// The directory is there, is empty, and keeps who may do what with it.
    pub is_there: bool,
    /// The tree is to stand in for a mount of the image.
    pub stand_in: Option<StandIn<'a>>,
}

/// How a tree differs that stands in for a mount of the image: no program in it runs as somebody
/// else, as with a mount's `nosuid`.
pub(crate) struct StandIn<'a> {
    /// Nobody may write to it.
    pub read_only: bool,
    /// The target of a symbolic link, if it is to be another one.
    pub target: &'a (dyn Fn(&[u8]) -> Option<Vec<u8>> + Sync),
    /// Whether there is still room: asked before bytes are written, so many at most.
    pub room: &'a (dyn Fn(u64) -> io::Result<()> + Sync),
}

/// What was unpacked.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Extracted {
    /// The object in a SIF; none of a squashfs.
    pub object: Option<u32>,
    /// Squashfs objects of a SIF that are laid over this one, and are not in the directory.
    pub overlays: Vec<u32>,
    /// The directory that a squashfs stands for, where it says so.
    #[serde(serialize_with = "path_or_none")]
    #[schemars(with = "Option<recording::Name>")]
    pub stands_for: Option<PathBuf>,
    /// Files, each once, however many names it has.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Devices, pipes and sockets.
    pub special: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Whether all belongs to whom it belonged in the image. If not, it is the caller's, and no
    /// file has its set-user-ID and set-group-ID bits.
    pub owners: bool,
    /// Extended attributes that could not be set: by this user, or on this filesystem.
    pub lost_xattrs: u64,
    /// Devices, which this user cannot make.
    #[serde(serialize_with = "image_format::path_json::list::serialize")]
    #[schemars(with = "Vec<image_format::path_json::PathText>")]
    pub left_out: Vec<PathBuf>,
}

fn path_or_none<S: serde::Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(recording::shown_name).serialize(to)
}

/// Unpacks an image into a directory that is not there, or is empty: then it keeps its mode, owner
/// and access control lists, and through a symbolic link it is the one that this leads to.
///
/// # Errors
/// What cannot be read or written, does not fit, or is no image; a path that is not in it.
pub fn extract(
    image: &Path,
    directory: &Path,
    wanted: &ExtractRequest<'_>,
) -> Result<Extracted, ExtractError> {
    let (squash, about) = opened(image, wanted.object)?;
    let target = ExtractTarget::of(directory)?;
    let list = ExtractList::of(&squash, image, wanted.paths)?;
    check_room(&target.directory, &list)?;
    let how = ExtractRules {
        writers: wanted.writers,
        progress: wanted.progress,
        is_there: target.is_there,
        stand_in: None,
    };
    let written = unpack(&squash, &list, &target.directory, &how)?;
    Ok(Extracted {
        object: about.object,
        overlays: about.overlays,
        stands_for: about.stands_for,
        ..written
    })
}

/// Makes all that is on a list, in a directory that takes its name once all is in it. Nothing is
/// left where that fails, or becalm is asked to end before.
pub(crate) fn unpack(
    image: &SquashImage,
    list: &ExtractList,
    directory: &Path,
    how: &ExtractRules<'_>,
) -> Result<Extracted, ExtractError> {
    let make = || tempfile::Builder::new().prefix(".becalm-").tempdir_in(directory_of(directory));
    let (staged, unfinished) = Unfinished::begin(make, remove_tree)
        .map_err(ExtractError::at("make a directory beside it", directory))?;
    let written = ExtractWriter::new(image, list, staged.path(), how)
        .and_then(|writer| writer.run(how.is_there.then_some(directory)))
        .and_then(|written| {
            unfinished
                .finish(|| fs::rename(staged.path(), directory))
                .map_err(ExtractError::at("rename to it", directory))?;
            Ok(written)
        });
    match written {
        Ok(_) => drop(staged.keep()),
        Err(_) => {
            let _ = remove_tree(staged.path());
        }
    }
    written
}

/// The squashfs in a file, and what is known of it.
fn opened(path: &Path, object: Option<u32>) -> Result<(SquashImage, Extracted), ExtractError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = open(path, flags, Mode::empty()).map_err(ExtractError::at("open", path))?;
    let file = File::from(file);
    if !file.metadata().map_err(ExtractError::at("stat", path))?.is_file() {
        return Err(ExtractError::unfit(path, "is no regular file"));
    }
    let mut about = Extracted::default();
    let image = if Sif::is_in(&file).map_err(ExtractError::at("read", path))? {
        let sif = Sif::read(&file)
            .map_err(|source| ExtractError::Sif { path: path.to_owned(), source })?;
        let part = chosen(path, &sif, object)?;
        about.object = Some(part.id);
        if object.is_none() {
            about.overlays = sif.overlays().filter(|it| is_squashfs(it)).map(|it| it.id).collect();
        }
        let part = FilePart { file, offset: part.offset, size: part.size };
        SquashImage::new(Box::new(part), KEPT)
    } else if object.is_some() {
        return Err(ExtractError::unfit(path, "is no SIF: it has no objects"));
    } else {
        SquashImage::new(Box::new(file), KEPT)
    };
    let image = image.map_err(ExtractError::read(path))?;
    let manifest = Manifest::of(&image).map_err(ExtractError::read(path))?;
    // What a root was made of is of no matter where it is used.
    let manifest = manifest.filter(|_| about.object.is_none());
    about.stands_for = manifest.map(|manifest| manifest.layout.base().to_owned());
    Ok((image, about))
}

fn chosen<'a>(path: &Path, sif: &'a Sif, id: Option<u32>) -> Result<&'a SifObject, ExtractError> {
    let (object, missing) = match id {
        Some(id) => {
            let object = sif.objects.iter().find(|object| object.id == id);
            (object, format!("has no object {id}"))
        }
        None => (sif.primary(), "has no primary system; name an object with --object".to_owned()),
    };
    let object = object.ok_or_else(|| ExtractError::unfit(path, missing))?;
    match (is_squashfs(object), &object.partition) {
        (true, _) => Ok(object),
        (false, Some(partition)) => {
            let why =
                format!("its object {} is {}, and no squashfs", object.id, partition.filesystem);
            Err(ExtractError::unfit(path, why))
        }
        (false, None) => {
            let why = format!("its object {} is no partition", object.id);
            Err(ExtractError::unfit(path, why))
        }
    }
}

fn is_squashfs(object: &SifObject) -> bool {
    object.partition.is_some_and(|partition| partition.filesystem == Filesystem::Squashfs)
}

/// Says no before anything is written, if it would not fit.
fn check_room(directory: &Path, list: &ExtractList) -> Result<(), ExtractError> {
    let above = directory_of(directory);
    let room = statvfs(above).map_err(ExtractError::at("ask for the room in", above))?;
    // Some filesystems do not count files.
    let free_files = if room.f_files == 0 { u64::MAX } else { room.f_favail };
    let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
    if list.bytes_on_disk <= free_bytes && list.entries <= free_files {
        return Ok(());
    }
    let (files, bytes) = (list.entries, list.bytes_on_disk);
    Err(ExtractError::NoRoom {
        directory: directory.to_owned(),
        files,
        bytes,
        free_files,
        free_bytes,
    })
}
