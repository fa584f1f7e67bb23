//! Finds the ELF files below the paths that are to be bound.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use remedy::CheckedFiles;
use rustc_hash::FxHashMap;

use super::dlopen;
use super::places::depends_on_place;
use super::stores::{PackageStore, store_marked_by};
use super::{BindError, StartEnvironment, UnboundFile};
use crate::object::is_library_name;
use crate::source::{self, open_unnoticed};
use crate::{ElfError, ElfObject, EntryKind, FileId, OpenedFile, World};

/// The directory of farms and closure libraries.
pub(super) const OWN_DIRECTORY: &str = ".becalm";

/// A file of this size is read by one call; libraries of a store are often smaller.
const WHOLE: u64 = 256 << 10;

/// One ELF file: an inode, with its names below the given paths.
#[derive(Debug)]
pub(super) struct ElfFileNames {
    pub id: FileId,
    /// Its names, sorted; the first stands for it.
    pub names: Vec<PathBuf>,
    /// How many names it has anywhere.
    pub links: u64,
    /// Permissions, with the bits for other rights.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Whether it may have an access control list, as far as that was found out.
    pub may_have_list: bool,
    /// What was seen of it before it was read.
    pub seen: remedy::Seen,
    pub object: Arc<ElfObject>,
    /// Whether it may open libraries by name, where that was found out.
    pub may_dlopen: Option<bool>,
    /// Whether it lies in the given paths; else it is a program that was seen to load what does.
    pub is_given: bool,
    /// What was read of it, where an edit is likely and there was memory for it: for the first who edits it.
    pub read: Mutex<Option<ReadFile>>,
}

/// A file's content.
#[derive(Debug)]
pub(super) struct ReadFile {
    /// What was seen of it before.
    pub seen: remedy::Seen,
    pub content: Vec<u8>,
}

impl ElfFileNames {
    pub fn path(&self) -> &Path {
        &self.names[0]
    }

    /// Tells a world what was read, so that no file is read twice.
    pub fn tell(&self, world: &dyn World) {
        let (object, set_user_id) = (Ok(Arc::clone(&self.object)), self.mode & 0o4000 != 0);
        let identity = Some(self.object.identity());
        let seen = Some(self.seen);
        let known = OpenedFile { id: self.id, set_user_id, seen, identity, object };
        self.names.iter().for_each(|name| world.learn(name, &known));
    }

    /// What was read of it, unless it was taken already.
    pub fn take_read(&self) -> Option<ReadFile> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether it has names in several directories, and may find other files from each.
    pub fn is_in_several_places(&self) -> bool {
        let mut others = self.names[1..].iter();
        others.any(|name| name.parent() != self.path().parent()) && depends_on_place(&self.object)
    }

    /// Whether it is started as a program, rather than loaded by one. Some libraries name an
    /// interpreter, too (libc does, to print its version).
    pub fn is_program(&self) -> bool {
        self.object.interpreter.is_some() && self.object.soname.is_none()
    }
}

/// The number of each file.
pub(super) fn numbers(files: &[ElfFileNames]) -> FxHashMap<FileId, usize> {
    files.iter().enumerate().map(|(number, file)| (file.id, number)).collect()
}

/// What the walk found.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub files: Vec<ElfFileNames>,
    /// Files that could not be read, and files that were named and are not ELF.
    pub left_out: Vec<UnboundFile>,
    /// Stores that begin at or below the paths.
    pub stores: Vec<PackageStore>,
}

/// The ELF files at and below `paths`. In directories only what is named `*.so*` or may be executed
/// is looked at, and symbolic links are not followed: what they lead to is found where it lies,
/// or lies elsewhere and is not meant.
pub(super) fn collect(
    world: &dyn World,
    checked: &CheckedFiles,
    paths: &[PathBuf],
) -> Result<Collected, BindError> {
    let walker = &Walker { world, checked, kept: AtomicUsize::new(0) };
    let mut found = Vec::new();
    for path in paths {
        let at = |error| BindError::Path { path: path.clone(), error };
        if fs::metadata(path).map_err(at)?.is_dir() {
            found.par_extend(walker.walk(path).into_par_iter());
        } else {
            found.push(walker.read(path, true));
        }
    }
    let (mut collected, mut links) = (Collected::default(), 0);
    let mut by_id: FxHashMap<FileId, ElfFileNames> = FxHashMap::default();
    for each in found {
        match each {
            FoundFiles::Elf(file) => match by_id.get_mut(&file.id) {
                Some(known) => known.names.extend(file.names),
                None => drop(by_id.insert(file.id, *file)),
            },
            FoundFiles::LeftOut(left) => collected.left_out.push(left),
            FoundFiles::Store(store) => collected.stores.push(store),
            FoundFiles::Link => links += 1,
            FoundFiles::Other => {}
        }
    }
    collected.files = by_id.into_values().collect();
    for file in &mut collected.files {
        file.names.sort_unstable();
        file.names.dedup();
    }
    if collected.files.is_empty() && links > 0 {
        let reason = "symbolic links are not followed: name what they lead to".to_owned();
        collected.left_out.push(UnboundFile { path: paths[0].clone(), reason });
    }
    collected.files.sort_unstable_by(|a, b| a.names.cmp(&b.names));
    collected.left_out.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(collected)
}

/// Programs that lie elsewhere, and were seen to open something while they ran: what they load stays
/// the same, and tells what the given files load. One that cannot be read tells nothing.
pub(super) fn add_programs(files: &mut Vec<ElfFileNames>, environments: &[StartEnvironment]) {
    let seen = environments.iter().filter(|seen| !seen.opens.is_empty());
    for program in seen.flat_map(|seen| &seen.programs) {
        let Ok(file) = read_elf(program, None) else { continue };
        if files.iter().all(|known| known.id != file.id) {
            files.push(ElfFileNames { is_given: false, ..file });
        }
    }
}

enum FoundFiles {
    Elf(Box<ElfFileNames>),
    LeftOut(UnboundFile),
    Store(PackageStore),
    Link,
    /// A file of another kind.
    Other,
}

/// Who looks for files.
struct Walker<'a> {
    world: &'a dyn World,
    /// Told of what is likely to be changed.
    checked: &'a CheckedFiles,
    /// How many bytes of content are kept.
    kept: AtomicUsize,
}

/// Of the content of files that are read before they are edited, as much as this is kept until then; what
/// comes after is read again.
const CONTENT: usize = 32 << 20;

impl Walker<'_> {
    fn may_keep(&self, content: &[u8]) -> bool {
        let kept = self.kept.fetch_add(content.len(), Ordering::Relaxed);
        kept + content.len() <= CONTENT
    }

    fn walk(&self, directory: &Path) -> Vec<FoundFiles> {
        match entries(self.world, directory) {
            Ok(entries) => entries
                .par_iter()
                .flat_map(|(name, kind)| self.visit(&directory.join(name), *kind))
                .collect(),
            Err(error) => vec![FoundFiles::LeftOut(unreadable(directory, &error))],
        }
    }

    fn visit(&self, path: &Path, kind: EntryKind) -> Vec<FoundFiles> {
        self.visited(path, kind)
            .unwrap_or_else(|error| vec![FoundFiles::LeftOut(unreadable(path, &error))])
    }

    fn visited(&self, path: &Path, kind: EntryKind) -> io::Result<Vec<FoundFiles>> {
        match kind {
            EntryKind::Unknown => {
                let kind = fs::symlink_metadata(path)?.file_type();
                let kind = match kind {
                    _ if kind.is_dir() => EntryKind::Directory,
                    _ if kind.is_file() => EntryKind::File,
                    _ if kind.is_symlink() => EntryKind::Link,
                    _ => EntryKind::Other,
                };
                self.visited(path, kind)
            }
            // What becalm itself has made there.
            EntryKind::Directory if path.file_name() == Some(OsStr::new(OWN_DIRECTORY)) => {
                Ok(Vec::new())
            }
            EntryKind::Directory => {
                let store = store_marked_by(path).map(FoundFiles::Store);
                Ok(store.into_iter().chain(self.walk(path)).collect())
            }
            EntryKind::Link if has_so(path) => Ok(vec![FoundFiles::Link]),
            // A name tells what a library is; for the rest the bits for execution do.
            EntryKind::File if has_so(path) || fs::symlink_metadata(path)?.mode() & 0o111 != 0 => {
                Ok(vec![self.read(path, false)])
            }
            EntryKind::File | EntryKind::Link | EntryKind::Other => Ok(Vec::new()),
        }
    }

    fn read(&self, path: &Path, named: bool) -> FoundFiles {
        let left =
            |reason: String| FoundFiles::LeftOut(UnboundFile { path: path.to_owned(), reason });
        match read_elf(path, Some(self)) {
            Ok(file) => FoundFiles::Elf(Box::new(file)),
            // Scripts, texts with a library's name, empty files: a store is full of them.
            Err(ElfError::NotElf | ElfError::NotAFile) if !named => FoundFiles::Other,
            Err(error) => left(error.to_string()),
        }
    }
}

/// What is in a directory, each of which is listed once.
pub(super) fn entries(
    world: &dyn World,
    directory: &Path,
) -> io::Result<Vec<(OsString, EntryKind)>> {
    if let Some(entries) = world.entries_of(directory) {
        return Ok(entries);
    }
    let entries = fs::read_dir(directory)?;
    entries.map(|entry| Ok((entry?.file_name(), EntryKind::Unknown))).collect()
}

fn has_so(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    is_library_name(name)
}

/// Reads a file once for all that is asked of it, unless it is large. Of one that is likely to be changed,
/// all that this takes is found out as well.
fn read_elf(path: &Path, walker: Option<&Walker>) -> Result<ElfFileNames, ElfError> {
    let (file, seen) = open_unnoticed(path)?;
    let (mut may_dlopen, mut read, mut may_have_list) = (None, None, true);
    let object = match seen.len() <= WHOLE {
        true => {
            let content = source::read(&file, 0, seen.len() as usize)?;
            let object = ElfObject::parse(&content)?;
            may_dlopen = Some(dlopen::may_be_called_in(&content));
            if let Some(walker) = walker.filter(|_| searches(&object)) {
                may_have_list = walker.checked.look(path, &file, &seen);
                let seen = remedy::Seen::from_metadata(&seen);
                read = walker.may_keep(&content).then_some(ReadFile { seen, content });
            }
            object
        }
        false => ElfObject::of_file(&file, seen.len()).1?,
    };
    Ok(ElfFileNames {
        id: FileId { device: seen.dev(), inode: seen.ino() },
        names: vec![path.to_owned()],
        links: seen.nlink(),
        mode: seen.mode(),
        uid: seen.uid(),
        gid: seen.gid(),
        may_have_list,
        seen: remedy::Seen::from_metadata(&seen),
        object: Arc::new(object),
        may_dlopen,
        is_given: true,
        read: Mutex::new(read),
    })
}

/// Whether a file has a list of directories, and names that are searched in it: an edit is likely.
fn searches(object: &ElfObject) -> bool {
    let has_list = object.rpath.is_some() || object.runpath.is_some();
    has_list && object.needed().any(|name| !name.as_bytes().contains(&b'/'))
}

fn unreadable(path: &Path, error: &io::Error) -> UnboundFile {
    UnboundFile { path: path.to_owned(), reason: format!("it cannot be read: {error}") }
}
