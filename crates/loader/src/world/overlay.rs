//! A world with planned changes on top.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use super::{Errno, FileId, OpenedFile, World};
use crate::ElfObject;

/// A world with planned changes on top, to simulate a plan before it is applied. Nothing is
/// written. Paths are absolute.
pub struct PlannedWorld<'a> {
    below: &'a dyn World,
    replaced: HashMap<FileId, Arc<ElfObject>>,
    /// What is new, by the real path of its directory and its name.
    added: HashMap<PathBuf, OverlayNode>,
    real_directories: RwLock<HashMap<PathBuf, Result<PathBuf, Errno>>>,
}

/// Something new.
#[derive(Debug, Clone)]
enum OverlayNode {
    File(Box<OpenedFile>),
    Link(PathBuf),
    Directory,
}

/// Where a path leads.
enum OverlayTarget<'a> {
    New(PathBuf, &'a OverlayNode),
    /// To this path of the world below; links that are new are followed already.
    Below(PathBuf),
}

/// As many links as the kernel follows (`MAXSYMLINKS` in linux/namei.h).
const LINKS: usize = 40;

impl<'a> PlannedWorld<'a> {
    /// `below`, unchanged so far.
    pub fn new(below: &'a dyn World) -> PlannedWorld<'a> {
        PlannedWorld {
            below,
            replaced: HashMap::new(),
            added: HashMap::new(),
            real_directories: RwLock::default(),
        }
    }

    /// The file `id` will say what `object` says, under all of its paths.
    pub fn replace(&mut self, id: FileId, object: impl Into<Arc<ElfObject>>) {
        self.replaced.insert(id, object.into());
    }

    /// There will be a regular file at `path`, instead of what may be there.
    pub fn file(&mut self, path: &Path, object: ElfObject) {
        // No device has this number, so that the file is another than all that exist.
        let id = FileId { device: u64::MAX, inode: self.added.len() as u64 };
        let identity = Some(object.identity());
        let object = Ok(Arc::new(object));
        let opened = OpenedFile { id, set_user_id: false, seen: None, identity, object };
        self.add(path, OverlayNode::File(Box::new(opened)));
    }

    /// There will be a symbolic link to `target` at `path`, instead of what may be there.
    pub fn link(&mut self, path: &Path, target: &Path) {
        self.add(path, OverlayNode::Link(target.to_owned()));
    }

    /// There will be a directory at `path`, and directories above it.
    pub fn directory(&mut self, path: &Path) {
        let missing = path.ancestors().take_while(|each| self.below.is_directory(each) != Ok(true));
        for directory in missing.map(Path::to_owned).collect::<Vec<_>>().into_iter().rev() {
            if !self.is_directory(&directory).unwrap_or(false) {
                self.add(&directory, OverlayNode::Directory);
            }
        }
    }

    fn add(&mut self, path: &Path, node: OverlayNode) {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return };
        let above = self.real_path(above).unwrap_or_else(|_| above.to_owned());
        self.added.insert(above.join(name), node);
        self.real_directories.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Follows `path` through what is new.
    fn place(&self, path: &Path) -> Result<OverlayTarget<'_>, Errno> {
        if self.added.is_empty() {
            return Ok(OverlayTarget::Below(path.to_owned()));
        }
        self.follow(path, LINKS)
    }

    fn follow(&self, path: &Path, links: usize) -> Result<OverlayTarget<'_>, Errno> {
        let Some(above) = path.parent() else { return Ok(OverlayTarget::Below(path.to_owned())) };
        let real = match self.real_directory(above, links) {
            Ok(real) => real,
            // The world below says what is wrong.
            Err(Errno(libc::ENOENT)) => return Ok(OverlayTarget::Below(path.to_owned())),
            Err(errno) => return Err(errno),
        };
        let Some(name) = path.file_name() else {
            return self.follow(real.parent().unwrap_or(&real), links);
        };
        let path = real.join(name);
        match self.added.get(&path) {
            None => Ok(OverlayTarget::Below(path)),
            Some(OverlayNode::Link(_)) if links == 0 => Err(Errno(libc::ELOOP)),
            Some(OverlayNode::Link(target)) => self.follow(&real.join(target), links - 1),
            Some(node) => Ok(OverlayTarget::New(path, node)),
        }
    }

    /// The real path of the directory at `path`, with what is new.
    fn real_directory(&self, path: &Path, links: usize) -> Result<PathBuf, Errno> {
        let known = {
            let known = self.real_directories.read().unwrap_or_else(PoisonError::into_inner);
            known.get(path).cloned()
        };
        known.unwrap_or_else(|| {
            let real = self.find_real_directory(path, links);
            let mut known = self.real_directories.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(path.to_owned(), real.clone());
            real
        })
    }

    fn find_real_directory(&self, path: &Path, links: usize) -> Result<PathBuf, Errno> {
        match self.follow(path, links)? {
            OverlayTarget::New(real, OverlayNode::Directory) => Ok(real),
            OverlayTarget::New(..) => Err(Errno(libc::ENOTDIR)),
            OverlayTarget::Below(path) => match self.below.is_directory(&path) {
                Ok(true) => self.below.real_path(&path),
                Ok(false) => Err(Errno(libc::ENOTDIR)),
                Err(_) => Err(Errno(libc::ENOENT)),
            },
        }
    }

    /// The file with what is planned for it.
    fn changed(&self, mut opened: OpenedFile) -> OpenedFile {
        if let Some(object) = self.replaced.get(&opened.id) {
            opened.identity = Some(object.identity());
            opened.object = Ok(object.clone());
        }
        opened
    }
}

impl World for PlannedWorld<'_> {
    fn open(&self, path: &Path) -> Result<OpenedFile, Errno> {
        match self.place(path)? {
            OverlayTarget::New(_, OverlayNode::File(opened)) => {
                Ok(self.changed((**opened).clone()))
            }
            OverlayTarget::New(real, _) => {
                let object = Err(Arc::new(crate::ElfError::NotAFile));
                let id = FileId { device: u64::MAX, inode: real.as_os_str().len() as u64 };
                Ok(OpenedFile { id, set_user_id: false, seen: None, identity: None, object })
            }
            OverlayTarget::Below(path) => Ok(self.changed(self.below.open(&path)?)),
        }
    }

    fn is_directory(&self, path: &Path) -> Result<bool, Errno> {
        match self.place(path)? {
            OverlayTarget::New(_, node) => Ok(matches!(node, OverlayNode::Directory)),
            OverlayTarget::Below(path) => self.below.is_directory(&path),
        }
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf, Errno> {
        match self.place(path)? {
            OverlayTarget::New(real, _) => Ok(real),
            OverlayTarget::Below(path) => self.below.real_path(&path),
        }
    }

    fn bytes(&self, path: &Path) -> Result<Arc<[u8]>, Errno> {
        match self.place(path)? {
            // Only libraries are planned, of which nobody asks the bytes.
            OverlayTarget::New(..) => Err(Errno(libc::EIO)),
            OverlayTarget::Below(path) => self.below.bytes(&path),
        }
    }

    fn gains_rights(&self, path: &Path) -> bool {
        match self.place(path) {
            Ok(OverlayTarget::Below(path)) => self.below.gains_rights(&path),
            _ => false,
        }
    }

    fn lacks(&self, directory: &Path, name: &OsStr) -> bool {
        self.added.is_empty() && self.below.lacks(directory, name)
    }

    fn expect(&self, directory: &Path) {
        if let Ok(OverlayTarget::Below(directory)) = self.place(directory) {
            self.below.expect(&directory);
        }
    }
}
