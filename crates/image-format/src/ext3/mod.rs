//! An ext3 filesystem in a file: the layer that a container writes to. An empty one is made, and any is
//! read.
//!
//! What `apptainer overlay create` makes with mkfs.ext3: directories `upper` and `work` that belong
//! to the user. Features and measures are those of `mke2fs -t ext3 -b 4096`; only, no blocks are
//! reserved for root. Nothing but metadata is written, so the file can be sparse.
//!
//! | file | what it holds |
//! |---|---|
//! | `geometry` | how big everything is |
//! | `superblock` | the superblock, written; and read, to say what is in a file |
//! | `inode` | an inode and the map of its blocks |
//! | `tree` | the directories |
//! | `writer` | all of it, laid out and written |
//! | `read` | one that is there, read |
//! | `as_squash` | the same, shown as a squashfs |

mod as_squash;
mod geometry;
mod inode;
mod read;
mod superblock;
mod tree;
mod writer;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

pub use as_squash::Ext3AsSquash;
pub use geometry::SIZES;
pub use read::Ext3ReadError;
pub use superblock::Ext3Facts;
pub use writer::create;

/// The inode of the journal.
const JOURNAL_INODE: u32 = 8;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Ext3Overlay {
    /// Bytes of the image; a last part of a block is not used.
    pub size: u64,
    /// User and group that all of it belongs to.
    pub owner: (u32, u32),
    /// Directories to make in `upper`, with those above them.
    pub directories: Vec<PathBuf>,
    /// What all times in it say, in seconds since 1970; what does not fit 31 bits is cut.
    pub created: i64,
    /// Whether the file's blocks are only taken from the disk when something is written to them.
    pub sparse: bool,
}

/// Why an image was not made.
#[derive(Debug, thiserror::Error)]
pub enum Ext3Error {
    /// Too small or too large.
    #[error("{0} bytes: an ext3 image has 64 MiB at least and less than 16 TiB")]
    Size(u64),
    /// A directory that would not be in the overlay.
    #[error("{}: a directory of the overlay cannot be above its root", .0.display())]
    NotBelowUpper(PathBuf),
    /// A name that ext3 has no room for.
    #[error("{}: a name has 255 bytes at most", .0.display())]
    LongName(OsString),
    /// More directories than a command line has.
    #[error("more than {0} directories")]
    TooManyDirectories(usize),
    /// The first blocks do not hold it all.
    #[error("the image is too small for its own bookkeeping")]
    NoRoom,
    /// The filesystem below cannot set blocks aside.
    #[error("cannot set {size} bytes aside: {error}")]
    Allocate {
        /// How many.
        size: u64,
        /// What the system said.
        error: io::Error,
    },
    /// Writing failed.
    #[error("write: {0}")]
    Write(#[from] io::Error),
}
