//! An image while it is written: a file without its name.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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
/// before that, nothing is left of it.
pub(crate) struct Out {
    file: NamedTempFile,
    target: PathBuf,
}

impl Out {
    pub(crate) fn beside(target: &Path, mode: AccessMode) -> Result<Out, ImageError> {
        // Through a symbolic link: the link stays, what it points to is replaced.
        let target = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let file = tempfile::Builder::new()
            .prefix(".becalm-")
            .permissions(Permissions::from_mode(mode as u32))
            .tempfile_in(directory_of(&target))
            .map_err(ImageError::at("write a file beside it", &target))?;
        Ok(Out { file, target })
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

    /// Waits until all is on the disk, and gives it its name: in place of what has it, or, if it
    /// must be new, only where nothing has.
    pub(crate) fn finish(self, is_new: bool) -> Result<(), ImageError> {
        let Out { file, target } = self;
        recording::keep_access(file.as_file(), &target)
            .map_err(ImageError::at("write", &target))?;
        file.as_file().sync_all().map_err(ImageError::at("write", &target))?;
        let named = match is_new {
            true => file.persist_noclobber(&target),
            false => file.persist(&target),
        };
        named.map_err(|error| error.error).map_err(ImageError::at("rename to it", &target))?;
        // The image is whole; that its name is on the disk, too, is a courtesy.
        let _ = File::open(directory_of(&target)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

/// The directory that a file is in.
pub(crate) fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    }
}
