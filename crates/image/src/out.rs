//! An image while it is written: a file without its name.

use std::fs::{File, Permissions, remove_file};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use launch::Unfinished;
use tempfile::NamedTempFile;

use crate::ImageError;

/// Who may do what with an image, before the umask.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum AccessMode {
    /// Anybody may read it.
    Plain = 0o666,
    /// It can be executed: a SIF is a script for its runtime.
    Executable = 0o777,
    /// Its maker's own: a container writes to it.
    Private = 0o600,
}

/// A file beside the target, which takes the target's name once all is on the disk. Dropped
/// before that, nothing is left of it; nor if becalm is asked to end before.
pub(crate) struct Out {
    file: NamedTempFile,
    target: PathBuf,
    unfinished: Unfinished,
}

impl Out {
    pub(crate) fn beside(target: &Path, mode: AccessMode) -> Result<Out, ImageError> {
        let target = recording::save::followed(target);
        let make = || {
            tempfile::Builder::new()
                .prefix(".becalm-")
                .permissions(Permissions::from_mode(mode as u32))
                .tempfile_in(directory_of(&target))
        };
        let (file, unfinished) = Unfinished::begin(make, |path| remove_file(path))
            .map_err(ImageError::at("write a file beside it", &target))?;
        Ok(Out { file, target, unfinished })
    }

    /// As [`Out::beside`], for a target that must not be there.
    pub(crate) fn new(target: &Path, mode: AccessMode) -> Result<Out, ImageError> {
        match target.symlink_metadata() {
            Ok(_) => Err(ImageError::Unfit {
                path: target.to_owned(),
                why: "exists; choose another name",
            }),
            Err(_) => Out::beside(target, mode),
        }
    }

    /// The file, to be written to at any place.
    pub(crate) fn file(&self) -> &File {
        self.file.as_file()
    }

    /// The name that it will have.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Leaves it without its name: becalm's journal knows of it first.
    pub(crate) fn unnamed(self) -> UnnamedImage {
        UnnamedImage { file: self.file, target: self.target, unfinished: self.unfinished }
    }
}

/// An image that is complete, and goes again unless it is kept.
pub struct UnnamedImage {
    file: NamedTempFile,
    target: PathBuf,
    unfinished: Unfinished,
}

impl UnnamedImage {
    /// Where it is for now: beside its target.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The name that it is to have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Gives it the owner and permissions of what has its name, for whoever else names it.
    ///
    /// # Errors
    /// Those of changing its permissions.
    pub fn take_access(&self) -> Result<(), ImageError> {
        let taken = recording::keep_access(self.file.as_file(), &self.target);
        taken.map_err(ImageError::at("write", &self.target))
    }

    /// Waits until all is on the disk, and gives it its name, in place of what has it.
    ///
    /// # Errors
    /// What cannot be written or renamed. Nothing is left of it then.
    pub fn keep(self) -> Result<(), ImageError> {
        self.unfinished.finish(|| named(self.file, &self.target))
    }

    /// Has somebody else give it its name. Asked to end, becalm ends before or after that.
    ///
    /// # Errors
    /// Those of the step.
    pub fn named_by<E>(&self, step: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        self.unfinished.finish(step)
    }
}

fn named(file: NamedTempFile, target: &Path) -> Result<(), ImageError> {
    recording::keep_access(file.as_file(), target).map_err(ImageError::at("write", target))?;
    file.as_file().sync_all().map_err(ImageError::at("write", target))?;
    file.persist(target)
        .map_err(|error| error.error)
        .map_err(ImageError::at("rename to it", target))?;
    // The image is whole; that its name is on the disk, too, is a courtesy.
    let _ = File::open(directory_of(target)).and_then(|directory| directory.sync_all());
    Ok(())
}

/// The directory that a file is in.
pub(crate) fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    }
}
