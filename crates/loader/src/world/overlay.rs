//! A world with planned changes on top.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use super::{Errno, FileId, Opened, World};
use crate::Object;

/// A world with planned changes on top, to simulate a plan before it is applied. Nothing is
/// written. Paths are absolute.
pub struct Overlay<'a> {
    below: &'a dyn World,
    replaced: HashMap<FileId, Arc<Object>>,
    /// What is new, by the real path of its directory and its name.
    added: HashMap<PathBuf, Node>,
    real_directories: RwLock<HashMap<PathBuf, Result<PathBuf, Errno>>>,
}

/// Something new.
#[derive(Debug, Clone)]
enum Node {
    File(Box<Opened>),
    Link(PathBuf),
    Directory,
}

/// Where a path leads.
enum Place<'a> {
    New(PathBuf, &'a Node),
    /// To this path of the world below; links that are new are followed already.
    Below(PathBuf),
}

/// As many links as the kernel follows (`MAXSYMLINKS` in linux/namei.h).
const LINKS: usize = 40;

impl<'a> Overlay<'a> {
    /// `below`, unchanged so far.
    pub fn new(below: &'a dyn World) -> Overlay<'a> {
        Overlay {
            below,
            replaced: HashMap::new(),
            added: HashMap::new(),
            real_directories: RwLock::default(),
        }
    }

    /// The file `id` will say what `object` says, under all of its paths.
    pub fn replace(&mut self, id: FileId, object: Object) {
        self.replaced.insert(id, Arc::new(object));
    }

    /// There will be a regular file at `path`, instead of what may be there.
    pub fn file(&mut self, path: &Path, object: Object) {
        // No device has this number, so that the file is another than all that exist.
        let id = FileId { device: u64::MAX, inode: self.added.len() as u64 };
        let identity = Some(object.identity());
        let object = Ok(Arc::new(object));
        self.add(path, Node::File(Box::new(Opened { id, set_user_id: false, identity, object })));
    }

    /// There will be a symbolic link to `target` at `path`, instead of what may be there.
    pub fn link(&mut self, path: &Path, target: &Path) {
        self.add(path, Node::Link(target.to_owned()));
    }

    /// There will be a directory at `path`, and directories above it.
    pub fn directory(&mut self, path: &Path) {
        let missing = path.ancestors().take_while(|each| self.below.is_directory(each) != Ok(true));
        for directory in missing.map(Path::to_owned).collect::<Vec<_>>().into_iter().rev() {
            if !self.is_directory(&directory).unwrap_or(false) {
                self.add(&directory, Node::Directory);
            }
        }
    }

    fn add(&mut self, path: &Path, node: Node) {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return };
        let above = self.real_path(above).unwrap_or_else(|_| above.to_owned());
        self.added.insert(above.join(name), node);
        self.real_directories.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Follows `path` through what is new.
    fn place(&self, path: &Path) -> Result<Place<'_>, Errno> {
        if self.added.is_empty() {
            return Ok(Place::Below(path.to_owned()));
        }
        self.follow(path, LINKS)
    }

    fn follow(&self, path: &Path, links: usize) -> Result<Place<'_>, Errno> {
        let Some(above) = path.parent() else { return Ok(Place::Below(path.to_owned())) };
        let real = match self.real_directory(above, links) {
            Ok(real) => real,
            // The world below says what is wrong.
            Err(Errno(libc::ENOENT)) => return Ok(Place::Below(path.to_owned())),
            Err(errno) => return Err(errno),
        };
        let Some(name) = path.file_name() else {
            return self.follow(real.parent().unwrap_or(&real), links);
        };
        let path = real.join(name);
        match self.added.get(&path) {
            None => Ok(Place::Below(path)),
            Some(Node::Link(_)) if links == 0 => Err(Errno(libc::ELOOP)),
            Some(Node::Link(target)) => self.follow(&real.join(target), links - 1),
            Some(node) => Ok(Place::New(path, node)),
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
            Place::New(real, Node::Directory) => Ok(real),
            Place::New(..) => Err(Errno(libc::ENOTDIR)),
            Place::Below(path) => match self.below.is_directory(&path) {
                Ok(true) => self.below.real_path(&path),
                Ok(false) => Err(Errno(libc::ENOTDIR)),
                Err(_) => Err(Errno(libc::ENOENT)),
            },
        }
    }

    /// The file with what is planned for it.
    fn changed(&self, mut opened: Opened) -> Opened {
        if let Some(object) = self.replaced.get(&opened.id) {
            opened.identity = Some(object.identity());
            opened.object = Ok(object.clone());
        }
        opened
    }
}

impl World for Overlay<'_> {
    fn open(&self, path: &Path) -> Result<Opened, Errno> {
        match self.place(path)? {
            Place::New(_, Node::File(opened)) => Ok(self.changed((**opened).clone())),
            Place::New(real, _) => {
                let object = Err(Arc::new(crate::ElfError::NotAFile));
                let id = FileId { device: u64::MAX, inode: real.as_os_str().len() as u64 };
                Ok(Opened { id, set_user_id: false, identity: None, object })
            }
            Place::Below(path) => Ok(self.changed(self.below.open(&path)?)),
        }
    }

    fn is_directory(&self, path: &Path) -> Result<bool, Errno> {
        match self.place(path)? {
            Place::New(_, node) => Ok(matches!(node, Node::Directory)),
            Place::Below(path) => self.below.is_directory(&path),
        }
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf, Errno> {
        match self.place(path)? {
            Place::New(real, _) => Ok(real),
            Place::Below(path) => self.below.real_path(&path),
        }
    }

    fn bytes(&self, path: &Path) -> Result<Arc<[u8]>, Errno> {
        match self.place(path)? {
            // Only libraries are planned, of which nobody asks the bytes.
            Place::New(..) => Err(Errno(libc::EIO)),
            Place::Below(path) => self.below.bytes(&path),
        }
    }

    fn gains_rights(&self, path: &Path) -> bool {
        match self.place(path) {
            Ok(Place::Below(path)) => self.below.gains_rights(&path),
            _ => false,
        }
    }

    fn lacks(&self, directory: &Path, name: &OsStr) -> bool {
        self.added.is_empty() && self.below.lacks(directory, name)
    }

    fn expect(&self, directory: &Path) {
        if let Ok(Place::Below(directory)) = self.place(directory) {
            self.below.expect(&directory);
        }
    }
}
