//! Where a path leads, each symbolic link on the way followed step by step.
//!
//! The text of a path says little: a link in a directory leads elsewhere, and where a link dangles,
//! anything may be tomorrow. So each step must lie in the given paths, or above one of them and be a
//! directory; a link lies in them, too, and leads somewhere today.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::farm::FOR_HARDWARE;

/// Links that one path may go through (Linux: MAXSYMLINKS).
const LINKS: usize = 40;

/// Directories below each other that hold variants of a library: glibc up to 2.36 combines them.
const DEPTH: usize = 3;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To this file or directory, which has no link in its path.
    Within(PathBuf),
    /// To nothing, where something could only be put in the given paths.
    Absent,
    /// Out of the given paths somewhere, or nobody can say where.
    Astray,
}

/// Where an absolute path without `$` leads, seen from these directories, whose own paths have no
/// links.
pub(super) fn way(path: &Path, within: &[PathBuf]) -> Way {
    let is_held = |path: &Path| within.iter().any(|root| path.starts_with(root));
    if !path.is_absolute() {
        return Way::Astray;
    }
    // The next part is the last.
    let mut left: Vec<OsString> = parts(path);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        if !is_held(&next) && !within.iter().any(|root| root.starts_with(&next)) {
            return Way::Astray;
        }
        let seen = match fs::symlink_metadata(&next) {
            Ok(seen) => seen,
            // What comes to be there may be any directory: what is above it is not known.
            Err(error) if error.kind() == ErrorKind::NotFound && is_held(&next) => {
                return if left.iter().any(|part| part == "..") {
                    Way::Astray
                } else {
                    Way::Absent
                };
            }
            Err(_) => return Way::Astray,
        };
        if !seen.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        // One that leads nowhere today may lead anywhere tomorrow.
        let leads = is_held(&next) && links <= LINKS && fs::metadata(&next).is_ok();
        let Some(target) = fs::read_link(&next).ok().filter(|_| leads) else { return Way::Astray };
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        left.extend(parts(&target));
    }
    if is_held(&at) { Way::Within(at) } else { Way::Astray }
}

/// The parts of a path, the first one last.
fn parts(path: &Path) -> Vec<OsString> {
    let named = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(named).map(|part| part.as_os_str().to_owned()).rev().collect()
}

/// The directories that lists name, each looked at once.
#[derive(Debug)]
pub(super) struct Ways<'a> {
    within: &'a [PathBuf],
    known: Mutex<HashMap<PathBuf, Arc<WalkedDirectory>>>,
}

/// A directory of a list.
#[derive(Debug)]
struct WalkedDirectory {
    way: Way,
    /// The names in it, sorted.
    names: Vec<OsString>,
}

impl<'a> Ways<'a> {
    pub fn new(within: &'a [PathBuf]) -> Ways<'a> {
        Ways { within, known: Mutex::default() }
    }

    pub fn within(&self) -> &'a [PathBuf] {
        self.within
    }

    /// Whether a directory of a list is one of those below the paths, or none, for good.
    pub fn holds(&self, directory: &Path) -> bool {
        self.listed(directory).way != Way::Astray
    }

    /// Whether a search for `name` in these directories, one after the other, comes to this very
    /// file, and no directory or link on the way, up to there, leads out of the paths.
    pub fn lead_to(&self, directories: &[PathBuf], name: &OsStr, file: &Path) -> bool {
        let Ok(file) = file.canonicalize() else { return false };
        for directory in directories {
            let listed = self.listed(directory);
            let Way::Within(real) = &listed.way else {
                match listed.way {
                    Way::Absent => continue,
                    _ => return false,
                }
            };
            if self.may_have_variants(real, name, DEPTH) {
                return false;
            }
            match self.of(&listed, real, name) {
                Way::Within(real) if real == file => return true,
                Way::Within(_) | Way::Absent => {}
                Way::Astray => return false,
            }
        }
        false
    }

    fn of(&self, listed: &WalkedDirectory, real: &Path, name: &OsStr) -> Way {
        match listed.has(name) {
            true => way(&real.join(name), self.within),
            false => Way::Absent,
        }
    }

    /// Whether a directory for some hardware has that name, or leads out of the paths: another
    /// processor, or another day, may prefer what is in it.
    fn may_have_variants(&self, directory: &Path, name: &OsStr, depth: usize) -> bool {
        let listed = self.listed(directory);
        let is_root = depth == DEPTH;
        let below: Vec<&OsStr> = match is_root {
            true => FOR_HARDWARE.iter().map(OsStr::new).filter(|it| listed.has(it)).collect(),
            false => listed.names.iter().map(OsString::as_os_str).collect(),
        };
        below.into_iter().map(|it| directory.join(it)).any(|below| {
            if !is_root && below.file_name() == Some(name) {
                return true;
            }
            match &self.listed(&below).way {
                Way::Within(real) => depth > 0 && self.may_have_variants(real, name, depth - 1),
                Way::Absent => false,
                Way::Astray => is_root || !is_library(&below),
            }
        })
    }

    fn listed(&self, directory: &Path) -> Arc<WalkedDirectory> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = known.entry(directory.to_owned());
        Arc::clone(listed.or_insert_with(|| Arc::new(WalkedDirectory::of(directory, self.within))))
    }
}

/// Whether a name is a library's rather than that of a directory for some hardware.
fn is_library(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    crate::object::is_library_name(path.file_name().unwrap_or_default().as_bytes())
}

impl WalkedDirectory {
    fn has(&self, name: &OsStr) -> bool {
        self.names.binary_search_by(|it| (**it).cmp(name)).is_ok()
    }

    fn of(directory: &Path, within: &[PathBuf]) -> WalkedDirectory {
        let mut listed = WalkedDirectory { way: way(directory, within), names: Vec::new() };
        let Way::Within(real) = &listed.way else { return listed };
        let entries = match fs::read_dir(real) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotADirectory => return listed,
            Err(_) => return WalkedDirectory { way: Way::Astray, ..listed },
        };
        listed.names = entries.flatten().map(|entry| entry.file_name()).collect();
        listed.names.sort_unstable();
        listed
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_way_ends_where_the_kernel_ends_and_strays_where_one_step_lies_elsewhere() {
        let scene = tempfile::tempdir().unwrap();
        let root = scene.path().canonicalize().unwrap();
        let (env, out) = (root.join("env"), root.join("out"));
        for directory in ["env/a/lib", "env/v1/lib", "out/v1/lib", "out/lib"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        symlink("v1", env.join("here")).unwrap();
        symlink(env.join("v1"), env.join("absolute")).unwrap();
        symlink(out.join("v1"), env.join("cur")).unwrap();
        symlink("../out/../env/v1", env.join("about")).unwrap();
        symlink("v2", env.join("dangles")).unwrap();
        symlink("circle", env.join("circle")).unwrap();
        symlink(&env, root.join("link")).unwrap();
        let way = |path: &str| way(&root.join(path), std::slice::from_ref(&env));
        let real = Way::Within(env.join("v1/lib"));
        for path in ["env/v1/lib", "env/here/lib", "env/absolute/lib", "env/a/../here/lib/."] {
            assert_eq!(way(path), real, "{path}");
        }
        for path in ["env/none/lib", "env/here/none", "env/a/lib/liby.so"] {
            assert_eq!(way(path), Way::Absent, "{path}");
        }
        let out = ["out/lib", "env/cur/lib", "env/cur/../lib", "env/about/lib", "link/a/lib"];
        for path in out.iter().chain(&["env/dangles/lib", "env/circle", "env/none/../a", "env/.."])
        {
            assert_eq!(way(path), Way::Astray, "{path}");
        }
    }
}
