//! Files, directories and links, made in a directory that nobody else may enter.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use image_format::squash::{NodeKind, SquashAttributes, SquashImage, SquashNode, XattrPair};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::list::ExtractList;
use super::{ExtractError, ExtractRules, Extracted};

/// Bytes that are read and written at a time.
const BUFFER: usize = 1 << 20;
/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;
/// Write permissions.
const WRITE: u32 = 0o222;

/// Makes what is on a list.
pub(super) struct ExtractWriter<'a> {
    image: &'a SquashImage,
    list: &'a ExtractList,
    how: &'a ExtractRules<'a>,
    root: OwnedFd,
    place: PathBuf,
    /// Whether files can be given to others.
    is_root: bool,
    kept_owners: AtomicBool,
    lost_xattrs: AtomicU64,
    done: AtomicU64,
}

impl<'a> ExtractWriter<'a> {
    /// Writes into this directory, which is empty.
    pub fn new(
        image: &'a SquashImage,
        list: &'a ExtractList,
        place: &Path,
        how: &'a ExtractRules<'a>,
    ) -> Result<ExtractWriter<'a>, ExtractError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(place, flags, Mode::empty());
        let root = root.map_err(ExtractError::at("open", place))?;
        inherits_nothing(&root)
            .map_err(ExtractError::at("take away what it inherits by a default ACL", place))?;
        let is_root = rustix::process::geteuid().is_root();
        Ok(ExtractWriter {
            image,
            list,
            how,
            root,
            place: place.to_owned(),
            is_root,
            kept_owners: AtomicBool::new(is_root),
            lost_xattrs: AtomicU64::new(0),
            done: AtomicU64::new(0),
        })
    }

    /// Makes all of it. Who may do what with the directory itself is as in the image, or as in the
    /// one whose place it is to take.
    pub fn run(&self, instead_of: Option<&Path>) -> Result<Extracted, ExtractError> {
        let list = self.list;
        for (path, _) in &list.directories[1..] {
            rustix::fs::mkdirat(&self.root, path, Mode::RWXU)
                .map_err(ExtractError::at("make the directory", path))?;
        }
        self.files()?;
        let mut left_out = BTreeSet::new();
        for (path, node) in &list.special {
            if !self.special(path, *node)? {
                left_out.insert(path.clone());
            }
        }
        for (path, node) in &list.links {
            self.link(path, *node)?;
        }
        for (path, first) in list.names.iter().filter(|(_, first)| !left_out.contains(first)) {
            rustix::fs::linkat(&self.root, first, &self.root, path, AtFlags::empty())
                .map_err(ExtractError::at("link", path))?;
        }
        // A directory's time changes with what is made in it, and its mode may forbid that.
        for (path, node) in list.directories.iter().rev() {
            let directory = self.open_directory(path).map_err(ExtractError::at("open", path))?;
            match instead_of.filter(|_| path.as_os_str().is_empty()) {
                None => self.settle(&directory, path, *node)?,
                Some(old) => self.settle_as(directory.into(), old, *node)?,
            }
        }
        Ok(Extracted {
            files: list.files.len() as u64,
            directories: list.directories.len() as u64,
            links: list.links.len() as u64,
            special: (list.special.len() - left_out.len()) as u64,
            bytes: list.bytes,
            owners: self.kept_owners.load(Ordering::Relaxed),
            lost_xattrs: self.lost_xattrs.load(Ordering::Relaxed),
            left_out: left_out.into_iter().collect(),
            ..Extracted::default()
        })
    }

    fn open_directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.root, path, flags, Mode::empty())
    }

    /// Writes the files, many at a time.
    fn files(&self) -> Result<(), ExtractError> {
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(None);
        let work = || {
            let mut buffer = vec![0; BUFFER];
            while let Some((path, node)) = self.list.files.get(next.fetch_add(1, Ordering::Relaxed))
            {
                if let Err(error) = self.file(path, *node, &mut buffer) {
                    next.store(self.list.files.len(), Ordering::Relaxed);
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.how.writers.clamp(1, self.list.files.len().max(1)) {
                scope.spawn(work);
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn file(&self, path: &Path, node: SquashNode, buffer: &mut [u8]) -> Result<(), ExtractError> {
        let read = |error| ExtractError::read(path)(error);
        let content = self.image.open(node).map_err(read)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.root, path, flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(file.map_err(ExtractError::at("make", path))?);
        let block = self.image.block_size() as usize;
        let mut at = 0;
        while at < content.size() {
            if content.is_hole((at / block as u64) as usize) {
                let length = (content.size() - at).min(block as u64);
                at += length;
                self.tell(length);
                continue;
            }
            // A block at least, and no more than there is before the next hole.
            let blocks = (0..buffer.len() / block)
                .take_while(|ahead| !content.is_hole((at / block as u64) as usize + ahead));
            let most = blocks.count() * block;
            let length = self.image.read_at(&content, at, &mut buffer[..most]).map_err(read)?;
            self.check_room(length as u64).map_err(ExtractError::at("write", path))?;
            file.write_all_at(&buffer[..length], at).map_err(ExtractError::at("write", path))?;
            at += length as u64;
            self.tell(length as u64);
        }
        // A hole at its end.
        file.set_len(content.size()).map_err(ExtractError::at("write", path))?;
        self.settle(file.as_fd(), path, node)
    }

    fn check_room(&self, bytes: u64) -> std::io::Result<()> {
        self.how.stand_in.as_ref().map_or(Ok(()), |stand_in| (stand_in.room)(bytes))
    }

    fn tell(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (self.how.progress)(done, self.list.bytes);
    }

    fn attributes(&self, path: &Path, node: SquashNode) -> Result<SquashAttributes, ExtractError> {
        self.image.attributes(node).map_err(ExtractError::read(path))
    }

    /// Owner, mode, xattrs and time of a file or directory that is complete.
    fn settle(&self, file: impl AsFd, path: &Path, node: SquashNode) -> Result<(), ExtractError> {
        let file = file.as_fd();
        let about = self.attributes(path, node)?;
        let is_given = self.is_root
            && self
                .has_given(rustix::fs::fchown(file, Some(Uid::from_raw(about.uid)), gid(&about)))
                .map_err(ExtractError::at("give away", path))?;
        rustix::fs::fchmod(file, self.mode(&about, is_given))
            .map_err(ExtractError::at("set the mode of", path))?;
        for (name, value) in self.xattrs(path, node)? {
            let set = rustix::fs::fsetxattr(file, &name[..], &value, XattrFlags::empty());
            self.note_xattr(set).map_err(ExtractError::at("set an xattr of", path))?;
        }
        rustix::fs::futimens(file, &times(&about))
            .map_err(ExtractError::at("set the time of", path))
    }

    /// The directory itself, as another one.
    fn settle_as(&self, root: File, old: &Path, node: SquashNode) -> Result<(), ExtractError> {
        let about = self.attributes(old, node)?;
        rustix::fs::futimens(&root, &times(&about))
            .map_err(ExtractError::at("set the time of", old))?;
        let kept = access::keep_directory_access(&root, old);
        kept.map_err(ExtractError::at("keep the owner, mode and access control lists of", old))
    }

    /// The same by path, for what cannot be opened: a link, a device.
    fn settle_by_path(&self, path: &Path, node: SquashNode) -> Result<(), ExtractError> {
        let about = self.attributes(path, node)?;
        let owner = Some(Uid::from_raw(about.uid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let is_given = self.is_root
            && self
                .has_given(rustix::fs::chownat(&self.root, path, owner, gid(&about), flags))
                .map_err(ExtractError::at("give away", path))?;
        if about.kind != NodeKind::Symlink {
            let mode = self.mode(&about, is_given);
            rustix::fs::chmodat(&self.root, path, mode, AtFlags::empty())
                .map_err(ExtractError::at("set the mode of", path))?;
        }
        let whole = self.place.join(path);
        for (name, value) in self.xattrs(path, node)? {
            let set = rustix::fs::lsetxattr(&whole, &name[..], &value, XattrFlags::empty());
            self.note_xattr(set).map_err(ExtractError::at("set an xattr of", path))?;
        }
        rustix::fs::utimensat(&self.root, path, &times(&about), flags)
            .map_err(ExtractError::at("set the time of", path))
    }

    /// A program that ran as somebody does not run as somebody else.
    fn mode(&self, about: &SquashAttributes, is_given: bool) -> Mode {
        let bits = u32::from(about.mode);
        let keeps_id = about.kind == NodeKind::Directory || is_given && self.how.stand_in.is_none();
        let read_only = self.how.stand_in.as_ref().is_some_and(|stand_in| stand_in.read_only);
        let bits = if keeps_id { bits } else { bits & !SET_ID };
        Mode::from_raw_mode(if read_only { bits & !WRITE } else { bits })
    }

    /// Whether a file could be given away. In a user namespace, root knows few others.
    fn has_given(&self, given: Result<(), Errno>) -> Result<bool, Errno> {
        match given {
            Ok(()) => Ok(true),
            Err(Errno::PERM | Errno::INVAL) => {
                self.kept_owners.store(false, Ordering::Relaxed);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn xattrs(&self, path: &Path, node: SquashNode) -> Result<Vec<XattrPair>, ExtractError> {
        self.image.xattrs(node).map_err(ExtractError::read(path))
    }

    fn note_xattr(&self, set: Result<(), Errno>) -> Result<(), Errno> {
        match set {
            Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP) => {
                self.lost_xattrs.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            set => set,
        }
    }

    fn link(&self, path: &Path, node: SquashNode) -> Result<(), ExtractError> {
        let target = self.image.target(node).map_err(ExtractError::read(path))?;
        let other = self.how.stand_in.as_ref().and_then(|stand_in| (stand_in.target)(&target));
        let target = other.unwrap_or(target);
        rustix::fs::symlinkat(&target[..], &self.root, path)
            .map_err(ExtractError::at("make the link", path))?;
        self.settle_by_path(path, node)
    }

    /// A pipe, socket or device. False for one that this user may not make.
    fn special(&self, path: &Path, node: SquashNode) -> Result<bool, ExtractError> {
        let about = self.attributes(path, node)?;
        let kind = match about.kind {
            NodeKind::Fifo => FileType::Fifo,
            NodeKind::Socket => FileType::Socket,
            NodeKind::BlockDevice => FileType::BlockDevice,
            _ => FileType::CharacterDevice,
        };
        let private = Mode::RUSR | Mode::WUSR;
        match rustix::fs::mknodat(&self.root, path, kind, private, device(about.device)) {
            Err(Errno::PERM) => return Ok(false),
            made => made.map_err(ExtractError::at("make", path))?,
        }
        self.settle_by_path(path, node)?;
        Ok(true)
    }
}

/// What is made in a directory gets the lists that it gives by default (acl(5)): nobody may do more
/// with what is extracted for where it lies.
fn inherits_nothing(directory: &OwnedFd) -> Result<(), Errno> {
    for list in [access::POSIX_DEFAULT, access::POSIX] {
        match rustix::fs::fremovexattr(directory, list) {
            Err(Errno::NODATA | Errno::NOTSUP) => {}
            removed => removed?,
        }
    }
    Ok(())
}

fn gid(about: &SquashAttributes) -> Option<Gid> {
    Some(Gid::from_raw(about.gid))
}

fn times(about: &SquashAttributes) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: about.mtime.into(), tv_nsec: 0 },
    }
}

/// A device number from the 32 bits in the image (Linux: new_decode_dev).
fn device(number: u32) -> u64 {
    let (major, minor) = ((number & 0xfff00) >> 8, (number & 0xff) | ((number >> 12) & 0xfff00));
    rustix::fs::makedev(major, minor)
}
