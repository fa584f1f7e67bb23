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
//! | `options` | how an image is made, and what was made |

mod feed;
mod inodes;
mod options;
mod piece;
mod place;
mod table;
mod xattrs;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Image;
use super::compression::Packer;
use super::format::{NONE_U32, NONE_U64, SUPERBLOCK, Superblock, flag};
use crate::out::{Mode, Out, directory_of};
use crate::tree::{Fingerprint, Kind, Layout, LeftOut, Reason, Tree, Wanted};
use crate::{Error, Manifest, Outside};
use feed::Feed;
use inodes::{Source, Tables, Written};
use piece::How;
use place::{Placer, Stored};
use table::Metadata;

pub use options::{Built, Options, Progress};
pub(crate) use xattrs::can_hold as can_hold_xattr;

/// An image's length is a multiple of this, for loop devices.
const PAD: u64 = 4096;
/// What lies outside is told whole to whoever makes the image; the image itself tells so many.
const MOST_OUTSIDE: usize = 500;

/// More than a second, as whole seconds count.
const A_SECOND: Duration = Duration::from_millis(1100);
/// What is written to all the time never settles: it is then seen to be newer at the next change.
const MOST_SCANS: usize = 3;

/// Packs paths into an image. The target takes its name once all of it is on the disk; where
/// something goes wrong, nothing is left.
///
/// # Errors
/// [`Error`]: what cannot be read or written, changes while it is read, or is a socket; a target
/// below one of the paths.
pub fn build(paths: &[PathBuf], target: &Path, options: &Options<'_>) -> Result<Built, Error> {
    check(target, options)?;
    let layout = Layout::of(paths)?;
    check_place(target, &layout)?;
    // The first to fail, before hours of reading.
    let mut out = Out::beside(target, Mode::Plain)?;
    let tree = scan(layout, options)?;
    let packing = Packing { tree: &tree, sources: &tree.fingerprint(), is_there: &|_| false };
    let built = write(packing, target, options, &mut out)?;
    out.settle()?;
    out.finish(false)?;
    Ok(built)
}

/// Reads what is to be packed, without the files' content.
pub(crate) fn scan(layout: Layout, options: &Options<'_>) -> Result<Tree, Error> {
    (options.progress)(Progress::Listing);
    let wanted = Wanted {
        readers: options.readers,
        xattrs: options.xattrs,
        skip_unreadable: options.skip_unreadable,
        skip_special: options.skip_special,
    };
    let mut tree = Tree::scan(layout.clone(), wanted)?;
    for _ in 0..MOST_SCANS {
        if !options.settles || !is_fresh(&tree) {
            break;
        }
        std::thread::sleep(A_SECOND);
        let again = Tree::scan(layout.clone(), wanted)?;
        let is_settled = again.fingerprint() == tree.fingerprint();
        tree = again;
        if is_settled {
            break;
        }
    }
    Ok(tree)
}

/// Whether something in it was changed in this second, or a moment ago: the clock of a server of
/// files may be another.
fn is_fresh(tree: &Tree) -> bool {
    const MARGIN: u64 = 2;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    u64::from(tree.newest()) + MARGIN >= now
}

/// What is written.
#[derive(Clone, Copy)]
pub(crate) struct Packing<'a> {
    pub tree: &'a Tree,
    /// What it was made of.
    pub sources: &'a Fingerprint,
    /// Says of something outside whether it will be there all the same.
    pub is_there: &'a dyn Fn(&Outside) -> bool,
}

/// Writes a tree from where `out` is now; not settled yet.
pub(crate) fn write(
    Packing { tree, sources, is_there }: Packing<'_>,
    target: &Path,
    options: &Options<'_>,
    out: &mut Out,
) -> Result<Built, Error> {
    let level = options.level();
    let (order, traced) = tree.order(options.first);
    let how = How {
        compression: options.compression,
        level,
        block_size: options.block_size,
        skip_unreadable: options.skip_unreadable,
    };
    let compressor = table::stored(&options.compression.options_block(level));
    out.put(&[0; SUPERBLOCK])?;
    out.put(&compressor.map_err(Error::at("compress", target))?)?;
    let stored = pack(tree, &order, how, options, out)?;
    let made = options.made.unwrap_or(sources.newest);
    let superblock = tables(tree, &stored, how, made, out)?;
    out.pad(PAD)?;
    (options.progress)(Progress::Surveying);
    let (file, offset, size) = out.read(&superblock.encode())?;
    let written = Image::open_part(file, offset, size)
        .and_then(|image| crate::outside::survey(tree, &image, &stored.elf));
    let mut outside = written.map_err(io::Error::other).map_err(Error::at("read back", target))?;
    outside.retain(|one| !is_there(one));
    let manifest = Manifest {
        layout: tree.layout.clone(),
        fingerprint: sources.clone(),
        trace: options.trace.clone().filter(|_| traced > 0),
        traced: traced as u64,
        front: stored.front(&order[..traced]),
        outside: outside.iter().take(MOST_OUTSIDE).cloned().collect(),
    };
    out.put(&manifest.encode())?;
    out.pad(PAD)?;
    Ok(built(tree, &stored, out.position(), manifest, outside))
}

/// Refuses options that cannot be.
pub(crate) fn check(target: &Path, options: &Options<'_>) -> Result<(), Error> {
    let unfit = |why| Err(Error::Unfit { path: target.to_owned(), why });
    let size = options.block_size;
    if !size.is_power_of_two()
        || !(super::format::BLOCK_MIN..=super::format::BLOCK_MAX).contains(&size)
    {
        return unfit("a block's size is a power of two from 4 KiB to 1 MiB");
    }
    match options.compression.levels() {
        Some(levels) if !levels.contains(&options.level()) => {
            unfit("there is no such level of compression")
        }
        None if options.level.is_some() => unfit("lz4 has no levels"),
        _ => Ok(()),
    }
}

/// An image does not pack itself.
pub(crate) fn check_place(target: &Path, layout: &Layout) -> Result<(), Error> {
    let unfit = |why| Err(Error::Unfit { path: target.to_owned(), why });
    let directory =
        directory_of(target).canonicalize().map_err(Error::at("find the directory of", target))?;
    if layout.holds(&directory) || target.canonicalize().is_ok_and(|real| layout.holds(&real)) {
        return unfit("it lies in what is packed; choose a place outside");
    }
    if target.is_dir() {
        return unfit("it is a directory; give a file's name");
    }
    if target.exists() && !target.is_file() {
        return unfit("it is no regular file");
    }
    Ok(())
}

/// Packs the files' content.
fn pack(
    tree: &Tree,
    order: &[u32],
    how: How,
    options: &Options<'_>,
    out: &mut Out,
) -> Result<Stored, Error> {
    let mut sizes = std::collections::HashMap::new();
    let mut of = 0;
    // A file without bytes has no piece: were it the last one, nobody would know that all is done.
    let mut filled = Vec::with_capacity(order.len());
    for id in order {
        if let Kind::File { size: size @ 1.., .. } = tree.nodes[*id as usize].kind {
            *sizes.entry(size).or_insert(0u32) += 1;
            of += size;
            filled.push(*id);
        }
    }
    let has_twin = |size: u64| sizes.get(&size).is_some_and(|count| *count > 1);
    let feed = Feed::new(tree, &filled, &has_twin, how.block_size);
    let mut placer = Placer::new(&feed, out, how.block_size);
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
        let mut place = || -> Result<(), Error> {
            for done in &results {
                let is_all = placer.take(done?)?;
                (options.progress)(Progress::Packing { done: placer.placed, of });
                if is_all {
                    return Ok(());
                }
            }
            // Only if a thread ended before its work did, which is then told by its panic.
            Err(Error::TooMuch("its threads"))
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
    tree: &Tree,
    stored: &Stored,
    how: How,
    made: u32,
    out: &mut Out,
) -> Result<Superblock, Error> {
    let name = Path::new(how.compression.name());
    let packer = || Packer::new(how.compression, how.level).map_err(Error::at("compress", name));
    let (mut packer, mut second) = (packer()?, packer()?);
    let source = Source { tree, stored, made };
    let tables = Tables::new(source, Metadata::new(&mut packer), Metadata::new(&mut second));
    let Written { inodes, listings, root, places, ids, xattrs } = tables.write()?;
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
        u32::try_from(count).ok().filter(|count| *count < NONE_U32).ok_or(Error::TooMuch(what))
    };
    Ok(Superblock {
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

fn built(
    tree: &Tree,
    stored: &Stored,
    image_bytes: u64,
    manifest: Manifest,
    outside: Vec<Outside>,
) -> Built {
    let mut built = Built {
        image_bytes,
        bytes: 0,
        files: 0,
        directories: 0,
        links: 0,
        special: 0,
        traced: manifest.traced,
        duplicates: stored.duplicates,
        duplicate_bytes: stored.duplicate_bytes,
        left_out: tree.left_out.clone(),
        outside,
        manifest,
    };
    for id in &stored.unreadable {
        built.left_out.push(LeftOut { path: tree.source(*id), why: Reason::Unreadable });
    }
    let unreadable: HashSet<_> = stored.unreadable.iter().collect();
    for (id, node) in (0..).zip(&tree.nodes) {
        if node.first_name.is_some() || unreadable.contains(&id) {
            continue;
        }
        match node.kind {
            Kind::Directory(_) => built.directories += 1,
            Kind::File { size, .. } => {
                built.files += 1;
                built.bytes += size;
            }
            Kind::Symlink(_) => built.links += 1,
            _ => built.special += 1,
        }
    }
    built
}
