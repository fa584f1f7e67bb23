//! The real filesystem.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::hash::Hash;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use rustc_hash::FxHashMap;
use rustix::fs::FileType;

use super::listing::{DirectoryEntries, DirectoryListing};
use super::{EntryKind, Errno, FileId, OpenedFile, World};
use crate::object::is_library_name;
use crate::{ElfError, ElfObject};

/// The real filesystem. Directories are listed once, files parsed once; made to be shared by many
/// simulations, in many threads. What changes on disk afterwards is not seen.
///
/// A path whose directory's listing does not name it is absent: no call is needed to know that.
#[derive(Debug, Default)]
pub struct Disk {
    directories: PathTable<Box<[u8]>, Arc<KnownDirectory>>,
    opened: PathTable<Box<[u8]>, Result<OpenedFile, Errno>>,
    files: PathTable<FileId, OpenedFile>,
    contents: PathTable<Box<[u8]>, DiskContent>,
    /// The real paths of directories that something is in.
    real: PathTable<Box<[u8]>, Arc<Path>>,
}

/// What reading a file gave.
type DiskContent = Result<Arc<[u8]>, Errno>;

/// What is known of a directory.
#[derive(Debug)]
enum KnownDirectory {
    /// There is none, for this reason.
    Absent(Errno),
    /// Something else has its path.
    File,
    /// It has these entries and no others.
    Listed(DirectoryEntries),
    /// It is asked entry by entry, because it is large or asked rarely.
    Open(DiskLookup),
}

#[derive(Debug, Default)]
struct DiskLookup {
    /// How many names were asked for in vain.
    vain: AtomicUsize,
    exists: OnceLock<Result<bool, Errno>>,
}

/// Of a directory with more libraries than this, few are the program's.
const AHEAD: usize = 8;
/// As many calls as listing a directory of some thousand entries costs.
const VAIN: usize = 48;
/// The kernel's limits (linux/limits.h).
const NAME_MAX: usize = 255;
const PATH_MAX: usize = 4096;
/// The content of ld.so.cache is some 100 kB.
const CONTENT_LIMIT: u64 = 64 << 20;

impl Disk {
    /// Nothing is read yet.
    pub fn new() -> Disk {
        Disk::default()
    }

    /// What is known of the directory at `path`, if anything. What is known of directories above it
    /// may tell.
    fn known(&self, path: &[u8]) -> Option<Arc<KnownDirectory>> {
        if let Some(directory) = self.directories.get(path) {
            return Some(directory);
        }
        let (mut above, mut name) = split(path)?;
        let directory = loop {
            if name.len() > NAME_MAX {
                break KnownDirectory::Absent(Errno(libc::ENAMETOOLONG));
            }
            match self.directories.get(above).as_deref() {
                Some(KnownDirectory::Absent(errno)) => break KnownDirectory::Absent(*errno),
                Some(KnownDirectory::File) => break KnownDirectory::Absent(Errno(libc::ENOTDIR)),
                Some(KnownDirectory::Listed(entries)) => match entries.get(name) {
                    None => break KnownDirectory::Absent(Errno(libc::ENOENT)),
                    Some(FileType::RegularFile) if above.len() + 1 + name.len() >= path.len() => {
                        break KnownDirectory::File;
                    }
                    Some(FileType::RegularFile) => {
                        break KnownDirectory::Absent(Errno(libc::ENOTDIR));
                    }
                    Some(_) => return None,
                },
                Some(KnownDirectory::Open(_)) => return None,
                None => (above, name) = split(above)?,
            }
        };
        Some(self.directories.put(path, Arc::new(directory)))
    }

    fn directory(&self, path: &[u8]) -> Arc<KnownDirectory> {
        self.known(path).unwrap_or_else(|| {
            self.directories.put(path, Arc::new(KnownDirectory::Open(DiskLookup::default())))
        })
    }

    /// Lists the directory at `path`; if it is large, only when `small` is false.
    fn list(&self, path: &[u8], small: bool) -> Arc<KnownDirectory> {
        let listed = DirectoryListing::open(path).and_then(|listing| listing.entries(small));
        self.put_listed(path, listed)
    }

    fn put_listed(
        &self,
        path: &[u8],
        listed: Result<Option<DirectoryEntries>, Errno>,
    ) -> Arc<KnownDirectory> {
        let directory = match listed {
            Ok(Some(entries)) => KnownDirectory::Listed(entries),
            Err(errno) if errno.0 == libc::ENOTDIR && fs::metadata(as_path(path)).is_ok() => {
                KnownDirectory::File
            }
            Err(errno) if matches!(errno.0, libc::ENOENT | libc::ENOTDIR | libc::ELOOP) => {
                KnownDirectory::Absent(errno)
            }
            // It may be searched though it cannot be read, or it is too large.
            Ok(None) | Err(_) => KnownDirectory::Open(DiskLookup::default()),
        };
        self.directories.put(path, Arc::new(directory))
    }

    /// Reads the libraries in a directory that is not large.
    pub(super) fn read_libraries(&self, directory: &Path) {
        self.expect(directory);
        let path = trim(directory.as_os_str().as_bytes());
        let directory = self.directory(path);
        let KnownDirectory::Listed(entries) = &*directory else { return };
        for (name, kind) in entries.iter().filter(|(name, _)| is_library_name(name)).take(AHEAD) {
            let _ = self.open_file(&[path, b"/", name].concat(), Some(*kind));
        }
    }

    /// Opens what is at `path`, which is there as far as is known.
    fn open_file(&self, path: &[u8], kind: Option<FileType>) -> Result<OpenedFile, Errno> {
        if let Some(opened) = self.opened.get(path) {
            return opened;
        }
        let opened = self.read_file(as_path(path), kind);
        self.opened.put(path, opened)
    }

    fn read_file(&self, path: &Path, kind: Option<FileType>) -> Result<OpenedFile, Errno> {
        // To open a device may do something.
        if matches!(kind, Some(FileType::CharacterDevice | FileType::BlockDevice | FileType::Fifo))
        {
            return Ok(no_file(&fs::metadata(path)?));
        }
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let metadata = file.metadata()?;
        let id = id_of(&metadata);
        if let Some(opened) = self.files.get(&id) {
            return Ok(opened);
        }
        if !metadata.is_file() {
            return Ok(no_file(&metadata));
        }
        let (identity, object) = ElfObject::of_file(&file, metadata.len());
        let object = object.map(Arc::new).map_err(Arc::new);
        let set_user_id = metadata.mode() & libc::S_ISUID != 0;
        let seen = Some(remedy::Seen::from_metadata(&metadata));
        Ok(self.files.put(id, OpenedFile { id, set_user_id, seen, identity, object }))
    }

    /// Whether a listing says that this is a directory or a file of the directory above it, and no link.
    fn is_no_link(&self, above: &[u8], name: &[u8]) -> bool {
        match self.directories.get(above).as_deref() {
            Some(KnownDirectory::Listed(entries)) if ![&b"."[..], b".."].contains(&name) => {
                matches!(entries.get(name), Some(FileType::Directory | FileType::RegularFile))
            }
            _ => false,
        }
    }

    fn read_content(path: &Path) -> DiskContent {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(Errno(if metadata.is_dir() { libc::EISDIR } else { libc::EINVAL }));
        }
        let mut bytes = Vec::with_capacity(metadata.len().min(CONTENT_LIMIT) as usize + 1);
        file.take(CONTENT_LIMIT).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}

impl World for Disk {
    fn open(&self, path: &Path) -> Result<OpenedFile, Errno> {
        let path = path.as_os_str().as_bytes();
        if path.len() >= PATH_MAX {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        let Some((above, name)) = split(path) else { return self.open_file(path, None) };
        match &*self.directory(above) {
            KnownDirectory::Absent(errno) => Err(*errno),
            KnownDirectory::File => Err(Errno(libc::ENOTDIR)),
            KnownDirectory::Listed(_) if name.len() > NAME_MAX => Err(Errno(libc::ENAMETOOLONG)),
            KnownDirectory::Listed(entries) => match entries.get(name) {
                None => Err(Errno(libc::ENOENT)),
                Some(kind) => self.open_file(path, Some(*kind)),
            },
            KnownDirectory::Open(asked) => {
                let opened = self.open_file(path, None);
                if opened.is_err() && asked.vain.fetch_add(1, Ordering::Relaxed) == VAIN {
                    self.list(above, false);
                }
                opened
            }
        }
    }

    fn is_directory(&self, path: &Path) -> Result<bool, Errno> {
        let path = trim(path.as_os_str().as_bytes());
        if path.len() >= PATH_MAX {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        match &*self.directory(path) {
            KnownDirectory::Absent(errno) => Err(*errno),
            KnownDirectory::File => Ok(false),
            KnownDirectory::Listed(_) => Ok(true),
            KnownDirectory::Open(asked) => *asked.exists.get_or_init(|| {
                let is_directory = fs::metadata(as_path(path)).map(|metadata| metadata.is_dir());
                is_directory.map_err(Errno::from)
            }),
        }
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf, Errno> {
        match split(path.as_os_str().as_bytes()) {
            Some((above, name)) if self.is_no_link(above, name) => {
                let real = match self.real.get(above) {
                    Some(real) => real,
                    None => self.real.put(above, self.real_path(as_path(above))?.into()),
                };
                Ok(real.join(OsStr::from_bytes(name)))
            }
            _ => Ok(fs::canonicalize(path)?),
        }
    }

    fn bytes(&self, path: &Path) -> Result<Arc<[u8]>, Errno> {
        let key = path.as_os_str().as_bytes();
        let known = self.contents.get(key);
        known.unwrap_or_else(|| self.contents.put(key, Disk::read_content(path)))
    }

    fn gains_rights(&self, path: &Path) -> bool {
        super::rights::gained(path)
    }

    fn learn(&self, path: &Path, known: &OpenedFile) {
        self.files.put(known.id, known.clone());
        let _ = self.opened.put(path.as_os_str().as_bytes(), Ok(known.clone()));
    }

    fn lacks(&self, directory: &Path, name: &OsStr) -> bool {
        let directory = self.directories.get(trim(directory.as_os_str().as_bytes()));
        match directory.as_deref() {
            Some(KnownDirectory::Listed(entries)) => !entries.contains_key(name.as_bytes()),
            _ => false,
        }
    }

    fn entries_of(&self, directory: &Path) -> Option<Vec<(OsString, EntryKind)>> {
        let path = trim(directory.as_os_str().as_bytes());
        let is_listed = |known: &Arc<KnownDirectory>| matches!(**known, KnownDirectory::Listed(_));
        let known = self.directories.get(path).filter(is_listed);
        let list = || {
            let listing = DirectoryListing::open_unnoticed(path);
            self.put_listed(path, listing.and_then(|listing| listing.entries(false)))
        };
        match &*known.unwrap_or_else(list) {
            KnownDirectory::Listed(entries) => {
                let entries =
                    entries.iter().filter(|(name, _)| ![&b"."[..], b".."].contains(&&***name));
                Some(
                    entries
                        .map(|(name, kind)| (OsStr::from_bytes(name).to_owned(), kind_of(*kind)))
                        .collect(),
                )
            }
            _ => None,
        }
    }

    fn expect(&self, directory: &Path) {
        let path = trim(directory.as_os_str().as_bytes());
        if self.known(path).is_none() {
            self.list(path, true);
        }
    }
}

fn kind_of(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        FileType::Unknown => EntryKind::Unknown,
        _ => EntryKind::Other,
    }
}

fn no_file(metadata: &Metadata) -> OpenedFile {
    let object = Err(Arc::new(ElfError::NotAFile));
    let seen = Some(remedy::Seen::from_metadata(metadata));
    OpenedFile { id: id_of(metadata), set_user_id: false, seen, identity: None, object }
}

fn id_of(metadata: &Metadata) -> FileId {
    FileId { device: metadata.dev(), inode: metadata.ino() }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Without slashes at its end, unless it is the root.
fn trim(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1);
    &path[..end.min(path.len())]
}

/// The directory and the name in it; nothing if there is no name.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    let name = &path[slash + 1..];
    (!name.is_empty()).then(|| (trim(&path[..slash.max(1)]), name))
}

/// A map that many threads fill, by long paths: the hash of the standard library would take
/// longer than the rest of a simulation. Two threads may find the same thing out; the first counts.
#[derive(Debug)]
struct PathTable<K, V>(RwLock<FxHashMap<K, V>>);

impl<K, V> Default for PathTable<K, V> {
    fn default() -> PathTable<K, V> {
        PathTable(RwLock::default())
    }
}

impl<K: Hash + Eq, V: Clone> PathTable<K, V> {
    fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: impl Into<K>, value: V) -> V {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(key.into(), value.clone());
        value
    }
}
