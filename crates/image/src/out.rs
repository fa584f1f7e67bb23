//! An image while it is written: a file without its name.

use std::fs::{File, Permissions, metadata, remove_file};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use launch::{Leftovers, Unfinished};
use rustix::fs::{FlockOperation, flock};
use tempfile::NamedTempFile;

use crate::ImageError;

/// How the name of an image begins that has no other yet.
const UNNAMED: &str = ".becalm-image-";

/// A file of such a name that nobody has locked, nor written to for so long, is left of a maker that was killed.
const HOUR: Duration = Duration::from_secs(3600);

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
    /// Its maker's own, to be executed.
    PrivateExecutable = 0o700,
}

impl AccessMode {
    /// The same for its maker, and nothing for others.
    fn private(self) -> AccessMode {
        match self {
            AccessMode::Plain | AccessMode::Private => AccessMode::Private,
            AccessMode::Executable | AccessMode::PrivateExecutable => AccessMode::PrivateExecutable,
        }
    }
}

/// A file beside the target, which takes the target's name once all is on the disk. Dropped
/// before that, nothing is left of it; nor if becalm is asked to end before.
pub(crate) struct Out {
    file: NamedTempFile,
    target: PathBuf,
    unfinished: Unfinished,
    mode: AccessMode,
    /// What goes into it and not everybody can read.
    private: Option<PathBuf>,
}

impl Out {
    pub(crate) fn beside(target: &Path, mode: AccessMode) -> Result<Out, ImageError> {
        let target = save::followed(target);
        Leftovers::Files.clear(directory_of(&target), UNNAMED, HOUR);
        // Whose place it takes may not be for all to read: so it is nobody else's until it has that one's access.
        let is_there = metadata(&target).is_ok_and(|there| there.is_file());
        let first = if is_there { mode.private() } else { mode };
        let make = || {
            let file = tempfile::Builder::new()
                .prefix(UNNAMED)
                .permissions(Permissions::from_mode(first as u32))
                .tempfile_in(directory_of(&target))?;
            // Where it cannot be had, nobody else has it either.
            let _ = flock(file.as_file(), FlockOperation::NonBlockingLockExclusive);
            Ok(file)
        };
        let (file, unfinished) = Unfinished::begin(make, |path| remove_file(path))
            .map_err(ImageError::at("write a file beside it", &target))?;
        Ok(Out { file, target, unfinished, mode, private: None })
    }

    /// The same, for content of which not everybody can read this: then in a file that nobody else
    /// can have opened.
    pub(crate) fn holding(self, private: Option<PathBuf>) -> Result<Out, ImageError> {
        if private.is_none() {
            return Ok(self);
        }
        let (target, mode) = (self.target.clone(), self.mode.private());
        drop(self);
        Ok(Out { private, ..Out::beside(&target, mode)? })
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
        let Out { file, target, unfinished, private, .. } = self;
        UnnamedImage { file, target, unfinished, private }
    }
}

/// An image that is complete, and goes again unless it is kept.
pub struct UnnamedImage {
    file: NamedTempFile,
    target: PathBuf,
    unfinished: Unfinished,
    private: Option<PathBuf>,
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

    /// Gives it the owner and permissions of what has its name, for whoever else names it. Of an
    /// image that nobody but its owner may read for that, says what in it not everybody can read.
    ///
    /// # Errors
    /// Those of changing its permissions.
    pub fn take_access(&self) -> Result<Option<&Path>, ImageError> {
        let private = self.private.as_deref();
        let is_closed = take_access(self.file.as_file(), &self.target, private.is_some());
        let is_closed = is_closed.map_err(ImageError::at("write", &self.target))?;
        Ok(private.filter(|_| is_closed))
    }

    /// Waits until all is on the disk, and gives it its name, in place of what has it.
    ///
    /// # Errors
    /// What cannot be written or renamed. Nothing is left of it then.
    pub fn keep(self) -> Result<(), ImageError> {
        let is_private = self.private.is_some();
        self.unfinished.finish(|| named(self.file, &self.target, is_private))
    }

    /// Has somebody else give it its name. Asked to end, becalm ends before or after that.
    ///
    /// # Errors
    /// Those of the step.
    pub fn named_by<E>(&self, step: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        self.unfinished.finish(step)
    }
}

/// Opens a new image to whom the one before was open, but what is private never to everybody;
/// whether it stays its owner's for that.
fn take_access(new: &File, old: &Path, is_private: bool) -> io::Result<bool> {
    const OTHERS_READ: u32 = 0o004;
    let there = metadata(old).ok().filter(|there| there.is_file());
    let is_shared = there.as_ref().is_some_and(|there| there.mode() & OTHERS_READ == 0);
    if !is_private || is_shared {
        return access::keep_access(new, old).map(|()| false);
    }
    if let Some(there) = there {
        let _ = fchown(new, Some(there.uid()), Some(there.gid()));
    }
    Ok(true)
}

fn named(file: NamedTempFile, target: &Path, is_private: bool) -> Result<(), ImageError> {
    take_access(file.as_file(), target, is_private).map_err(ImageError::at("write", target))?;
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

#[cfg(test)]
mod tests {
    use std::fs::{set_permissions, write};

    use super::*;

    #[test]
    fn an_image_in_the_place_of_another_is_its_makers_alone_until_it_has_that_ones_access() {
        let scene = tempfile::tempdir().unwrap();
        let target = scene.path().join("image");
        write(&target, "old").unwrap();
        let mode = |path: &Path| metadata(path).unwrap().mode() & 0o777;
        for (how, first) in [(AccessMode::Plain, 0o600), (AccessMode::Executable, 0o700)] {
            for there in [0o600, 0o640, 0o755] {
                set_permissions(&target, Permissions::from_mode(there)).unwrap();
                let image = Out::beside(&target, how).unwrap().unnamed();
                assert_eq!(mode(image.path()), first);
                image.keep().unwrap();
                assert_eq!(mode(&target), there);
            }
        }
    }
}
