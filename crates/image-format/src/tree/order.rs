//! Which file's content comes first in the image.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{FileNodeId, FileNodeKind, FileTree, PathTarget, clean};

/// In which order files lie in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileOrder {
    /// All files with content.
    pub files: Vec<FileNodeId>,
    /// How many of them, the first, are a trace's.
    pub traced: usize,
    /// Which of the trace's paths, by its number, is which file: a file may have several names.
    pub named: Vec<(FileNodeId, usize)>,
}

impl FileTree {
    /// All files with content: first those of a trace, in its order, then the rest by path.
    pub fn order(&self, first: &[PathBuf]) -> FileOrder {
        let mut placed = vec![false; self.nodes.len()];
        let (mut order, mut named) = (Vec::new(), Vec::new());
        let mut place = |id: FileNodeId, order: &mut Vec<FileNodeId>| {
            if !std::mem::replace(&mut placed[id as usize], true) {
                order.push(id);
            }
        };
        let aliases = self.aliases(first);
        for (number, path) in first.iter().enumerate() {
            let found = aliases.iter().find_map(|(named, real)| {
                path.strip_prefix(named).ok().map(|below| real.join(below))
            });
            // A whole system may have been traced from the inside.
            let path = found.map_or_else(|| path.clone(), |path| self.in_use(&clean(&path)));
            if let PathTarget::Inside(id) = self.find(&path) {
                let node = &self.nodes[id as usize];
                if let FileNodeKind::File { .. } = node.kind {
                    let id = node.first_name.unwrap_or(id);
                    place(id, &mut order);
                    named.push((id, number));
                }
            }
        }
        let traced = order.len();
        self.files().for_each(|id| place(id, &mut order));
        FileOrder { files: order, traced, named }
    }

    /// What a path on disk is where the image is used.
    fn in_use(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(self.layout.base()) {
            Ok(below) => self.stands_for.join(below),
            Err(_) => path.to_owned(),
        }
    }

    /// Directories above the trace's paths that are another name of a packed path, and the packed
    /// path: `/home/me` may be a symbolic link. The packed paths come first.
    fn aliases(&self, first: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
        let packed = self.layout.paths();
        let mut aliases: Vec<_> = packed.iter().map(|path| (path.clone(), path.clone())).collect();
        let mut asked = HashSet::new();
        for path in first.iter().filter(|path| !self.layout.holds(path)) {
            for above in path.ancestors().skip(1) {
                if !asked.insert(above.to_owned()) {
                    break;
                }
                if let Some(packed) = packed.iter().find(|packed| is(above, packed)) {
                    aliases.push((above.to_owned(), packed.clone()));
                }
            }
        }
        aliases
    }
}

fn is(path: &Path, real: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| path == real)
}
