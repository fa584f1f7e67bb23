//! The files that the kernel knows, each with a descriptor of the real one.
//!
//! A file's number for the kernel is its real inode number, so that programs see the same one;
//! only what lies on another filesystem mounted below the tree gets a number of ours. A
//! descriptor (O_PATH) keeps the file in hand whatever happens to its name. When too many are
//! open, those that were not used lately are closed, and opened again by name when needed.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fuser::{BackingId, INodeNo};
use recording::Nanos;
use rustc_hash::FxHashMap;
use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::{Errno, Result};

/// A file that the kernel knows.
#[derive(Debug)]
pub(super) struct Inode {
    pub id: INodeNo,
    device: u64,
    inode: u64,
    is_link: bool,
    place: Mutex<SeenAt>,
    used: AtomicBool,
    held: Mutex<KernelCached>,
}

/// Where a file was seen last.
#[derive(Debug)]
struct SeenAt {
    descriptor: Option<Arc<OwnedFd>>,
    /// The directory and the name; none for the tree's root.
    name: Option<(Arc<Inode>, OsString)>,
    /// It may not be found by name any more: its descriptor stays open.
    unlinked: bool,
}

/// What the kernel holds of a file's content.
#[derive(Debug, Default)]
pub(super) struct KernelCached {
    /// The state of the file when the kernel began to hold its data.
    pub data: Option<ContentStamp>,
    /// The same for a directory's list, and when it was asked for.
    pub list: Option<(Nanos, ContentStamp)>,
    /// The file behind all descriptors that the kernel reads by itself.
    pub backing: Weak<BackingId>,
}

/// What changes whenever a file's content does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentStamp {
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ContentStamp {
    pub fn of(stat: &Stat) -> ContentStamp {
        ContentStamp {
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Inodes {
    root: Arc<Inode>,
    table: Mutex<InodeTable>,
    most_open: usize,
}

#[derive(Debug, Default)]
struct InodeTable {
    /// Each file, and how often the kernel was told of it and has not forgotten it.
    known: FxHashMap<u64, (Arc<Inode>, u64)>,
    /// Numbers of files on other filesystems than the root's.
    elsewhere: FxHashMap<(u64, u64), u64>,
    numbered: u64,
    /// Those with an open descriptor, longest first.
    open: VecDeque<Weak<Inode>>,
}

/// From here on numbers are ours; no filesystem counts its inodes so far.
const OURS: u64 = 1 << 63;
/// A path has no more parts than this. Directories that were moved about by others could otherwise
/// seem to lie in each other.
const DEEPEST: usize = 4096;
/// So many descriptors are closed at a time.
const BATCH: usize = 64;

const BY_NAME: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Inodes {
    /// Knows the root only. At most so many descriptors stay open.
    pub fn new(root: OwnedFd, most_open: usize) -> Result<Inodes> {
        let stat = rustix::fs::fstat(&root)?;
        let place = SeenAt { descriptor: Some(Arc::new(root)), name: None, unlinked: true };
        let root = Arc::new(Inode::new(INodeNo::ROOT, &stat, place));
        Ok(Inodes { root, table: Mutex::default(), most_open })
    }

    /// The tree's root.
    pub fn root(&self) -> &Arc<Inode> {
        &self.root
    }

    /// The file with this number.
    pub fn get(&self, id: INodeNo) -> Result<Arc<Inode>> {
        if id == INodeNo::ROOT {
            return Ok(self.root.clone());
        }
        let table = self.table();
        table.known.get(&id.0).map(|(node, _)| node.clone()).ok_or(Errno::STALE)
    }

    /// The file of this name, and what it is. The kernel is told of it once more.
    pub fn look_up(&self, directory: &Arc<Inode>, name: &OsStr) -> Result<(Arc<Inode>, Stat)> {
        let above = self.descriptor(directory)?;
        let file = self.open(|| rustix::fs::openat(&*above, name, BY_NAME, Mode::empty()))?;
        let stat = rustix::fs::fstat(&file)?;
        Ok((self.enter(Arc::new(file), &stat, directory, name), stat))
    }

    fn enter(
        &self,
        file: Arc<OwnedFd>,
        stat: &Stat,
        directory: &Arc<Inode>,
        name: &OsStr,
    ) -> Arc<Inode> {
        let mut table = self.table();
        let id = table.number(stat, self.root.device);
        if let Some((node, lookups)) = table.known.get_mut(&id) {
            *lookups += 1;
            let node = node.clone();
            let mut place = node.place();
            if place.descriptor.is_none() {
                place.descriptor = Some(file);
                table.open.push_back(Arc::downgrade(&node));
            }
            place.name = Some((directory.clone(), name.to_owned()));
            drop(place);
            return node;
        }
        let name = Some((directory.clone(), name.to_owned()));
        let place = SeenAt { descriptor: Some(file), name, unlinked: false };
        let node = Arc::new(Inode::new(INodeNo(id), stat, place));
        table.known.insert(id, (node.clone(), 1));
        table.open.push_back(Arc::downgrade(&node));
        if table.open.len() > self.most_open {
            table.close_some();
        }
        node
    }

    /// The kernel has forgotten a file so many times.
    pub fn forget(&self, id: INodeNo, times: u64) {
        let mut table = self.table();
        let Some((_, lookups)) = table.known.get_mut(&id.0) else { return };
        *lookups = lookups.saturating_sub(times);
        if *lookups > 0 {
            return;
        }
        let gone = table.known.remove(&id.0);
        if let (true, Some((node, _))) = (id.0 >= OURS, &gone) {
            table.elsewhere.remove(&(node.device, node.inode));
        }
        // Those that are gone stay in the queue of the open ones until it is worth a sweep.
        if table.open.len() > 1024 && table.open.len() > 2 * table.known.len() {
            table.open.retain(|node| node.strong_count() > 0);
        }
        drop(table);
        // Closes descriptors, perhaps of all directories above, so without the lock.
        drop(gone);
    }

    /// A descriptor (O_PATH) of a file.
    ///
    /// # Errors
    /// ESTALE: it had to be opened again by its name, and that means something else now.
    pub fn descriptor(&self, node: &Arc<Inode>) -> Result<Arc<OwnedFd>> {
        self.descriptor_below(node, 0)
    }

    fn descriptor_below(&self, node: &Arc<Inode>, depth: usize) -> Result<Arc<OwnedFd>> {
        node.used.store(true, Ordering::Relaxed);
        let (directory, name) = {
            let place = node.place();
            match (&place.descriptor, &place.name) {
                (Some(descriptor), _) => return Ok(descriptor.clone()),
                (None, Some((directory, name))) if depth < DEEPEST => {
                    (directory.clone(), name.clone())
                }
                (None, _) => return Err(Errno::STALE),
            }
        };
        let above = self.descriptor_below(&directory, depth + 1)?;
        let stale = |_| Errno::STALE;
        let again = || rustix::fs::openat(&*above, &name, BY_NAME, Mode::empty());
        let file = self.open(again).map_err(stale)?;
        let stat = rustix::fs::fstat(&file)?;
        if (stat.st_dev, stat.st_ino) != (node.device, node.inode) {
            return Err(Errno::STALE);
        }
        let mut table = self.table();
        let mut place = node.place();
        let descriptor = match &place.descriptor {
            Some(other) => other.clone(),
            None => {
                table.open.push_back(Arc::downgrade(node));
                place.descriptor.insert(Arc::new(file)).clone()
            }
        };
        drop(place);
        if table.open.len() > self.most_open {
            table.close_some();
        }
        Ok(descriptor)
    }

    /// Opens something; where there are too many open files, some are closed first.
    pub fn open(&self, open: impl Fn() -> Result<OwnedFd>) -> Result<OwnedFd> {
        match open() {
            Err(Errno::MFILE | Errno::NFILE) => {
                self.table().close_some();
                open()
            }
            result => result,
        }
    }

    /// A name is about to be removed from the tree: if the kernel knows the file, it must stay
    /// in hand.
    pub fn keep(&self, directory: &Arc<Inode>, name: &OsStr) {
        let Some(node) = self.known(directory, name) else { return };
        if self.descriptor(&node).is_ok() {
            node.place().unlinked = true;
        }
    }

    /// A file has got this name.
    pub fn renamed(&self, directory: &Arc<Inode>, name: &OsStr) {
        if let Some(node) = self.known(directory, name) {
            let mut place = node.place();
            place.name = Some((directory.clone(), name.to_owned()));
            place.unlinked = false;
        }
    }

    fn known(&self, directory: &Arc<Inode>, name: &OsStr) -> Option<Arc<Inode>> {
        let above = self.descriptor(directory).ok()?;
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(&*above, name, flags).ok()?;
        let mut table = self.table();
        let id = table.number_if_known(&stat, self.root.device)?;
        table.known.get_mut(&id).map(|(node, _)| node.clone())
    }

    /// All that the kernel knows now.
    pub fn all(&self) -> Vec<Arc<Inode>> {
        self.table().known.values().map(|(node, _)| node.clone()).collect()
    }

    fn table(&self) -> MutexGuard<'_, InodeTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InodeTable {
    fn number(&mut self, stat: &Stat, root_device: u64) -> u64 {
        if let Some(id) = self.number_if_known(stat, root_device) {
            return id;
        }
        self.numbered += 1;
        let id = OURS + self.numbered;
        self.elsewhere.insert((stat.st_dev, stat.st_ino), id);
        id
    }

    fn number_if_known(&self, stat: &Stat, root_device: u64) -> Option<u64> {
        // 0 and 1 mean something else to the kernel.
        if stat.st_dev == root_device && (2..OURS).contains(&stat.st_ino) {
            return Some(stat.st_ino);
        }
        self.elsewhere.get(&(stat.st_dev, stat.st_ino)).copied()
    }

    /// Closes the descriptors that were open longest, other than those used since the last time
    /// they came up.
    fn close_some(&mut self) {
        let mut closed = 0;
        for _ in 0..self.open.len() {
            let Some(entry) = self.open.pop_front() else { break };
            let Some(node) = entry.upgrade() else { continue };
            let mut place = node.place();
            if place.unlinked || node.used.swap(false, Ordering::Relaxed) {
                self.open.push_back(entry);
                continue;
            }
            place.descriptor = None;
            closed += 1;
            if closed == BATCH {
                break;
            }
        }
    }
}

impl Inode {
    fn new(id: INodeNo, stat: &Stat, place: SeenAt) -> Inode {
        Inode {
            id,
            device: stat.st_dev,
            inode: stat.st_ino,
            is_link: rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink(),
            place: Mutex::new(place),
            used: AtomicBool::new(true),
            held: Mutex::default(),
        }
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.is_link
    }

    /// What the kernel holds of it.
    pub fn held(&self) -> MutexGuard<'_, KernelCached> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The directory and the name under which it was seen last.
    pub fn name(&self) -> Option<(Arc<Inode>, OsString)> {
        self.place().name.clone()
    }

    /// Its path below the root, each part with a slash before it.
    pub fn path(&self) -> Vec<u8> {
        let mut parts = Vec::new();
        let mut next = self.name();
        while let Some((directory, name)) = next {
            parts.push(name);
            next = if parts.len() < DEEPEST { directory.name() } else { None };
        }
        let mut path = Vec::with_capacity(64);
        for part in parts.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(part.as_bytes());
        }
        path
    }

    fn place(&self) -> MutexGuard<'_, SeenAt> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a descriptor's file in /proc: what follows it reaches the file itself, whatever
/// it is called now.
pub(super) fn proc_path(descriptor: &OwnedFd) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())
}
