//! The writer: parallel reads, one order, the same bytes each time.
//!
//! The files' content is cut into pieces. Threads take them in the order in which they are to
//! lie in the image, read and compress them; one places the results, again in that order. So
//! nothing in the image depends on which thread was quick.
//!
//! | file | what it holds |
//! |---|---|
//! | `feed` | which piece is next, and whether there is room for it |
//! | `piece` | a thread: reads a piece, compresses it |
//! | `place` | puts pieces where they belong; each content once |
//! | `table` | blocks of metadata, and tables of them |
//! | `inodes` | inodes and listings |
//! | `xattrs` | the table of xattrs |
//! | `options` | how an image is written, and what was |

mod feed;
mod inodes;
mod options;
mod piece;
mod place;
mod table;
mod xattrs;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use super::compression::Packer;
use super::format::{NONE_U32, NONE_U64, SUPERBLOCK, SquashSuperblock, flag};
use crate::tree::{FileNodeId, FileNodeKind, FileOrder, FileTree, OmitReason, OmittedFile};
use crate::{ImageWriter, SquashWriteError};
use feed::Feed;
use inodes::{InodeSources, Tables, WrittenTables};
use piece::PieceSettings;
use place::Placer;
pub(crate) use place::{ContentPosition, StoredContent};
use table::Metadata;

pub use options::{SquashOptions, SquashSummary, UsedParts};
pub(crate) use xattrs::can_hold as can_hold_xattr;

/// An image's length is a multiple of this, for loop devices.
const PAD: u64 = 4096;

/// Writes a tree as squashfs, with the content of its files: to where `out` is, and on to a
/// multiple of 4 KiB. More can be put behind it: readers of squashfs do not look there.
///
/// The same tree and options make the same bytes.
///
/// # Errors
/// [`SquashWriteError`]: options that cannot be; what cannot be read or written, or changes while it is
/// read.
pub fn write(
    tree: &FileTree,
    out: &mut ImageWriter<'_>,
    options: &SquashOptions<'_>,
) -> Result<SquashSummary, SquashWriteError> {
    options.check().map_err(|why| SquashWriteError::Unfit { path: out.name().to_owned(), why })?;
    let level = options.level();
    let order = tree.order(options.first);
    let traced = order.traced;
    let how = PieceSettings {
        compression: options.compression,
        level,
        block_size: options.block_size,
        skip_unreadable: options.skip_unreadable,
    };
    let compressor = table::stored(&options.compression.options_block(level));
    out.put(&[0; SUPERBLOCK])?;
    out.put(&compressor.map_err(SquashWriteError::at("compress", out.name()))?)?;
    let stored = pack(tree, order.files.split_at(traced), how, options, out)?;
    let made = options.made.unwrap_or_else(|| tree.newest());
    let superblock = tables(tree, &stored, how, made, out)?;
    out.pad(PAD)?;
    out.put_first(&superblock.encode())?;
    let front = stored.front(&order.files[..traced]);
    let used = match options.used {
        Some(used) => stored.used(&used_of(&order, options.first, used), options.block_size),
        None => Vec::new(),
    };
    let summary = summary(tree, stored, out.position(), traced as u64, front);
    Ok(SquashSummary { used, ..summary })
}

/// The parts that are used of each traced file, under any of its names; none: all of it is.
fn used_of<'a>(
    order: &FileOrder,
    first: &[PathBuf],
    used: &'a UsedParts,
) -> Vec<(FileNodeId, Vec<&'a Range<u64>>)> {
    let mut parts: HashMap<FileNodeId, Vec<&Range<u64>>> = HashMap::new();
    for (id, number) in &order.named {
        parts.entry(*id).or_default().extend(used.get(&first[*number]).into_iter().flatten());
    }
    let traced = order.files[..order.traced].iter();
    traced.map(|id| (*id, parts.remove(id).unwrap_or_default())).collect()
}

/// Writes all but the content: that is elsewhere, and said to lie, as it is, between the superblock and
/// where `out` is.
pub(crate) fn write_tables(
    tree: &FileTree,
    stored: &StoredContent,
    block_size: u32,
    out: &mut ImageWriter<'_>,
) -> Result<(), SquashWriteError> {
    let compression = super::Compression::Lz4;
    let level = compression.default_level();
    let how = PieceSettings { compression, level, block_size, skip_unreadable: false };
    let superblock = tables(tree, stored, how, tree.newest(), out)?;
    out.pad(PAD)?;
    out.put_first(&superblock.encode())
}

/// Packs the files' content: of those that the trace opened, and of the rest.
fn pack(
    tree: &FileTree,
    (traced, rest): (&[u32], &[u32]),
    how: PieceSettings,
    options: &SquashOptions<'_>,
    out: &mut ImageWriter<'_>,
) -> Result<StoredContent, SquashWriteError> {
    let mut sizes = std::collections::HashMap::new();
    let mut of = 0;
    // A file without bytes has no piece: were it the last one, nobody would know that all is done.
    let mut filled = Vec::with_capacity(traced.len() + rest.len());
    let mut first_of_rest = None;
    for (place, id) in traced.iter().chain(rest).enumerate() {
        if let FileNodeKind::File { size: size @ 1.., .. } = tree.nodes[*id as usize].kind {
            *sizes.entry(size).or_insert(0u32) += 1;
            of += size;
            filled.push(*id);
            if place >= traced.len() {
                first_of_rest.get_or_insert(*id);
            }
        }
    }
    let has_twin = |size: u64| sizes.get(&size).is_some_and(|count| *count > 1);
    let feed = Feed::new(tree, &filled, &has_twin, how.block_size);
    let mut placer = Placer::new(&feed, out, how.block_size, first_of_rest);
    if of == 0 {
        return Ok(placer.finish());
    }
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..options.readers.max(1) {
            let (feed, sender) = (&feed, sender.clone());
            scope.spawn(move || piece::work(feed, how, &sender));
        }
        drop(sender);
        let mut place = || -> Result<(), SquashWriteError> {
            for done in &results {
                let is_all = placer.take(done?)?;
                (options.progress)(placer.placed, of);
                if is_all {
                    return Ok(());
                }
            }
            // Only if a thread ended before its work did, which is then told by its panic.
            Err(SquashWriteError::TooMuch("its threads"))
        };
        let placed = place();
        // Whatever happened, the threads are sent home.
        feed.end();
        placed
    })?;
    Ok(placer.finish())
}

/// Writes all tables.
fn tables(
    tree: &FileTree,
    stored: &StoredContent,
    how: PieceSettings,
    made: u32,
    out: &mut ImageWriter<'_>,
) -> Result<SquashSuperblock, SquashWriteError> {
    let name = Path::new(how.compression.name());
    let packer =
        || Packer::new(how.compression, how.level).map_err(SquashWriteError::at("compress", name));
    let (mut packer, mut second) = (packer()?, packer()?);
    let source = InodeSources { tree, stored, made };
    let tables = Tables::new(source, Metadata::new(&mut packer), Metadata::new(&mut second));
    let WrittenTables { inodes, listings, root, places, ids, xattrs } = tables.write()?;
    // Readers find a table's end by the start of the next: their order is fixed.
    let inode_table = out.position();
    out.put(&inodes)?;
    let directory_table = out.position();
    out.put(&listings)?;
    let fragments: Vec<u8> = stored
        .fragments
        .iter()
        .flat_map(|(start, size)| [&start.to_le_bytes()[..], &size.to_le_bytes(), &[0; 4]].concat())
        .collect();
    let fragment_table = match stored.fragments.is_empty() {
        true => NONE_U64,
        false => table::put_indexed(out, &mut packer, &fragments)?,
    };
    let references: Vec<u8> =
        places.iter().flat_map(|place| place.reference().to_le_bytes()).collect();
    let export_table = table::put_indexed(out, &mut packer, &references)?;
    let ids_bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    let id_table = table::put_indexed(out, &mut packer, &ids_bytes)?;
    let xattr_table = xattrs.write(out, &mut packer)?;
    let no_xattrs = if xattrs.is_empty() { flag::NO_XATTRS } else { 0 };
    let count = |count: usize, what| {
        u32::try_from(count)
            .ok()
            .filter(|count| *count < NONE_U32)
            .ok_or(SquashWriteError::TooMuch(what))
    };
    Ok(SquashSuperblock {
        inodes: count(places.len(), "files")?,
        made,
        block_size: how.block_size,
        fragments: count(stored.fragments.len(), "fragments")?,
        compression: how.compression.number(),
        flags: flag::DUPLICATES | flag::EXPORTABLE | flag::COMPRESSOR_OPTIONS | no_xattrs,
        ids: ids.len() as u16,
        root: root.reference(),
        bytes_used: out.position(),
        id_table,
        xattr_table,
        inode_table,
        directory_table,
        fragment_table,
        export_table,
    })
}

fn summary(
    tree: &FileTree,
    stored: StoredContent,
    bytes: u64,
    traced: u64,
    front: u64,
) -> SquashSummary {
    let mut summary = SquashSummary {
        image_bytes: bytes,
        bytes: 0,
        files: 0,
        directories: 0,
        links: 0,
        special: 0,
        traced,
        front,
        used: Vec::new(),
        duplicates: stored.duplicates,
        duplicate_bytes: stored.duplicate_bytes,
        left_out: tree.left_out.clone(),
        elf: stored.elf,
        unchecked: stored.unchecked,
    };
    for id in &stored.unreadable {
        summary.left_out.push(OmittedFile { path: tree.source(*id), why: OmitReason::Unreadable });
    }
    let unreadable: HashSet<_> = stored.unreadable.iter().collect();
    for (id, node) in (0..).zip(&tree.nodes) {
        if node.first_name.is_some() || unreadable.contains(&id) {
            continue;
        }
        match node.kind {
            FileNodeKind::Directory(_) => summary.directories += 1,
            FileNodeKind::File { size, .. } => {
                summary.files += 1;
                summary.bytes += size;
            }
            FileNodeKind::Symlink(_) => summary.links += 1,
            _ => summary.special += 1,
        }
    }
    summary
}
