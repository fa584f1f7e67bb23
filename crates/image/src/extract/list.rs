//! What there is to unpack.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use image_format::squash::{ListingPosition, NodeKind, SquashImage, SquashNode};

use super::{BLOCK, ExtractError};

/// A path of the system has no more bytes (PATH_MAX).
const MOST_PATH: usize = 4095;
/// Bytes of all paths together: ten million files, of usual names. A small image can be made to
/// list any number.
const MOST_PATHS: usize = 1 << 30;

/// What is to be made, by its path from the directory.
#[derive(Default)]
pub(crate) struct ExtractList {
    /// Those above come first; the first is the directory itself.
    pub directories: Vec<(PathBuf, SquashNode)>,
    /// In the order in which their content is in the image.
    pub files: Vec<(PathBuf, SquashNode)>,
    /// Further names, and a name that the file has before.
    pub names: Vec<(PathBuf, PathBuf)>,
    pub links: Vec<(PathBuf, SquashNode)>,
    pub special: Vec<(PathBuf, SquashNode)>,
    /// How many of all of these.
    pub entries: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// What they take on a disk, without their holes.
    pub bytes_on_disk: u64,
}

/// A list that is being made.
struct ExtractWalk<'a> {
    image: &'a SquashImage,
    list: ExtractList,
    /// Directories that were seen: in an image that loops, one is seen twice.
    seen: HashSet<SquashNode>,
    /// The first names of what has several.
    first: HashMap<SquashNode, PathBuf>,
    /// Where in the image the content of each file begins.
    positions: Vec<u64>,
    /// Bytes of all paths so far.
    paths: usize,
}

impl ExtractList {
    /// All below some paths of an image; all of it if there are none.
    pub fn of(
        image: &SquashImage,
        file: &Path,
        paths: &[PathBuf],
    ) -> Result<ExtractList, ExtractError> {
        let mut walk = ExtractWalk {
            image,
            list: ExtractList::default(),
            seen: HashSet::new(),
            first: HashMap::new(),
            positions: Vec::new(),
            paths: 0,
        };
        walk.directory(PathBuf::new(), image.root())?;
        let mut paths = paths.iter().map(|path| below(path)).collect::<Result<Vec<_>, _>>()?;
        if paths.is_empty() {
            paths.push(PathBuf::new());
        }
        paths.sort();
        paths.dedup_by(|later, earlier| later.starts_with(earlier));
        for path in paths {
            let node = walk.lead_to(&path, file)?;
            walk.all_below(path, node)?;
        }
        let ExtractWalk { mut list, positions, .. } = walk;
        let mut files: Vec<_> = positions.into_iter().zip(list.files).collect();
        files.sort_by_key(|(position, _)| *position);
        list.files = files.into_iter().map(|(_, file)| file).collect();
        Ok(list)
    }
}

/// A path from the root, without what leads up.
fn below(path: &Path) -> Result<PathBuf, ExtractError> {
    let mut below = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => below.push(name),
            Component::RootDir | Component::CurDir => {}
            _ => return Err(ExtractError::unfit(path, "a path in an image has no '..'")),
        }
    }
    Ok(below)
}

impl ExtractWalk<'_> {
    /// The directories above a path, and what is there.
    fn lead_to(&mut self, path: &Path, file: &Path) -> Result<SquashNode, ExtractError> {
        let mut at = PathBuf::new();
        let mut node = self.image.root();
        for name in path {
            if !at.as_os_str().is_empty() && !self.seen.contains(&node) {
                self.directory(at.clone(), node)?;
            }
            at.push(name);
            let there = match self.kind(&at, node)? {
                NodeKind::Directory => self.image.lookup(node, name.as_bytes()),
                _ => Ok(None),
            };
            let there = there.map_err(ExtractError::read(&at))?;
            let missing = || ExtractError::unfit(path, format!("is not in {}", file.display()));
            node = there.ok_or_else(missing)?;
        }
        Ok(node)
    }

    fn kind(&self, path: &Path, node: SquashNode) -> Result<NodeKind, ExtractError> {
        Ok(self.image.attributes(node).map_err(ExtractError::read(path))?.kind)
    }

    fn directory(&mut self, path: PathBuf, node: SquashNode) -> Result<(), ExtractError> {
        if !self.seen.insert(node) {
            return Err(ExtractError::unfit(
                &path,
                "this directory has two names: the image is damaged",
            ));
        }
        self.list.entries += 1;
        self.list.bytes_on_disk += BLOCK;
        self.list.directories.push((path, node));
        Ok(())
    }

    fn all_below(&mut self, path: PathBuf, node: SquashNode) -> Result<(), ExtractError> {
        // A stack of our own: names may be nested deeper than a thread's stack is.
        let mut left = vec![(path, node)];
        while let Some((path, node)) = left.pop() {
            if path.as_os_str().len() > MOST_PATH {
                return Err(ExtractError::unfit(&path, "a path longer than any can be"));
            }
            let kind = self.kind(&path, node)?;
            if kind != NodeKind::Directory && self.is_further_name(&path, node)? {
                continue;
            }
            match kind {
                NodeKind::Directory => {
                    if !path.as_os_str().is_empty() {
                        self.directory(path.clone(), node)?;
                    }
                    self.list_directory(&path, node, &mut left)?;
                }
                NodeKind::File => self.file(path, node)?,
                NodeKind::Symlink => {
                    self.list.entries += 1;
                    self.list.links.push((path, node));
                }
                _ => {
                    self.list.entries += 1;
                    self.list.special.push((path, node));
                }
            }
        }
        Ok(())
    }

    fn list_directory(
        &mut self,
        path: &Path,
        node: SquashNode,
        left: &mut Vec<(PathBuf, SquashNode)>,
    ) -> Result<(), ExtractError> {
        let paths = &mut self.paths;
        let mut each = |entry: image_format::squash::SquashEntry| {
            let path = path.join(OsStr::from_bytes(&entry.name));
            *paths += path.as_os_str().len();
            left.push((path, entry.node));
            match *paths <= MOST_PATHS {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        let listed = self.image.list(node, ListingPosition::default(), &mut each);
        listed.map_err(ExtractError::read(path))?;
        match self.paths <= MOST_PATHS {
            true => Ok(()),
            false => Err(ExtractError::unfit(path, "there are too many names in the image")),
        }
    }

    /// Whether this is another name of what has one on the list already.
    fn is_further_name(&mut self, path: &Path, node: SquashNode) -> Result<bool, ExtractError> {
        if self.image.attributes(node).map_err(ExtractError::read(path))?.names < 2 {
            return Ok(false);
        }
        match self.first.entry(node) {
            Entry::Occupied(first) => {
                self.list.names.push((path.to_owned(), first.get().clone()));
                Ok(true)
            }
            Entry::Vacant(place) => {
                place.insert(path.to_owned());
                Ok(false)
            }
        }
    }

    fn file(&mut self, path: PathBuf, node: SquashNode) -> Result<(), ExtractError> {
        let read = |error| ExtractError::read(&path)(error);
        let content = self.image.open(node).map_err(read)?;
        // Not what the inode says of its holes: what its blocks are.
        let stored = content.stored(self.image.block_size());
        self.list.entries += 1;
        self.list.bytes = self.list.bytes.saturating_add(content.size());
        self.list.bytes_on_disk =
            self.list.bytes_on_disk.saturating_add(stored.next_multiple_of(BLOCK));
        self.positions.push(self.image.position(&content).map_err(read)?);
        self.list.files.push((path, node));
        Ok(())
    }
}
