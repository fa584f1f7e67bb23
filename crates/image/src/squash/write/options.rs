//! How an image is made, how far it is, and what was made.

use std::path::PathBuf;

use serde::Serialize;

use crate::squash::Compression;
use crate::tree::LeftOut;
use crate::{Manifest, Outside};

/// How an image is made.
pub struct Options<'a> {
    /// How it is compressed.
    pub compression: Compression,
    /// How hard; by default as [`Compression::default_level`] says.
    pub level: Option<i32>,
    /// Bytes of a block of data: a power of two from 4 KiB to 1 MiB.
    pub block_size: u32,
    /// How many threads read at a time.
    pub readers: usize,
    /// Files whose content comes first, in this order.
    pub first: &'a [PathBuf],
    /// What that order comes from, for the image's manifest.
    pub trace: Option<String>,
    /// Leave out what may not be read, rather than fail.
    pub skip_unreadable: bool,
    /// Leave out sockets, rather than fail.
    pub skip_special: bool,
    /// Keep xattrs.
    pub xattrs: bool,
    /// Scan again once the second of the newest change is over: squashfs keeps whole seconds, so a
    /// change after the scan in that same second would not be seen for one ever.
    pub settles: bool,
    /// When the image was made, in seconds since 1970; by default when the newest file changed.
    pub made: Option<u32>,
    /// Is told how far it is.
    pub progress: &'a dyn Fn(Progress),
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            compression: Compression::Zstd,
            level: None,
            block_size: 128 << 10,
            readers: 32,
            first: &[],
            trace: None,
            skip_unreadable: false,
            skip_special: false,
            xattrs: true,
            settles: false,
            made: None,
            progress: &|_| {},
        }
    }
}

impl Options<'_> {
    /// How hard it is compressed.
    pub(crate) fn level(&self) -> i32 {
        self.level.unwrap_or(self.compression.default_level())
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// Directories are being listed.
    Listing,
    /// Content is being packed.
    Packing {
        /// Bytes that are in the image.
        done: u64,
        /// Of so many.
        of: u64,
    },
    /// What lies outside is being looked for.
    Surveying,
    /// What the container has besides is being copied into it.
    Copying {
        /// Bytes that were looked at; of a hole, all at once.
        done: u64,
        /// Of so many.
        of: u64,
    },
}

/// What was made.
#[derive(Clone, Debug, Serialize)]
pub struct Built {
    /// Bytes of the image's file.
    pub image_bytes: u64,
    /// Bytes of the files in it.
    pub bytes: u64,
    /// Files in it: each once, however many names it has.
    pub files: u64,
    /// Directories in it.
    pub directories: u64,
    /// Symbolic links in it.
    pub links: u64,
    /// Devices and pipes in it.
    pub special: u64,
    /// How many of the files come first, in the order of a trace.
    pub traced: u64,
    /// Files whose content was there already, under another name.
    pub duplicates: u64,
    /// Their bytes.
    pub duplicate_bytes: u64,
    /// What is not in it.
    pub left_out: Vec<LeftOut>,
    /// What is used from it and lies outside.
    pub outside: Vec<Outside>,
    /// What the image says of itself.
    pub manifest: Manifest,
}
