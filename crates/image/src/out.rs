//! An image while it is written: a file without its name.

use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::Error;

/// Bytes that are written at a time.
const BUFFER: usize = 1 << 20;

/// Who may do what with an image, before the umask.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Mode {
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
    /// Where the part begins that is being written. Positions are counted from here.
    start: u64,
    /// What is not written yet, and where it goes.
    buffer: Vec<u8>,
    written: u64,
}

impl Out {
    pub(crate) fn beside(target: &Path, mode: Mode) -> Result<Out, Error> {
        // Through a symbolic link: the link stays, what it points to is replaced.
        let target = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let file = tempfile::Builder::new()
            .prefix(".becalm-")
            .permissions(Permissions::from_mode(mode as u32))
            .tempfile_in(directory_of(&target))
            .map_err(Error::at("write a file beside it", &target))?;
        Ok(Out { file, target, start: 0, buffer: Vec::with_capacity(BUFFER * 2), written: 0 })
    }

    /// As [`Out::beside`], for a target that must not be there.
    pub(crate) fn new(target: &Path, mode: Mode) -> Result<Out, Error> {
        match target.symlink_metadata() {
            Ok(_) => {
                Err(Error::Unfit { path: target.to_owned(), why: "exists; choose another name" })
            }
            Err(_) => Out::beside(target, mode),
        }
    }

    /// The file, to be written to at any place. What was [`put`](Out::put) is in it once it is
    /// [settled](Out::settle).
    pub(crate) fn file(&self) -> &File {
        self.file.as_file()
    }

    /// From now on, positions are counted from this place in the file.
    pub(crate) fn start_at(&mut self, start: u64) {
        self.start = start;
        self.written = 0;
    }

    /// Where the next byte goes.
    pub(crate) fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Takes back all that was put since the position was this.
    pub(crate) fn take_back(&mut self, position: u64) {
        match position.checked_sub(self.written) {
            Some(kept) => self.buffer.truncate(kept as usize),
            None => {
                self.buffer.clear();
                self.written = position;
            }
        }
    }

    /// Fills up with zeros to a multiple of a size.
    pub(crate) fn pad(&mut self, size: u64) -> Result<(), Error> {
        let missing = self.position().next_multiple_of(size) - self.position();
        self.put(&vec![0; missing as usize])
    }

    fn flush(&mut self) -> Result<(), Error> {
        let write = self.file.as_file().write_all_at(&self.buffer, self.start + self.written);
        write.map_err(Error::at("write", &self.target))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the start, over what was put there, and opens what is written so far to be read:
    /// the file, where in it that is, and how many bytes.
    pub(crate) fn read(&mut self, start: &[u8]) -> Result<(File, u64, u64), Error> {
        self.flush()?;
        let file = self.file.as_file();
        file.write_all_at(start, self.start).map_err(Error::at("write", &self.target))?;
        let file = file.try_clone().map_err(Error::at("read", &self.target))?;
        Ok((file, self.start, self.written))
    }

    /// Everything that was put is in the file, which ends there.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        self.flush()?;
        // What was taken back may have been longer.
        let cut = self.file.as_file().set_len(self.start + self.written);
        cut.map_err(Error::at("write", &self.target))
    }

    /// Waits until all is on the disk, and gives it its name: in place of what has it, or, if it
    /// must be new, only where nothing has.
    pub(crate) fn finish(self, is_new: bool) -> Result<(), Error> {
        let Out { file, target, .. } = self;
        recording::keep_access(file.as_file(), &target).map_err(Error::at("write", &target))?;
        file.as_file().sync_all().map_err(Error::at("write", &target))?;
        let named = match is_new {
            true => file.persist_noclobber(&target),
            false => file.persist(&target),
        };
        named.map_err(|error| error.error).map_err(Error::at("rename to it", &target))?;
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
