//! squashfs 4.0, written and read.
//!
//! | file | what it holds |
//! |---|---|
//! | `format` | what it looks like on disk |
//! | `compression` | zstd, lz4, gzip: written, one block at a time |
//! | `decompress` | the same, xz, lzo and lzma: read |
//! | `xz` | what is around an xz stream |
//! | `write` | the writer: parallel reads, one order, the same bytes each time |
//! | `read` | the reader: for a FUSE server, and for files from anywhere |

mod compression;
mod decompress;
mod format;
mod read;
mod write;
mod xz;

pub use compression::Compression;
pub(crate) use read::MOST_BLOCKS;
pub use read::{
    FileContent, FilePart, ListingPosition, NodeKind, SquashAttributes, SquashEntry, SquashImage,
    SquashNode, SquashReadError, SuperblockFacts,
};
pub(crate) use write::{ContentPosition, StoredContent, can_hold_xattr, write_tables};
pub use write::{SquashOptions, SquashSummary, UsedParts, write};

/// Name and value of an extended attribute.
pub type XattrPair = (Vec<u8>, Vec<u8>);
