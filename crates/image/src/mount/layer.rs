//! A squashfs that is mounted: its file, and what it says of itself.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use image_format::ReadAt;
use image_format::ext3::Ext3AsSquash;
use image_format::squash::{
    ListingPosition, NodeKind, SquashEntry, SquashImage, SquashNode, SquashReadError,
    SuperblockFacts,
};

use super::ahead::{Ahead, ImageParts};
use super::compare::SourceIdentity;
use super::error::MountError;
use super::untraced::{EditedFile, UntracedFiles};
use crate::Manifest;
use crate::as_traced::is_as_traced;
use crate::heal::{BoundSource, JOINED};
use crate::hot::HotPart;

/// Decompressed blocks that are kept. The kernel keeps what it has read; these are for the other
/// files in a block.
const CACHE: usize = 64 << 20;
/// No more of what was traced is fetched before it is asked for: a trace may hold files that are
/// larger than what is read of them.
const MOST_FRONT: u64 = 512 << 20;

/// One squashfs: a file, or a part of one.
#[derive(Clone)]
pub(crate) struct ImageLayer {
    /// The holder keeps this descriptor and no other of it.
    pub file: Arc<File>,
    /// Where it begins in the file, and how long it is, in bytes.
    pub offset: u64,
    pub size: u64,
    /// What it holds.
    pub image: Arc<SquashImage>,
    /// What its superblock says.
    pub facts: SuperblockFacts,
    /// What of it lies in memory of this node.
    pub hot: Option<Arc<HotPart>>,
    manifest: Option<Manifest>,
    ahead: Arc<Ahead>,
    /// What is compared with its source only when it is looked up.
    untraced: Arc<OnceLock<UntracedFiles>>,
}

impl fmt::Debug for ImageLayer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?} {} {}", self.file, self.offset, self.size)
    }
}

impl ImageLayer {
    /// Opens the squashfs in a file, or in a part of it: its offset and size.
    pub fn open(
        path: &Path,
        file: File,
        part: Option<(u64, u64)>,
        hot: Option<Arc<HotPart>>,
    ) -> Result<ImageLayer, MountError> {
        let wrong = |error: SquashReadError| MountError::Image {
            path: path.to_owned(),
            why: error.to_string(),
        };
        let file = Arc::new(file);
        let whole = file.metadata().map_err(super::error::file(path, "look at"))?.len();
        let (offset, size) = part.unwrap_or((0, whole));
        let ahead = Arc::new(Ahead::of(whole));
        let part =
            LayerPart { file: file.clone(), offset, size, ahead: ahead.clone(), hot: hot.clone() };
        let source =
            squash_of(part).map_err(|why| MountError::Image { path: path.to_owned(), why })?;
        let image = Arc::new(SquashImage::new(source, CACHE).map_err(wrong)?);
        let manifest = Manifest::of(&image).map_err(wrong)?;
        let facts = image.facts().map_err(wrong)?;
        let used = manifest.as_ref().map_or(&[][..], |manifest| &manifest.used);
        ahead.know(&file, ImageParts::of(offset, image.tables_start().min(size), used));
        let untraced = Arc::default();
        Ok(ImageLayer { file, offset, size, image, facts, hot, manifest, ahead, untraced })
    }

    /// Has all fetched that the trace opened, one large piece after the other, and waits for it.
    pub fn fetch_front(&self) {
        self.ahead.read_all(&self.file, self.offset, self.front().min(MOST_FRONT).min(self.size));
    }

    /// Says what is run: what that will ask for is fetched sooner if it is what was traced.
    pub fn is_run_by(&self, command: &[OsString]) {
        let traced = self.manifest.as_ref().map_or(&[][..], |manifest| &manifest.command);
        if is_as_traced(traced, command) {
            self.ahead.expect_all();
        }
    }

    /// Bytes from its start on that the content lies in which the trace opened.
    pub fn front(&self) -> u64 {
        self.manifest.as_ref().map_or(0, |manifest| manifest.front)
    }

    /// What the holder reads it from.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.file.as_fd()].into_iter().chain(self.hot.as_ref().map(|hot| hot.as_fd()))
    }

    /// The file of its hot part on this node, where there is one.
    pub fn hot_part(&self) -> Option<String> {
        Some(self.hot.as_ref()?.path().to_string_lossy().into_owned())
    }

    /// What it says of itself, if becalm made it.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// What the source of a library holds that is bound in it.
    pub fn bound(&self, source: &Path) -> Option<&BoundSource> {
        let bound = &self.manifest()?.bound;
        let at = bound.binary_search_by(|one| one.path.as_path().cmp(source)).ok()?;
        bound.get(at)
    }

    /// Whether an entry of a directory was made while it was packed, and has no source.
    pub fn is_made(&self, entry: &SquashEntry) -> bool {
        entry.name == JOINED.as_bytes() && self.manifest().is_some_and(|manifest| manifest.joined)
    }

    /// What is in a directory of it; of a damaged one, what can be read.
    pub fn entries(&self, directory: SquashNode) -> Vec<SquashEntry> {
        let mut entries = Vec::new();
        // A damaged image is said to be so by whatever reads it.
        let _ = self.image.list(directory, ListingPosition::default(), &mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        });
        entries
    }

    /// Whether something happened to a file, its content, its names or its permissions, since the
    /// image was made, as far as the image tells.
    pub fn is_touched(&self, there: &Metadata) -> bool {
        let packed = self.manifest.as_ref().map_or(0, |manifest| manifest.changed_ns);
        let time = image_format::tree::nanoseconds((there.ctime(), there.ctime_nsec() as u32));
        packed != 0 && time > packed
    }

    /// Whether a packed path leads to what it led to then. A server in user space and an overlay may
    /// number their files anew each time they are mounted.
    pub fn identity(&self, path: &Path) -> SourceIdentity {
        const RENUMBERED: [i64; 2] = [0x6573_5546, 0x794c_7630];
        let keeps_numbers =
            || rustix::fs::statfs(path).is_ok_and(|it| !RENUMBERED.contains(&it.f_type));
        let packed = self.manifest().and_then(|manifest| {
            let at = manifest.layout.paths().iter().position(|packed| packed == path)?;
            manifest.inodes.get(at).copied()
        });
        let there = fs::symlink_metadata(path).map(|there| there.ino());
        match (packed, there) {
            (Some(packed), Ok(there)) if packed == there => SourceIdentity::Same,
            (Some(_), Ok(_)) if keeps_numbers() => SourceIdentity::Other,
            _ => SourceIdentity::Unknown,
        }
    }

    /// Leaves files for whoever serves the image to look at.
    pub fn look_later(&self, untraced: UntracedFiles) {
        // Looked at twice, nothing else is found.
        let _ = self.untraced.set(untraced);
    }

    /// The same, opened again, with what is to be looked at and nothing that was found.
    pub fn again(&self) -> io::Result<ImageLayer> {
        let (file, part) = (self.file.try_clone()?, Some((self.offset, self.size)));
        let again = ImageLayer::open(Path::new("the image"), file, part, self.hot.clone())
            .map_err(io::Error::other)?;
        if let Some(untraced) = self.untraced() {
            again.look_later(untraced.again());
        }
        Ok(again)
    }

    /// Looks at all that is to be looked at when it is looked up. The process must have one thread,
    /// and has one after it.
    pub fn look_at_all(&self) -> io::Result<()> {
        self.untraced().map_or(Ok(()), |untraced| untraced.look_at_all(self))
    }

    /// What a name in a directory leads to, once it was compared with its source, if that is to be
    /// done now.
    pub fn lookup(
        &self,
        directory: SquashNode,
        name: &OsStr,
    ) -> Result<Option<SquashNode>, SquashReadError> {
        let node = self.image.lookup(directory, name.as_bytes())?;
        match (node, self.untraced()) {
            (Some(node), Some(untraced)) => {
                Ok(untraced.look(self, directory, name, node)?.then_some(node))
            }
            _ => Ok(node),
        }
    }

    /// What a file is by now, where it was edited since.
    pub fn edited(&self, node: SquashNode) -> Option<Arc<EditedFile>> {
        self.untraced().and_then(|files| files.edited(node))
    }

    /// Files that are to be looked at when they are looked up.
    pub fn untraced(&self) -> Option<&UntracedFiles> {
        self.untraced.get()
    }

    /// What a path in it, from its root, leads to; symbolic links are not followed.
    pub fn find(&self, path: &Path) -> Option<SquashNode> {
        self.image.find(path).ok().flatten()
    }

    /// Whether there is something at a path in it.
    pub fn has(&self, path: &str) -> bool {
        self.find(Path::new(path)).is_some()
    }

    /// Whether a path in it is a directory.
    pub fn is_dir(&self, path: &Path) -> bool {
        let attributes = self.find(path).and_then(|node| self.image.attributes(node).ok());
        attributes.is_some_and(|attributes| attributes.kind == NodeKind::Directory)
    }
}

/// The squashfs in a part of a file; or what is shown as one.
fn squash_of(part: LayerPart) -> Result<Box<dyn ReadAt + Send + Sync>, String> {
    let mut magic = [0; 4];
    // What cannot be read is said so by who opens it.
    let is_squash = part.read_exact_at(&mut magic, 0).is_err() || &magic == b"hsqs";
    if is_squash || !Ext3AsSquash::is_in(&part).unwrap_or(false) {
        return Ok(Box::new(part));
    }
    match Ext3AsSquash::open(Box::new(part)) {
        Ok(shown) => Ok(Box::new(shown)),
        Err(error) => Err(error.to_string()),
    }
}

/// A part of a file, as if it were all of it.
struct LayerPart {
    file: Arc<File>,
    offset: u64,
    size: u64,
    ahead: Arc<Ahead>,
    hot: Option<Arc<HotPart>>,
}

impl ReadAt for LayerPart {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        match (end, offset.checked_add(self.offset)) {
            (Some(end), Some(start)) if end <= self.size => {
                if self.hot.as_ref().is_some_and(|hot| hot.read(buffer, start)) {
                    return Ok(());
                }
                self.ahead.read(&self.file, start, buffer.len() as u64);
                FileExt::read_exact_at(&*self.file, buffer, start)
            }
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
