//! A hot part that is read: each piece of it is held against its digest, each time.

use std::cell::RefCell;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use image_format::ReadAt;
use sha2::{Digest, Sha256};

use super::error::{HotPartError, file};
use super::format::{self, DecodedHeader, PIECE};
use super::identity::identity;

/// Others may write.
const OTHERS_WRITE: u32 = 0o022;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A hot part on this node.
pub struct HotPart {
    file: File,
    path: PathBuf,
    about: DecodedHeader,
    /// A piece was not as its digest says: nothing is read from it any more.
    lies: AtomicBool,
}

impl HotPart {
    /// Opens a hot part, and reads what it says of itself.
    ///
    /// # Errors
    /// Where it is none, is not all there, or somebody else's.
    pub fn open(path: &Path) -> Result<HotPart, HotPartError> {
        let damaged = |why: String| HotPartError::Damaged { path: path.to_owned(), why };
        let mut how = OpenOptions::new();
        how.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let opened = how.open(path).map_err(file(path, "open"))?;
        let there = opened.metadata().map_err(file(path, "look at"))?;
        if !is_own(&there) {
            return Err(damaged("others can write it".to_owned()));
        }
        let read = |buffer: &mut [u8], at| FileExt::read_exact_at(&opened, buffer, at);
        let about = format::decode(there.len(), read).map_err(damaged)?;
        Ok(HotPart { file: opened, path: path.to_owned(), about, lies: AtomicBool::new(false) })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the image that are in it.
    pub fn bytes(&self) -> u64 {
        self.about.header.bytes()
    }

    /// Bytes of the image's file.
    pub fn image_bytes(&self) -> u64 {
        self.about.header.size
    }

    /// Its digest, SHA-256: what it says of itself names that of each of its pieces.
    pub fn digest(&self) -> &str {
        &self.about.digest
    }

    pub(super) fn identity(&self) -> &str {
        &self.about.header.identity
    }

    /// Whether it was taken from this file, as that is now.
    pub fn is_of(&self, image: &Metadata) -> bool {
        self.about.header.identity == identity(image)
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// If a piece is not as its digest says.
    pub fn check(&self) -> Result<(), HotPartError> {
        let pieces = 0..self.about.digests.len() as u64;
        match pieces.into_iter().all(|piece| self.piece(piece, &mut |_| ())) {
            true => Ok(()),
            false => {
                let why = "its content is not as its digests say".to_owned();
                Err(HotPartError::Damaged { path: self.path.clone(), why })
            }
        }
    }

    /// Fills a buffer with the image's bytes from an offset on, if all of them are in here and are as
    /// they were.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> bool {
        if self.lies.load(Ordering::Relaxed) {
            return false;
        }
        let Some(start) = self.find(offset, buffer.len() as u64) else { return false };
        let end = start + buffer.len() as u64;
        let mut pieces = start / PIECE..end.div_ceil(PIECE);
        pieces.all(|number| {
            self.piece(number, &mut |piece| {
                let at = number * PIECE;
                let from = start.max(at);
                let to = end.min(at + piece.len() as u64);
                let there = &piece[(from - at) as usize..(to - at) as usize];
                buffer[(from - start) as usize..(to - start) as usize].copy_from_slice(there);
            })
        })
    }

    /// Where bytes of the image lie in the content.
    fn find(&self, offset: u64, length: u64) -> Option<u64> {
        let end = offset.checked_add(length)?;
        let mut before = 0;
        for range in &self.about.header.ranges {
            if offset >= range.offset && end <= range.offset + range.length {
                return Some(before + (offset - range.offset));
            }
            before += range.length;
        }
        None
    }

    /// One piece of the content, if it is as its digest says.
    fn piece(&self, number: u64, with: &mut dyn FnMut(&[u8])) -> bool {
        let length = PIECE.min(self.bytes().saturating_sub(number * PIECE)) as usize;
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(length, 0);
            let at = self.about.content + number * PIECE;
            let is_true = FileExt::read_exact_at(&self.file, buffer, at).is_ok()
                && self
                    .about
                    .digests
                    .get(number as usize)
                    .is_some_and(|digest| Sha256::digest(&buffer[..])[..] == digest[..]);
            match is_true {
                true => with(buffer),
                false => self.lies.store(true, Ordering::Relaxed),
            }
            is_true
        })
    }
}

impl AsFd for HotPart {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A file that only this user can have written.
fn is_own(there: &Metadata) -> bool {
    let user = rustix::process::geteuid().as_raw();
    there.is_file() && there.uid() == user && there.mode() & OTHERS_WRITE == 0
}

/// An image's file, read from its hot part as far as that goes.
pub(crate) struct HotFile<'a> {
    pub file: &'a File,
    pub hot: Option<&'a HotPart>,
}

impl ReadAt for HotFile<'_> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self.hot.is_some_and(|hot| hot.read(buffer, offset)) {
            true => Ok(()),
            false => FileExt::read_exact_at(self.file, buffer, offset),
        }
    }
}
