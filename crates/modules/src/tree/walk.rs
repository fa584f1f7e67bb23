//! The walk.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, stat, statat};
use serde::{Deserialize, Serialize};

use super::cookie::LOOKED_AT;
use super::{ChangeStamp, Cookie, Rc, SystemErrno, TreeEntry, TreeEntryKind};

/// The directories that Modules does not enter (`ignored_dirs`, the default of 5.0 to 5.7).
pub const IGNORED_DIRECTORIES: [&str; 7] = ["CVS", "RCS", "SCCS", ".svn", ".git", ".SYNC", ".sos"];

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub struct WalkLimits {
    /// Names, after which the walk stops and says so.
    pub entries: usize,
    /// Whether files are opened for their cookies. Without, a walk only lists and stats.
    pub cookies: bool,
}

impl Default for WalkLimits {
    /// A million names, cookies read.
    fn default() -> WalkLimits {
        WalkLimits { entries: 1_000_000, cookies: true }
    }
}

/// A modulepath, walked as the calling user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModulepathTree {
    /// The modulepath, as it was given.
    #[serde(with = "super::path")]
    pub root: PathBuf,
    /// The modulepath's directory: a [`TreeEntryKind::Directory`] unless it is missing, no directory, or may
    /// not be read. Its name is empty.
    pub top: TreeEntry,
    /// All that is in it: a directory before its entries, names in the order of their bytes.
    pub entries: Vec<TreeEntry>,
    /// Whether there was more than the limit allowed.
    pub is_cut: bool,
}

/// Walks a modulepath. What cannot be read is an [`TreeEntry`] that says so: this has no error.
///
/// Nothing but regular files is opened, and those without blocking. A link to a directory is
/// followed, as Modules does, unless it leads to a directory that it lies in.
pub fn walk(root: &Path, limits: WalkLimits) -> ModulepathTree {
    let (top, directory) = top(root);
    let mut tree =
        ModulepathTree { root: root.to_owned(), top, entries: Vec::new(), is_cut: false };
    let (Some(directory), Some(stamp)) = (directory, tree.top.stamp) else { return tree };
    let mut walk =
        ModulepathWalk { root: directory, limits, above: parents(root), tree: &mut tree };
    tree.top.kind = walk.directory(Path::new(""), stamp);
    tree
}

/// The modulepath itself.
fn top(root: &Path) -> (TreeEntry, Option<OwnedFd>) {
    let is_link = root.is_symlink();
    let entry = |kind, stamp| TreeEntry { name: PathBuf::new(), kind, is_link, stamp };
    let stat = match stat(root) {
        Ok(stat) => stat,
        Err(rustix::io::Errno::NOENT) => return (entry(TreeEntryKind::Dangling, None), None),
        Err(why) => {
            let kind = TreeEntryKind::Unreadable { is_directory: true, why: why.into() };
            return (entry(kind, None), None);
        }
    };
    let stamp = Some(ChangeStamp::of(&stat));
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {}
        FileType::RegularFile => return (entry(TreeEntryKind::File(Cookie::NotRead), stamp), None),
        _ => return (entry(TreeEntryKind::Special, stamp), None),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(root, flags, Mode::empty()) {
        Ok(directory) => (entry(TreeEntryKind::Directory { names: 0 }, stamp), Some(directory)),
        Err(why) => {
            let why = why.into();
            (entry(TreeEntryKind::Unreadable { is_directory: true, why }, stamp), None)
        }
    }
}

/// The directories that the modulepath lies in, as far as they are known: a link to one of them
/// leads back into the tree.
fn parents(root: &Path) -> Vec<Above> {
    let Ok(whole) = root.canonicalize() else { return Vec::new() };
    let above = whole.ancestors().skip(1).filter_map(|directory| {
        let stat = stat(directory).ok()?;
        Some(Above { inode: (stat.st_dev, stat.st_ino), name: directory.to_owned() })
    });
    above.collect()
}

/// A directory that is being walked.
struct Above {
    inode: (u64, u64),
    name: PathBuf,
}

struct ModulepathWalk<'a> {
    root: OwnedFd,
    limits: WalkLimits,
    above: Vec<Above>,
    tree: &'a mut ModulepathTree,
}

impl ModulepathWalk<'_> {
    /// Lists a directory and walks what is in it. What it turns out to be.
    ///
    /// It calls itself, at most as deep as the longest path has directories: some 2,000.
    fn directory(&mut self, name: &Path, stamp: ChangeStamp) -> TreeEntryKind {
        let names = match self.names(name) {
            Ok(names) => names,
            Err(why) => return TreeEntryKind::Unreadable { is_directory: true, why: why.into() },
        };
        let inode = (stamp.device, stamp.inode);
        self.above.push(Above { inode, name: name.to_owned() });
        for child in &names {
            if self.tree.is_cut {
                break;
            }
            self.child(name.join(OsStr::from_bytes(child)));
        }
        self.above.pop();
        TreeEntryKind::Directory { names: names.len() as u64 }
    }

    /// The names in a directory, in the order of their bytes.
    fn names(&mut self, directory: &Path) -> rustix::io::Result<Vec<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let dir = Dir::new(openat(&self.root, place(directory), flags, Mode::empty())?)?;
        let mut names = Vec::new();
        for entry in dir {
            // What is broken in the middle ends a directory: Modules takes what it got, too.
            let Ok(entry) = entry else { break };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.tree.entries.len() + names.len() >= self.limits.entries {
                self.tree.is_cut = true;
                break;
            }
            names.push(name.to_vec());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn child(&mut self, name: PathBuf) {
        if self.tree.entries.len() >= self.limits.entries {
            self.tree.is_cut = true;
            return;
        }
        let own = statat(&self.root, &name, AtFlags::SYMLINK_NOFOLLOW);
        let is_link = own.is_ok_and(|stat| is(&stat, FileType::Symlink));
        let stat = if is_link { statat(&self.root, &name, AtFlags::empty()) } else { own };
        let at = self.tree.entries.len();
        let stamp = stat.as_ref().ok().map(ChangeStamp::of);
        let kind = match &stat {
            Ok(stat) => self.kind(&name, stat),
            Err(_) if is_ignored(tail_of(&name)) => TreeEntryKind::IgnoredFile,
            Err(why) if is_link && is_nowhere(*why) => TreeEntryKind::Dangling,
            Err(why) => TreeEntryKind::Unreadable { is_directory: false, why: (*why).into() },
        };
        let is_directory = matches!(kind, TreeEntryKind::Directory { .. });
        self.tree.entries.push(TreeEntry { name: name.clone(), kind, is_link, stamp });
        if let (true, Some(stamp)) = (is_directory, stamp) {
            self.tree.entries[at].kind = self.directory(&name, stamp);
        }
    }

    fn kind(&self, name: &Path, stat: &Stat) -> TreeEntryKind {
        let tail = tail_of(name);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.directory_kind(tail, stat),
            _ if is_ignored(tail) => TreeEntryKind::IgnoredFile,
            FileType::RegularFile if tail == b".modulecache" && is_at_top(name) => {
                TreeEntryKind::Cache
            }
            FileType::RegularFile => match (tail, self.cookie(name)) {
                (_, Err(why)) => TreeEntryKind::Unreadable { is_directory: false, why: why.into() },
                (b".modulerc", Ok(cookie)) => TreeEntryKind::Rc(Rc::Modulerc, cookie),
                // At the top, `.version` is not looked at.
                (b".version", Ok(_)) if is_at_top(name) => TreeEntryKind::IgnoredFile,
                (b".version", Ok(cookie)) => TreeEntryKind::Rc(Rc::Version, cookie),
                (_, Ok(cookie)) => TreeEntryKind::File(cookie),
            },
            _ => TreeEntryKind::Special,
        }
    }

    fn directory_kind(&self, tail: &[u8], stat: &Stat) -> TreeEntryKind {
        if IGNORED_DIRECTORIES.iter().any(|ignored| ignored.as_bytes() == tail) {
            return TreeEntryKind::IgnoredDirectory;
        }
        match self.above.iter().find(|above| above.inode == (stat.st_dev, stat.st_ino)) {
            Some(above) => TreeEntryKind::Loop { to: above.name.clone() },
            None => TreeEntryKind::Directory { names: 0 },
        }
    }

    fn cookie(&self, name: &Path) -> rustix::io::Result<Cookie> {
        if !self.limits.cookies {
            return Ok(Cookie::NotRead);
        }
        // It was a regular file a moment ago. If somebody has put a FIFO in its place, this
        // neither waits nor becomes its terminal.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(self.root.as_fd(), name, flags, Mode::empty())?);
        let mut beginning = Vec::with_capacity(LOOKED_AT);
        file.take(LOOKED_AT as u64).read_to_end(&mut beginning).map_err(|error| {
            rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
        })?;
        Ok(Cookie::of(&beginning))
    }
}

fn tail_of(name: &Path) -> &[u8] {
    name.file_name().unwrap_or_default().as_bytes()
}

/// What openat(2) calls the directory itself.
fn place(directory: &Path) -> &Path {
    if directory.as_os_str().is_empty() { Path::new(".") } else { directory }
}

fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

fn is_nowhere(why: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(why, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

fn is_at_top(name: &Path) -> bool {
    name.parent().is_none_or(|parent| parent.as_os_str().is_empty())
}

/// The names that `findModules` passes over: `*~`, `*,v` and `#*#`.
fn is_ignored(tail: &[u8]) -> bool {
    tail.ends_with(b"~")
        || tail.ends_with(b",v")
        || (tail.len() > 1 && tail.starts_with(b"#") && tail.ends_with(b"#"))
}

impl ModulepathTree {
    /// Where an entry is.
    pub fn path(&self, entry: &TreeEntry) -> PathBuf {
        if entry.name.as_os_str().is_empty() {
            return self.root.clone();
        }
        self.root.join(&entry.name)
    }

    /// Whether the modulepath is a directory that could be listed.
    pub fn is_listed(&self) -> bool {
        matches!(self.top.kind, TreeEntryKind::Directory { .. })
    }

    /// Why the modulepath or something in it could not be seen, by this user.
    pub fn unreadable(&self) -> impl Iterator<Item = (&TreeEntry, SystemErrno)> {
        std::iter::once(&self.top).chain(&self.entries).filter_map(|entry| match entry.kind {
            TreeEntryKind::Unreadable { why, .. } => Some((entry, why)),
            _ => None,
        })
    }
}
