//! Names that are no links, many of them on the way to one: looked at by one call.
//!
//! Tcl asks of each name on the way to a file whether it is a link. Where none is, one look at the last
//! of them says so of all (openat2(2)).

use std::collections::{BTreeSet, HashSet};
use std::ffi::{CStr, CString};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2, readlink};
use rustix::io::Errno;

use super::AnswerDependency;

/// The same dependencies: of paths of which no name is a link, the longest says so.
pub(super) fn joined(dependencies: Vec<AnswerDependency>) -> Vec<AnswerDependency> {
    let no_links: HashSet<&CStr> = dependencies.iter().filter_map(no_link).collect();
    let is_whole = |path: &CStr| names(path).all(|way| no_links.contains(way.as_c_str()));
    let whole: BTreeSet<CString> = no_links
        .iter()
        .filter(|path| is_plain(path) && is_whole(path))
        .map(|path| CString::from(*path))
        .collect();
    let above: HashSet<CString> = whole.iter().flat_map(|path| ways(path)).collect();
    let mut kept: Vec<AnswerDependency> = Vec::with_capacity(dependencies.len());
    for dependency in dependencies {
        match no_link(&dependency) {
            Some(path) if above.contains(path) => {}
            Some(path) if whole.contains(path) && names(path).count() > 1 => {
                kept.push(AnswerDependency::NoLinks { path: path.to_owned() });
            }
            _ => kept.push(dependency),
        }
    }
    kept
}

/// The path that a dependency says is there and no link.
fn no_link(dependency: &AnswerDependency) -> Option<&CStr> {
    match dependency {
        AnswerDependency::Link { path, told: Err(libc::EINVAL) } => Some(path),
        _ => None,
    }
}

/// Whether a path is spelled in one way only.
fn is_plain(path: &CStr) -> bool {
    let mut names = path.to_bytes().split(|byte| *byte == b'/');
    names.next() == Some(b"") && names.all(|name| !matches!(name, b"" | b"." | b".."))
}

/// The paths of the directories above one, but for the root.
fn ways(path: &CStr) -> impl Iterator<Item = CString> {
    let bytes = path.to_bytes();
    let ends = bytes.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
    ends.filter_map(|(end, _)| CString::new(&bytes[..end]).ok())
}

/// The same, and the path itself.
fn names(path: &CStr) -> impl Iterator<Item = CString> {
    ways(path).chain([path.to_owned()])
}

/// Whether a path leads to something, and no name of it is a link.
pub(super) fn has_no_links(path: &CStr) -> bool {
    let looked = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, path, looked, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(_) => true,
        // Before Linux 5.6, and where a filter does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            names(path).all(|way| readlink(&way, Vec::new()) == Err(Errno::INVAL))
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn path(path: &Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).unwrap()
    }

    fn link(path: &CStr) -> AnswerDependency {
        AnswerDependency::Link { path: path.to_owned(), told: Err(libc::EINVAL) }
    }

    #[test]
    fn the_last_of_names_that_are_no_links_says_so_of_all_above() {
        let [a, ab, abc, ad, e, ef] = [c"/a", c"/a/b", c"/a/b/c", c"/a/d", c"/e", c"/e/../f"];
        // Of `/g` nothing is known.
        let asked = [a, ab, e, abc, ad, ef, c"/g/h"].map(link);
        let whole = |path: &CStr| AnswerDependency::NoLinks { path: path.to_owned() };
        let left = [link(e), whole(abc), whole(ad), link(ef), link(c"/g/h")];
        assert_eq!(joined(asked.into()), left);
    }

    #[test]
    fn a_link_anywhere_on_the_way_is_seen_and_so_is_what_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let deep = root.join("a/b/c");
        std::fs::create_dir_all(&deep).unwrap();
        assert!(has_no_links(&path(&deep)));
        std::fs::rename(root.join("a"), root.join("real")).unwrap();
        assert!(!has_no_links(&path(&deep)));
        symlink("real", root.join("a")).unwrap();
        assert!(!has_no_links(&path(&deep)));
        assert!(has_no_links(&path(&root.join("real/b/c"))));
        symlink("c", root.join("real/b/last")).unwrap();
        assert!(!has_no_links(&path(&root.join("real/b/last"))));
    }
}
