//! How an image is written, and what was.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use crate::squash::Compression;
use crate::squash::format::{BLOCK_MAX, BLOCK_MIN};
use crate::tree::{FileNodeId, OmittedFile};

/// Which parts of files a trace used, in bytes, in order; of a file that is not in it all is taken
/// to be used.
pub type UsedParts = HashMap<PathBuf, Vec<Range<u64>>>;

/// How an image is written.
pub struct SquashOptions<'a> {
    /// How it is compressed.
    pub compression: Compression,
    /// How hard; by default as [`Compression::default_level`] says.
    pub level: Option<i32>,
    /// Bytes of a block of data: a power of two from 4 KiB to 1 MiB.
    pub block_size: u32,
    /// How many threads read and compress.
    pub readers: usize,
    /// Files whose content comes first, in this order. Those that are not in the tree are passed
    /// over.
    pub first: &'a [PathBuf],
    /// Which parts of those are used; none: nobody knows.
    pub used: Option<&'a UsedParts>,
    /// Leave out what may not be read, rather than fail.
    pub skip_unreadable: bool,
    /// When the image was made, in seconds since 1970; by default when the newest file changed.
    pub made: Option<u32>,
    /// Is told how many bytes of the files are written, and of how many.
    pub progress: &'a dyn Fn(u64, u64),
}

impl Default for SquashOptions<'_> {
    fn default() -> Self {
        SquashOptions {
            compression: Compression::Zstd,
            level: None,
            block_size: 128 << 10,
            readers: 32,
            first: &[],
            used: None,
            skip_unreadable: false,
            made: None,
            progress: &|_, _| {},
        }
    }
}

impl SquashOptions<'_> {
    /// How hard it is compressed.
    pub(crate) fn level(&self) -> i32 {
        self.level.unwrap_or(self.compression.default_level())
    }

    /// Refuses options that cannot be.
    ///
    /// # Errors
    /// Says why not.
    pub fn check(&self) -> Result<(), &'static str> {
        let size = self.block_size;
        if !size.is_power_of_two() || !(BLOCK_MIN..=BLOCK_MAX).contains(&size) {
            return Err("a block's size is a power of two from 4 KiB to 1 MiB");
        }
        match self.compression.levels() {
            Some(levels) if !levels.contains(&self.level()) => {
                Err("there is no such level of compression")
            }
            None if self.level.is_some() => Err("lz4 has no levels"),
            _ => Ok(()),
        }
    }
}

/// What was written.
#[derive(Clone, Debug)]
pub struct SquashSummary {
    /// Bytes of the image, with its padding.
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
    /// How many files of [`SquashOptions::first`] come first.
    pub traced: u64,
    /// Bytes from the start of the image on that their content lies in.
    pub front: u64,
    /// The parts of that, as they begin and end, that hold what [`SquashOptions::used`] says; none:
    /// nobody knows.
    pub used: Vec<(u64, u64)>,
    /// Files whose content was there already, under another name.
    pub duplicates: u64,
    /// Their bytes.
    pub duplicate_bytes: u64,
    /// What is not in it.
    pub left_out: Vec<OmittedFile>,
    /// Files that begin as an ELF file does, by their numbers in the tree.
    pub elf: Vec<FileNodeId>,
    /// Files that begin as bytecode does that Python takes without a look at its source (an unchecked
    /// hash, PEP 552).
    pub unchecked: Vec<FileNodeId>,
}
