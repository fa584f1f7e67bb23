//! Finds a path in a tree, through symbolic links, without asking the filesystem.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::{Id, Kind, Tree};

/// Links that one path may go through (Linux: MAXSYMLINKS).
const LINKS: usize = 40;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// To a node of the tree.
    Inside(u32),
    /// Out of the tree: to this path.
    Outside(PathBuf),
    /// To nothing, or in circles.
    Nowhere,
}

impl Tree {
    /// Where an absolute path leads where the image is used, with all symbolic links followed.
    /// Only links that are in the tree are seen.
    pub fn find(&self, path: &Path) -> Found {
        let mut links = 0;
        let mut path = path.to_owned();
        'again: loop {
            let Ok(below) = path.strip_prefix(&self.stands_for) else {
                return Found::Outside(path);
            };
            let mut at: Id = 0;
            let mut parts = below.components();
            while let Some(part) = parts.next() {
                match part {
                    Component::Normal(name) => {
                        let Some(next) = self.child(at, name.as_bytes()) else {
                            // In a directory that is only there in part, the rest is outside.
                            return match self.nodes[at as usize].is_above {
                                true => Found::Outside(path.clone()),
                                false => Found::Nowhere,
                            };
                        };
                        if let Kind::Symlink(target) = &self.nodes[next as usize].kind {
                            links += 1;
                            if links > LINKS {
                                return Found::Nowhere;
                            }
                            let target = Path::new(std::ffi::OsStr::from_bytes(target));
                            let rest = parts.as_path().to_owned();
                            path = clean(&self.place(at).join(target).join(rest));
                            continue 'again;
                        }
                        at = next;
                    }
                    _ => return Found::Nowhere,
                }
            }
            return Found::Inside(at);
        }
    }

    pub(super) fn child(&self, directory: Id, name: &[u8]) -> Option<Id> {
        let Kind::Directory(children) = &self.nodes[directory as usize].kind else { return None };
        let name_of = |id: &Id| &self.nodes[*id as usize].name[..];
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
