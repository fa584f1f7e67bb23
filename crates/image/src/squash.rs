//! An image of some paths: squashfs with what it says of itself behind it.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use image_format::ImageWriter;
use image_format::squash::{Compression, SquashOptions, SquashSummary, UsedParts};
use image_format::tree::{
    FileNode, FileNodeKind, FileTree, Fingerprint, ImageLayout, OmittedFile, ScanOptions,
};
use rustix::fs::Access;
use schemars::JsonSchema;
use serde::Serialize;

pub use crate::heal::{
    BoundLibrary, BytecodeFault, EntryApart, Healed, HealedLibrary, HealedModule, JoinedPath,
    LibraryBinder, LibraryBindings, ReplaceableLibrary, SearchCounts, UnhealedFile,
};
use crate::heal::{Healing, heal};
pub use crate::out::UnnamedImage;
use crate::out::{AccessMode, Out, directory_of};
use crate::readable::first_private;
use crate::written::WrittenFacts;
use crate::{ImageError, Manifest, OutsideReference};

/// An image's length is a multiple of this, for loop devices.
const PAD: u64 = 4096;
/// What lies outside is told whole to whoever makes the image; the image itself tells so many.
const MOST_OUTSIDE: usize = 500;

/// More than a second, as whole seconds count.
const A_SECOND: Duration = Duration::from_millis(1100);
/// What is written to all the time never settles: it is then seen to be newer at the next change.
const MOST_SCANS: usize = 3;

/// What the order of an image's files comes from.
#[derive(Clone, Debug)]
pub struct ImageTrace {
    /// The recording's name, or the command as a shell takes it.
    pub text: String,
    /// The command's working directory; none for a recording.
    pub directory: Option<String>,
}

/// How an image is made.
pub struct ImageOptions<'a> {
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
    /// Which parts of those are used; none: nobody knows.
    pub used: Option<&'a UsedParts>,
    /// The words by which the command is known again that says so.
    pub command: &'a [String],
    /// What that order comes from, for the image's manifest.
    pub trace: Option<ImageTrace>,
    /// Leave out what may not be read, rather than fail.
    pub skip_unreadable: bool,
    /// Leave out sockets, rather than fail.
    pub skip_special: bool,
    /// Keep xattrs.
    pub xattrs: bool,
    /// Compile bytecode that is missing or stale into the image, with the environment's own Python.
    pub heals: bool,
    /// Where it heals: what binds libraries.
    pub binder: Option<LibraryBinder<'a>>,
    /// Scan again once the second of the newest change is over: squashfs keeps whole seconds, so a
    /// change after the scan in that same second would not be seen for one ever.
    pub settles: bool,
    /// When the image was made, in seconds since 1970; by default when the newest file changed.
    pub made: Option<u32>,
    /// Is told how far it is.
    pub progress: &'a dyn Fn(ImageProgress),
}

impl Default for ImageOptions<'_> {
    fn default() -> Self {
        ImageOptions {
            compression: Compression::Zstd,
            level: None,
            block_size: 128 << 10,
            readers: 32,
            first: &[],
            used: None,
            command: &[],
            trace: None,
            skip_unreadable: false,
            skip_special: false,
            xattrs: true,
            heals: false,
            binder: None,
            settles: false,
            made: None,
            progress: &|_| {},
        }
    }
}

impl ImageOptions<'_> {
    fn scan(&self) -> ScanOptions {
        ScanOptions {
            readers: self.readers,
            xattrs: self.xattrs,
            acls: true,
            skip_unreadable: self.skip_unreadable,
            skip_special: self.skip_special,
        }
    }

    fn squash<'a>(
        &'a self,
        first: &'a [PathBuf],
        progress: &'a dyn Fn(u64, u64),
    ) -> SquashOptions<'a> {
        SquashOptions {
            compression: self.compression,
            level: self.level,
            block_size: self.block_size,
            readers: self.readers,
            first,
            used: self.used,
            skip_unreadable: self.skip_unreadable,
            made: self.made,
            progress,
        }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub enum ImageProgress {
    /// Directories are being listed.
    Listing,
    /// Libraries are being bound.
    Binding,
    /// Bytecode is being compiled.
    Compiling {
        /// So many modules are done.
        done: u64,
        /// Of so many.
        of: u64,
    },
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
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PathsImage {
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
    pub left_out: Vec<OmittedFile>,
    /// Files and directories whose access control lists an image cannot keep, and whose permissions in
    /// it are narrower for it: they give nobody more.
    pub narrowed: u64,
    /// What was healed while it was packed; null where it was packed as it is.
    pub healed: Option<Healed>,
    /// What is used from it and lies outside.
    pub outside: Vec<OutsideReference>,
    /// What the image says of itself.
    pub manifest: Manifest,
}

/// Packs paths into an image that has no name yet: it goes again unless it is given one.
///
/// # Errors
/// [`ImageError`]: what cannot be read or written, changes while it is read, or is a socket; a target
/// below one of the paths.
pub fn build(
    paths: &[PathBuf],
    target: &Path,
    options: &ImageOptions<'_>,
) -> Result<(UnnamedImage, PathsImage), ImageError> {
    let (out, built) = packed(paths, target, options)?;
    Ok((out.unnamed(), built))
}

/// What an image would be made of.
#[derive(Clone, Copy, Debug)]
pub struct PackableSources {
    /// Files, directories and links.
    pub entries: u64,
    /// Files among them: each once, however many names it has.
    pub files: u64,
    /// The sum of the files' sizes.
    pub bytes: u64,
}

/// What is there to pack, if an image could be made of the paths: all that [`build`] asks, but for
/// room. Writes nothing.
///
/// # Errors
/// Those of [`build`].
pub fn could_be_built(
    paths: &[PathBuf],
    target: &Path,
    options: &ImageOptions<'_>,
) -> Result<PackableSources, ImageError> {
    check(target, options)?;
    let layout = ImageLayout::of(paths)?;
    check_place(target, &layout)?;
    let tree = FileTree::scan(layout, options.scan())?;
    can_be_read(&tree, options)?;
    let is_file = |node: &&FileNode| {
        node.first_name.is_none() && matches!(node.kind, FileNodeKind::File { .. })
    };
    let files = tree.nodes.iter().filter(is_file).count() as u64;
    let Fingerprint { entries, bytes, .. } = tree.fingerprint();
    Ok(PackableSources { entries, files, bytes })
}

/// Whether this user may read the content of all files.
fn can_be_read(tree: &FileTree, options: &ImageOptions<'_>) -> Result<(), ImageError> {
    if options.skip_unreadable {
        return Ok(());
    }
    let is_file = |node: &FileNode| {
        node.first_name.is_none() && matches!(node.kind, FileNodeKind::File { given: None, .. })
    };
    let files: Vec<PathBuf> = (0..)
        .zip(&tree.nodes)
        .filter(|(_, node)| is_file(node))
        .map(|(id, _)| tree.source(id))
        .collect();
    let can_be_read = |file: &PathBuf| {
        rustix::fs::access(file, Access::READ_OK).map_err(ImageError::at("open", file))
    };
    let share = files.len().div_ceil(options.readers.max(1)).max(1);
    std::thread::scope(|scope| {
        let shares = files.chunks(share);
        let readers: Vec<_> = shares
            .map(|files| scope.spawn(move || files.iter().try_for_each(can_be_read)))
            .collect();
        let ends = readers.into_iter().map(|reader| reader.join());
        ends.into_iter().try_for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

fn packed(
    paths: &[PathBuf],
    target: &Path,
    options: &ImageOptions<'_>,
) -> Result<(Out, PathsImage), ImageError> {
    check(target, options)?;
    let layout = ImageLayout::of(paths)?;
    check_place(target, &layout)?;
    // The first to fail, before hours of reading.
    let out = Out::beside(target, AccessMode::Plain)?;
    let mut tree = scan(layout, options)?;
    let out = out.holding(first_private(&tree, options))?;
    let sources = tree.fingerprint();
    let healing = heal(&mut tree, options);
    let packing =
        TreeAndSources { tree: &tree, sources: &sources, healing: &healing, is_there: &|_| false };
    let built = write(packing, options, &out, 0)?;
    Ok((out, built))
}

/// Reads what is to be packed, without the files' content.
pub(crate) fn scan(
    layout: ImageLayout,
    options: &ImageOptions<'_>,
) -> Result<FileTree, ImageError> {
    (options.progress)(ImageProgress::Listing);
    let mut tree = FileTree::scan(layout.clone(), options.scan())?;
    for _ in 0..MOST_SCANS {
        if !options.settles || !is_fresh(&tree) {
            break;
        }
        std::thread::sleep(A_SECOND);
        let again = FileTree::scan(layout.clone(), options.scan())?;
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
fn is_fresh(tree: &FileTree) -> bool {
    const MARGIN: u64 = 2;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    u64::from(tree.newest()) + MARGIN >= now
}

/// What is written.
#[derive(Clone, Copy)]
pub(crate) struct TreeAndSources<'a> {
    pub tree: &'a FileTree,
    /// What it was made of.
    pub sources: &'a Fingerprint,
    /// What was healed in it.
    pub healing: &'a Healing,
    /// Says of something outside whether it will be there all the same.
    pub is_there: &'a dyn Fn(&OutsideReference) -> bool,
}

/// Writes a tree, and what it says of itself, from a byte of `out` on.
pub(crate) fn write(
    TreeAndSources { tree, sources, healing, is_there }: TreeAndSources<'_>,
    options: &ImageOptions<'_>,
    out: &Out,
    start: u64,
) -> Result<PathsImage, ImageError> {
    let progress = |done, of| (options.progress)(ImageProgress::Packing { done, of });
    let made = options.made.or(Some(sources.newest));
    let squash = SquashOptions { made, ..options.squash(&healing.first, &progress) };
    let mut writer = ImageWriter::new(out.file(), out.target(), start);
    let summary = image_format::squash::write(tree, &mut writer, &squash)?;
    (options.progress)(ImageProgress::Surveying);
    let WrittenFacts { mut outside, unchecked, opened } =
        WrittenFacts::of(tree, &healing.first, out, start, &summary)?;
    outside.retain(|one| !is_there(one));
    let trace = options.trace.as_ref().filter(|_| summary.traced > 0);
    let manifest = Manifest {
        layout: tree.layout.clone(),
        fingerprint: sources.clone(),
        trace: trace.map(|trace| trace.text.clone()),
        traced_in: trace.and_then(|trace| trace.directory.clone()),
        command: options.command.to_vec(),
        traced: summary.traced,
        front: summary.front,
        used: summary.used.clone(),
        healed: healing.healed.as_ref().map_or(0, |healed| healed.bytecode.len() as u64),
        bound: healing.bound.sources.clone(),
        replaceable: healing.bound.replaceable.clone(),
        joined: healing.healed.as_ref().is_some_and(|healed| healed.python_path.is_some()),
        changed_ns: tree.last_change(),
        inodes: tree.inodes(),
        unchecked: Some(unchecked),
        opened: Some(opened),
        outside: outside.iter().take(MOST_OUTSIDE).cloned().collect(),
    };
    writer.put(&manifest.encode())?;
    writer.pad(PAD)?;
    let image_bytes = writer.position();
    writer.finish()?;
    let built = built(SquashSummary { image_bytes, ..summary }, manifest, outside);
    let narrowed = tree.nodes.iter().filter(|node| !node.is_above && node.without_acl.is_some());
    let narrowed = narrowed.count() as u64;
    Ok(PathsImage { healed: healing.healed.clone(), narrowed, ..built })
}

/// Refuses options that cannot be.
pub(crate) fn check(target: &Path, options: &ImageOptions<'_>) -> Result<(), ImageError> {
    let unfit = |why| ImageError::Unfit { path: target.to_owned(), why };
    options.squash(&[], &|_, _| {}).check().map_err(unfit)
}

/// An image does not pack itself.
pub(crate) fn check_place(target: &Path, layout: &ImageLayout) -> Result<(), ImageError> {
    let unfit = |why| Err(ImageError::Unfit { path: target.to_owned(), why });
    let directory = directory_of(target)
        .canonicalize()
        .map_err(ImageError::at("find the directory of", target))?;
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

fn built(summary: SquashSummary, manifest: Manifest, outside: Vec<OutsideReference>) -> PathsImage {
    PathsImage {
        image_bytes: summary.image_bytes,
        bytes: summary.bytes,
        files: summary.files,
        directories: summary.directories,
        links: summary.links,
        special: summary.special,
        traced: summary.traced,
        duplicates: summary.duplicates,
        duplicate_bytes: summary.duplicate_bytes,
        left_out: summary.left_out,
        narrowed: 0,
        healed: None,
        outside,
        manifest,
    }
}
