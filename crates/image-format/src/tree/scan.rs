//! Reads directories and attributes, many at a time: on a shared filesystem each costs a round
//! trip.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

use super::{
    FileNode, FileNodeId, FileNodeKind, FileTree, ImageLayout, OmitReason, OmittedFile,
    TreeAttributes, acl,
};
use crate::SquashWriteError;
use crate::squash::XattrPair;

/// Names of one directory that one thread asks about.
const BATCH: usize = 32;

/// Bytes that a file's names of xattrs have at most (XATTR_LIST_MAX), and the value of each
/// (XATTR_SIZE_MAX).
const XATTRS_MOST: usize = 64 << 10;

/// What is wanted of a scan.
#[derive(Clone, Copy)]
pub struct ScanOptions {
    /// How many threads read at a time.
    pub readers: usize,
    /// Read xattrs.
    pub xattrs: bool,
    /// Ask which permissions a file has without its access control list.
    pub acls: bool,
    /// Leave out directories that may not be read, rather than fail.
    pub skip_unreadable: bool,
    /// Leave out sockets, rather than fail.
    pub skip_special: bool,
}

impl Default for ScanOptions {
    fn default() -> Self {
        ScanOptions {
            readers: 8,
            xattrs: true,
            acls: true,
            skip_unreadable: false,
            skip_special: false,
        }
    }
}

impl FileTree {
    /// Reads all that is below the paths of a layout.
    ///
    /// # Errors
    /// Where something cannot be read, or is a socket.
    pub fn scan(layout: ImageLayout, wanted: ScanOptions) -> Result<FileTree, SquashWriteError> {
        let mut found = Vec::new();
        let mut jobs = Vec::new();
        if layout.paths() == [layout.base()] {
            let path = layout.base();
            let stat = rustix::fs::lstat(path).map_err(SquashWriteError::at("stat", path))?;
            found.push(node(Vec::new(), 0, &stat, FileNodeKind::Directory(Vec::new())));
            ask_more(&mut found[0], path, wanted)?;
            jobs.push(ScanJob::List(0, path.to_owned(), found[0].attributes.identity));
        } else {
            above(&layout, wanted, &mut found, &mut jobs)?;
        }
        let state = ScanState { found, jobs, ..ScanState::default() };
        let scan = TreeScan { wanted, state: Mutex::new(state), wake: Condvar::new() };
        std::thread::scope(|scope| {
            for _ in 0..wanted.readers.max(1) {
                scope.spawn(|| scan.work());
            }
        });
        let state = scan.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = state.failed {
            return Err(error);
        }
        let mut left_out = state.left_out;
        left_out.sort_by(|a, b| a.path.cmp(&b.path));
        let stands_for = layout.base().to_owned();
        Ok(FileTree { layout, stands_for, nodes: in_order(state.found), left_out })
    }
}

/// The directories above several paths, and what is to be read of those.
fn above(
    layout: &ImageLayout,
    wanted: ScanOptions,
    found: &mut Vec<FileNode>,
    jobs: &mut Vec<ScanJob>,
) -> Result<(), SquashWriteError> {
    let directory =
        |name: Vec<u8>, parent: FileNodeId, path: &Path| -> Result<FileNode, SquashWriteError> {
            let stat = rustix::fs::stat(path).map_err(SquashWriteError::at("stat", path))?;
            let mut node = node(name, parent, &stat, FileNodeKind::Directory(Vec::new()));
            node.is_above = true;
            ask_more(&mut node, path, ScanOptions { xattrs: false, ..wanted })?;
            Ok(node)
        };
    found.push(directory(Vec::new(), 0, Path::new("/"))?);
    let mut known = HashMap::from([(PathBuf::from("/"), 0)]);
    for path in layout.paths() {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(SquashWriteError::Unfit { path: path.clone(), why: "it has no name" });
        };
        let mut id = 0;
        let mut at = PathBuf::from("/");
        for part in parent.components().skip(1) {
            at.push(part);
            id = match known.get(&at) {
                Some(known) => *known,
                None => {
                    let new = found.len() as FileNodeId;
                    found.push(directory(part.as_os_str().as_bytes().to_vec(), id, &at)?);
                    known.insert(at.clone(), new);
                    new
                }
            };
        }
        let open = open_directory(parent).map_err(SquashWriteError::at("open", parent))?;
        let names = vec![name.as_bytes().to_vec()];
        jobs.push(ScanJob::Look(id, Arc::new((open, parent.to_owned())), names));
    }
    Ok(())
}

/// A piece of work for one thread.
enum ScanJob {
    /// List a directory, of this device and number.
    List(FileNodeId, PathBuf, (u64, u64)),
    /// Ask about names in a directory.
    Look(FileNodeId, Arc<(OwnedFd, PathBuf)>, Vec<Vec<u8>>),
}

struct TreeScan {
    wanted: ScanOptions,
    state: Mutex<ScanState>,
    wake: Condvar,
}

#[derive(Default)]
struct ScanState {
    found: Vec<FileNode>,
    left_out: Vec<OmittedFile>,
    jobs: Vec<ScanJob>,
    /// Threads that may still bring new jobs.
    busy: usize,
    failed: Option<SquashWriteError>,
}

impl TreeScan {
    fn lock(&self) -> MutexGuard<'_, ScanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What one thread does: jobs, until there are none and none can come.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if state.failed.is_some() {
                break;
            }
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                drop(state);
                let done = match job {
                    ScanJob::List(id, path, identity) => self.list(id, path, identity),
                    ScanJob::Look(id, directory, names) => self.look(id, &directory, names),
                };
                state = self.lock();
                state.busy -= 1;
                state.failed = state.failed.take().or(done.err());
            } else if state.busy == 0 {
                break;
            } else {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        drop(state);
        self.wake.notify_all();
    }

    fn list(
        &self,
        id: FileNodeId,
        path: PathBuf,
        identity: (u64, u64),
    ) -> Result<(), SquashWriteError> {
        // What may be read and not entered can be opened, and not listed.
        let listed = open_directory(&path).map_err(|error| ("open", error)).and_then(|directory| {
            let entries = Dir::read_from(&directory).map_err(|error| ("list", error))?;
            Ok((directory, entries))
        });
        let (directory, entries) = match listed {
            Err((_, Errno::ACCESS)) if self.wanted.skip_unreadable => {
                self.lock().left_out.push(OmittedFile { path, why: OmitReason::Unreadable });
                return Ok(());
            }
            // A link took its place.
            Err((_, Errno::LOOP | Errno::NOTDIR)) => return Err(SquashWriteError::Changed(path)),
            Err((operation, error)) => return Err(SquashWriteError::at(operation, &path)(error)),
            Ok(listed) => listed,
        };
        // Or a directory above was replaced by one, which may lead to what its owner may not read.
        let stat = rustix::fs::fstat(&directory).map_err(SquashWriteError::at("stat", &path))?;
        if (stat.st_dev, stat.st_ino) != identity {
            return Err(SquashWriteError::Changed(path));
        }
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(SquashWriteError::at("list", &path))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        let directory = Arc::new((directory, path));
        let batches =
            names.chunks(BATCH).map(|names| ScanJob::Look(id, directory.clone(), names.to_vec()));
        self.lock().jobs.extend(batches);
        self.wake.notify_all();
        Ok(())
    }

    fn look(
        &self,
        id: FileNodeId,
        directory: &(OwnedFd, PathBuf),
        names: Vec<Vec<u8>>,
    ) -> Result<(), SquashWriteError> {
        let mut nodes = Vec::with_capacity(names.len());
        let mut left_out = Vec::new();
        for name in names {
            let path = directory.1.join(std::ffi::OsStr::from_bytes(&name));
            match self.look_at(id, &directory.0, name, &path)? {
                Some(node) => nodes.push((node, path)),
                None => left_out.push(OmittedFile { path, why: OmitReason::Socket }),
            }
        }
        let mut state = self.lock();
        state.left_out.append(&mut left_out);
        for (node, path) in nodes {
            if let FileNodeKind::Directory(_) = node.kind {
                let id = state.found.len() as FileNodeId;
                state.jobs.push(ScanJob::List(id, path, node.attributes.identity));
            }
            if state.found.len() >= FileNodeId::MAX as usize / 2 {
                return Err(SquashWriteError::TooMuch("files"));
            }
            state.found.push(node);
        }
        drop(state);
        self.wake.notify_all();
        Ok(())
    }

    /// One file; none for a socket.
    fn look_at(
        &self,
        parent: FileNodeId,
        directory: &OwnedFd,
        name: Vec<u8>,
        path: &Path,
    ) -> Result<Option<FileNode>, SquashWriteError> {
        let stat = rustix::fs::statat(directory, &name[..], AtFlags::SYMLINK_NOFOLLOW)
            .map_err(SquashWriteError::at("stat", path))?;
        let kind = match FileType::from_raw_mode(stat.st_mode as RawMode) {
            FileType::Directory => FileNodeKind::Directory(Vec::new()),
            FileType::RegularFile => {
                let size = stat.st_size as u64;
                FileNodeKind::File {
                    size,
                    has_holes: (stat.st_blocks as u64) * 512 < size,
                    given: None,
                }
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(directory, &name[..], Vec::new())
                    .map_err(SquashWriteError::at("read the link", path))?;
                FileNodeKind::Symlink(target.into_bytes())
            }
            FileType::CharacterDevice => FileNodeKind::CharDevice(device(stat.st_rdev)),
            FileType::BlockDevice => FileNodeKind::BlockDevice(device(stat.st_rdev)),
            FileType::Fifo => FileNodeKind::Fifo,
            FileType::Socket if self.wanted.skip_special => return Ok(None),
            _ => return Err(SquashWriteError::Socket(path.to_owned())),
        };
        let mut node = node(name, parent, &stat, kind);
        ask_more(&mut node, path, self.wanted)?;
        Ok(Some(node))
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

fn node(name: Vec<u8>, parent: FileNodeId, stat: &Stat, kind: FileNodeKind) -> FileNode {
    let attributes = TreeAttributes {
        mode: (stat.st_mode & 0o7777) as u16,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: (stat.st_mtime, stat.st_mtime_nsec as u32),
        ctime: (stat.st_ctime, stat.st_ctime_nsec as u32),
        identity: (stat.st_dev, stat.st_ino),
    };
    FileNode {
        name,
        parent,
        attributes,
        kind,
        first_name: None,
        xattrs: Vec::new(),
        has_acl: None,
        without_acl: None,
        is_above: false,
        patches: None,
    }
}

/// What stat(2) does not say.
fn ask_more(node: &mut FileNode, path: &Path, wanted: ScanOptions) -> Result<(), SquashWriteError> {
    if wanted.xattrs {
        (node.xattrs, node.has_acl) = xattrs(path)?;
    }
    let is_link = matches!(node.kind, FileNodeKind::Symlink(_));
    if wanted.acls && !is_link && node.has_acl != Some(false) {
        let TreeAttributes { mode, uid, .. } = node.attributes;
        let kept = acl::without_list(path, mode, uid)?;
        node.without_acl = Some(kept).filter(|kept| *kept != mode);
    }
    Ok(())
}

/// A device number as squashfs keeps it (Linux: new_encode_dev).
fn device(number: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The xattrs of a file that squashfs can hold, sorted by name, and whether there is an ACL among
/// the others, which it cannot.
fn xattrs(path: &Path) -> Result<(Vec<XattrPair>, Option<bool>), SquashWriteError> {
    let mut names = vec![0; XATTRS_MOST];
    match rustix::fs::llistxattr(path, &mut names[..]) {
        // Filesystems without any; and a link of /proc, which may not be asked.
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::ACCESS | Errno::PERM) => {
            return Ok((Vec::new(), None));
        }
        Ok(0) => return Ok((Vec::new(), Some(false))),
        length => names.truncate(length.map_err(SquashWriteError::at("list the xattrs", path))?),
    }
    let has_acl = names.split(|byte| *byte == 0).any(|name| name == acl::NAME);
    let names = names.split(|byte| *byte == 0).filter(|name| crate::squash::can_hold_xattr(name));
    let mut xattrs = Vec::new();
    for name in names {
        let mut value = vec![0; XATTRS_MOST];
        match rustix::fs::lgetxattr(path, name, &mut value[..]) {
            // Taken away meanwhile, or not for this user.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS) => {}
            size => {
                value.truncate(size.map_err(SquashWriteError::at("read an xattr", path))?);
                xattrs.push((name.to_vec(), value));
            }
        }
    }
    xattrs.sort();
    Ok((xattrs, Some(has_acl)))
}

/// Nodes as they were found, put in the order of a tree; further names of a file know its first.
fn in_order(found: Vec<FileNode>) -> Vec<FileNode> {
    let mut children: Vec<Vec<FileNodeId>> = vec![Vec::new(); found.len()];
    for (id, node) in found.iter().enumerate().skip(1) {
        children[node.parent as usize].push(id as FileNodeId);
    }
    for list in &mut children {
        list.sort_by(|a, b| found[*a as usize].name.cmp(&found[*b as usize].name));
    }
    let mut found: Vec<Option<FileNode>> = found.into_iter().map(Some).collect();
    let mut nodes: Vec<FileNode> = Vec::with_capacity(found.len());
    let mut files = HashMap::new();
    let mut stack = vec![(0, 0)];
    while let Some((old, parent)) = stack.pop() {
        let Some(mut node) = found[old as usize].take() else { continue };
        let id = nodes.len() as FileNodeId;
        node.parent = parent;
        if let FileNodeKind::Directory(_) = node.kind {
            stack.extend(children[old as usize].iter().rev().map(|child| (*child, id)));
        } else {
            let first = *files.entry(node.attributes.identity).or_insert(id);
            node.first_name = (first != id).then_some(first);
        }
        nodes.push(node);
        if id != 0
            && let FileNodeKind::Directory(list) = &mut nodes[parent as usize].kind
        {
            list.push(id);
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn listed(path: &Path, identity: (u64, u64)) -> Result<usize, SquashWriteError> {
        let state = Mutex::new(ScanState::default());
        let scan = TreeScan { wanted: ScanOptions::default(), state, wake: Condvar::new() };
        scan.list(0, path.to_owned(), identity)?;
        Ok(scan.lock().jobs.len())
    }

    #[test]
    fn a_directory_that_another_one_took_the_place_of_is_not_listed() {
        let scene = tempfile::tempdir().unwrap();
        let [packed, secret] = ["packed/lib", "secret/lib"].map(|name| scene.path().join(name));
        for directory in [&packed, &secret] {
            std::fs::create_dir_all(directory).unwrap();
            std::fs::write(directory.join("file"), "").unwrap();
        }
        let about = packed.metadata().unwrap();
        let identity = (about.dev(), about.ino());
        assert_eq!(listed(&packed, identity).unwrap(), 1);
        // It, or one above it, was replaced by a link after it was looked at.
        for replaced in [packed.as_path(), packed.parent().unwrap()] {
            let aside = scene.path().join("aside");
            std::fs::rename(replaced, &aside).unwrap();
            let to = if replaced == packed { secret.as_path() } else { secret.parent().unwrap() };
            symlink(to, replaced).unwrap();
            let error = listed(&packed, identity).unwrap_err();
            assert!(matches!(error, SquashWriteError::Changed(_)), "{error}");
            std::fs::remove_file(replaced).unwrap();
            std::fs::rename(&aside, replaced).unwrap();
        }
    }
}
