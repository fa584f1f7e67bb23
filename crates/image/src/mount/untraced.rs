//! Files of an image that nobody compared with their sources before the command started: each is
//! compared when its name is looked up, which the kernel asks for once. One that was edited in place
//! meanwhile is served as it is in the source, with its bytecode: so a command that takes another
//! way than the trace never runs old code, and pays only for what it uses.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use image_format::squash::{NodeKind, SquashAttributes, SquashNode};
use image_format::tree::seconds;
use serde::{Deserialize, Serialize};

use super::bytecode_dirs::{is_packed_unchecked, is_unchecked};
use super::compare::{SourceCheck, SourceIdentity, difference, differences};
use super::fresh::{BYTECODE, module};
use super::layer::ImageLayer;

/// No more is told: a message has room for so many numbers.
const MOST_TOLD: usize = 60_000;

/// What the kernel has asked for of an image, by the numbers of its nodes: files, and directories.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LookedUpNodes(Vec<u64>);

impl LookedUpNodes {
    /// The nodes.
    pub fn nodes(&self, layer: &ImageLayer) -> HashSet<SquashNode> {
        self.0.iter().map(|number| SquashNode::from_number(*number, &layer.image)).collect()
    }
}

/// What was looked up of these images by now, in their order; none of one: it may be anything. Nothing,
/// where that would be too long a list: whoever is told nothing compares all.
pub(super) fn looked_up(images: &[ImageLayer]) -> Vec<Option<LookedUpNodes>> {
    let of = |image: &ImageLayer| image.untraced()?.looked_up(image);
    let all: Vec<_> = images.iter().map(of).collect();
    let told: usize = all.iter().flatten().map(|nodes: &LookedUpNodes| nodes.0.len()).sum();
    if told > MOST_TOLD { Vec::new() } else { all }
}

/// What is to be looked at when it is looked up.
#[derive(Debug, Default)]
pub(crate) struct UntracedFiles {
    /// Directories of the image, and where each was made of.
    pub directories: HashMap<SquashNode, PathBuf>,
    /// Those of bytecode, and the directory of their sources: in the image, and what it was made of.
    pub bytecode: HashMap<SquashNode, (SquashNode, PathBuf)>,
    /// Directories of sources below one that may have been renamed to where it is: times say nothing of
    /// what is in them.
    pub moved: HashSet<SquashNode>,
    /// Files that were compared already.
    pub known: HashSet<SquashNode>,
    /// What was looked up by now; none: another process has served it before, and nobody knows.
    looked_up: Option<Mutex<HashSet<SquashNode>>>,
    /// Files that are served from the source.
    edited: Edited,
    /// Directories of bytecode that were looked at, and whether they decide something else by now.
    bytecode_found: Mutex<HashMap<SquashNode, bool>>,
}

#[derive(Debug, Default)]
struct Edited {
    /// Without any, nobody waits for the others.
    are_there: AtomicBool,
    files: Mutex<HashMap<SquashNode, Arc<EditedFile>>>,
    /// Modules, by the path of their source without its end.
    modules: Mutex<HashSet<PathBuf>>,
}

/// A file that has changed since it was packed.
#[derive(Debug)]
pub(crate) struct EditedFile {
    /// None: this user may not read it.
    content: Option<File>,
    size: u64,
    mtime: u32,
    mode: u16,
}

impl EditedFile {
    /// What stat(2) says of it now.
    pub fn apply(&self, packed: &mut SquashAttributes) {
        (packed.size, packed.mtime, packed.mode) = (self.size, self.mtime, self.mode);
    }

    /// Its content from an offset on.
    ///
    /// # Errors
    /// Where it cannot be read; `PermissionDenied`: this user may not.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let content = self.content.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
        let mut length = 0;
        while length < buffer.len() {
            match content.read_at(&mut buffer[length..], offset + length as u64)? {
                0 => break,
                read => length += read,
            }
        }
        Ok(length)
    }
}

impl UntracedFiles {
    /// None yet.
    pub fn new() -> UntracedFiles {
        UntracedFiles { looked_up: Some(Mutex::default()), ..UntracedFiles::default() }
    }

    fn looked_up(&self, layer: &ImageLayer) -> Option<LookedUpNodes> {
        let nodes = self.looked_up.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(LookedUpNodes(nodes.iter().map(|node| node.number(&layer.image)).collect()))
    }

    /// What is known of what lies in a directory of sources.
    fn identity_below(&self, directory: SquashNode) -> SourceIdentity {
        match self.moved.contains(&directory) {
            true => SourceIdentity::Other,
            false => SourceIdentity::Unknown,
        }
    }

    /// Before it is compared: whoever is not told of it comes before that, too.
    fn is_being_looked_up(&self, node: SquashNode) {
        if let Some(nodes) = &self.looked_up {
            nodes.lock().unwrap_or_else(PoisonError::into_inner).insert(node);
        }
    }

    /// The same, of which nothing has been looked up.
    pub fn again(&self) -> UntracedFiles {
        UntracedFiles {
            directories: self.directories.clone(),
            bytecode: self.bytecode.clone(),
            moved: self.moved.clone(),
            known: self.known.clone(),
            ..UntracedFiles::default()
        }
    }

    /// Looks at all of them, for whoever does not know which have been looked up.
    ///
    /// # Errors
    /// Where one has changed, and cannot be opened.
    pub fn look_at_all(&self, layer: &ImageLayer) -> io::Result<()> {
        let (mut names, mut checks) = (Vec::new(), Vec::new());
        for (directory, path) in &self.directories {
            for entry in layer.entries(*directory) {
                if entry.kind == NodeKind::File
                    && !self.known.contains(&entry.node)
                    && let Ok(packed) = layer.image.attributes(entry.node)
                {
                    let path = path.join(OsStr::from_bytes(&entry.name));
                    let source = self.identity_below(*directory);
                    checks.push(SourceCheck { path, node: entry.node, packed, source });
                    names.push((*directory, entry));
                }
            }
        }
        let differences = differences(layer, &checks);
        for ((directory, entry), _) in
            names.iter().zip(differences).filter(|(_, answer)| answer.how.is_some())
        {
            self.look(layer, *directory, OsStr::from_bytes(&entry.name), entry.node)?;
        }
        for directory in self.bytecode.keys() {
            for entry in layer.entries(*directory) {
                self.look(layer, *directory, OsStr::from_bytes(&entry.name), entry.node)?;
            }
        }
        Ok(())
    }

    /// A name in a directory is looked up, and leads to this node. False: it is gone in the source,
    /// and must not be served.
    ///
    /// # Errors
    /// Where it has changed, and cannot be opened.
    pub fn look(
        &self,
        layer: &ImageLayer,
        directory: SquashNode,
        name: &OsStr,
        node: SquashNode,
    ) -> io::Result<bool> {
        let source = self.identity_below(directory);
        if let Some(directory) = self.directories.get(&directory) {
            if self.known.contains(&node) {
                return Ok(true);
            }
            self.is_being_looked_up(node);
            let path = directory.join(name);
            if self.compare(layer, &path, node, source)? == Some(false)
                && name.as_bytes().ends_with(b".py")
            {
                let mut modules =
                    self.edited.modules.lock().unwrap_or_else(PoisonError::into_inner);
                modules.insert(path.with_extension(""));
            }
        } else if let Some((of, sources)) = self.bytecode.get(&directory)
            && let Some(module) = module(name.as_bytes())
        {
            self.is_being_looked_up(directory);
            let kept = sources.join(OsStr::from_bytes(BYTECODE));
            let path = kept.join(name);
            let source = self.identity_below(*of);
            let is_edited = self.edited.are_there.load(Ordering::Acquire) && {
                let source = sources.join(OsStr::from_bytes(module));
                let modules = self.edited.modules.lock().unwrap_or_else(PoisonError::into_inner);
                modules.contains(&source)
            };
            // A source that is a link is compared where that leads, and may be in another directory.
            let is_linked_to_edited = || {
                let source = [module, b".py"].concat();
                let packed = layer.image.lookup(*of, &source).ok().flatten();
                let packed = packed.and_then(|packed| layer.image.attributes(packed).ok());
                packed.is_some_and(|packed| packed.kind == NodeKind::Symlink)
                    && fs::metadata(sources.join(OsStr::from_bytes(&source)))
                        .is_ok_and(|there| layer.is_touched(&there))
            };
            // Such as Python takes without a look at its source, and may be written over in place.
            let decides = || {
                is_packed_unchecked(layer, node)
                    || self.is_other_bytecode(layer, directory, &kept)
                        && is_unchecked(&path).is_ok_and(|unchecked| unchecked)
            };
            if is_edited || is_linked_to_edited() || decides() {
                return Ok(self.compare(layer, &path, node, source)?.is_some());
            }
        }
        Ok(true)
    }

    /// Whether a directory of bytecode decides something else by now. Looked at once.
    fn is_other_bytecode(&self, layer: &ImageLayer, node: SquashNode, kept: &Path) -> bool {
        if self.known.contains(&node) {
            return false;
        }
        let mut found = self.bytecode_found.lock().unwrap_or_else(PoisonError::into_inner);
        *found.entry(node).or_insert_with(|| {
            let source = SourceIdentity::Unknown;
            layer.image.attributes(node).is_ok_and(|packed| {
                let check = SourceCheck { path: kept.to_owned(), node, packed, source };
                difference(layer, &check).how.is_some()
            })
        })
    }

    /// Whether a file is as it was packed; none: it is gone. One that is not is served as it is now.
    fn compare(
        &self,
        layer: &ImageLayer,
        path: &Path,
        node: SquashNode,
        source: SourceIdentity,
    ) -> io::Result<Option<bool>> {
        let packed = layer.image.attributes(node).map_err(io::Error::other)?;
        if packed.kind != NodeKind::File {
            return Ok(Some(true));
        }
        let check = SourceCheck { path: path.to_owned(), node, packed, source };
        if difference(layer, &check).how.is_none() {
            return Ok(Some(true));
        }
        let (content, there) = match File::open(path) {
            // Taken away since the command started: it is as it was then.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // It is seen, as in a directory, and cannot be read.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                (None, fs::symlink_metadata(path)?)
            }
            content => {
                let content = content?;
                let there = content.metadata()?;
                (Some(content), there)
            }
        };
        if !there.is_file() {
            return Ok(None);
        }
        let edited = EditedFile {
            content,
            size: there.len(),
            mtime: seconds(there.mtime()),
            mode: (there.mode() & 0o7777) as u16,
        };
        let mut files = self.edited.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(node, Arc::new(edited));
        self.edited.are_there.store(true, Ordering::Release);
        Ok(Some(false))
    }

    /// The source of a file that has changed since.
    pub fn edited(&self, node: SquashNode) -> Option<Arc<EditedFile>> {
        if !self.edited.are_there.load(Ordering::Acquire) {
            return None;
        }
        self.edited.files.lock().unwrap_or_else(PoisonError::into_inner).get(&node).cloned()
    }
}
