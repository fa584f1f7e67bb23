//! Finds a path in a tree, through symbolic links, without asking the filesystem.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::{FileNodeId, FileNodeKind, FileTree};

/// Links that one path may go through (Linux: MAXSYMLINKS).
const LINKS: usize = 40;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathTarget {
    /// To a node of the tree.
    Inside(u32),
    /// Out of the tree: to this path.
    Outside(PathBuf),
    /// To nothing, or in circles.
    Nowhere,
}

impl FileTree {
    /// Where an absolute path leads where the image is used, with all symbolic links followed.
    /// Only links that are in the tree are seen.
    pub fn find(&self, path: &Path) -> PathTarget {
        let mut links = 0;
        let mut path = path.to_owned();
        'again: loop {
            let Ok(below) = path.strip_prefix(&self.stands_for) else {
                return PathTarget::Outside(path);
            };
            let mut at: FileNodeId = 0;
            let mut parts = below.components();
            while let Some(part) = parts.next() {
                match part {
                    Component::Normal(name) => {
                        let Some(next) = self.child(at, name.as_bytes()) else {
                            // In a directory that is only there in part, the rest is outside.
                            return match self.nodes[at as usize].is_above {
                                true => PathTarget::Outside(path.clone()),
                                false => PathTarget::Nowhere,
                            };
                        };
                        if let FileNodeKind::Symlink(target) = &self.nodes[next as usize].kind {
                            links += 1;
                            if links > LINKS {
                                return PathTarget::Nowhere;
                            }
                            let target = Path::new(std::ffi::OsStr::from_bytes(target));
                            let rest = parts.as_path().to_owned();
                            path = clean(&self.place(at).join(target).join(rest));
                            continue 'again;
                        }
                        at = next;
                    }
                    _ => return PathTarget::Nowhere,
                }
            }
            return PathTarget::Inside(at);
        }
    }

    /// What a directory has under a name.
    pub fn child(&self, directory: FileNodeId, name: &[u8]) -> Option<FileNodeId> {
        let FileNodeKind::Directory(children) = &self.nodes[directory as usize].kind else {
            return None;
        };
        let name_of = |id: &FileNodeId| &self.nodes[*id as usize].name[..];
        children.binary_search_by(|child| name_of(child).cmp(name)).ok().map(|at| children[at])
    }
}

/// The path without `.` and `..`. Where a component before a `..` is a symbolic link, that is
/// not what the kernel would find; such links are rare, and nothing is lost but a place in the
/// order or a line in a list.
pub fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean
}
