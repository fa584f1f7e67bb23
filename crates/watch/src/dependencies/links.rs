//! Names that are no links: what is looked at once as it is itself says all that a look through it says,
//! and of many names on a way one look says so.
//!
//! Tcl asks of each name on the way to a file whether it is a link. Where none is, one look at the last
//! of them says so of all (openat2(2)).

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2, readlink};
use rustix::io::Errno;

use super::{AnswerDependency, StatAttributes};

/// To open and to close takes two calls: more names than that are joined.
const TOGETHER: usize = 3;

/// Fewer dependencies that say the same.
pub(super) fn joined(mut dependencies: Vec<AnswerDependency>) -> Vec<AnswerDependency> {
    look_at_itself(&mut dependencies);
    let itself: HashMap<CString, StatAttributes> =
        dependencies.iter().filter_map(looked_at_itself).collect();
    let mut kept = HashSet::new();
    dependencies.retain(|dependency| match dependency {
        AnswerDependency::Attributes { path, follow: false, told: Ok(told) }
            if itself.get(path) == Some(told) =>
        {
            kept.insert(path.clone())
        }
        AnswerDependency::Content { path, told }
        | AnswerDependency::Attributes { path, follow: true, told: Ok(told) } => {
            itself.get(path) != Some(told)
        }
        dependency => no_link(dependency).is_none_or(|path| !itself.contains_key(path)),
    });
    let links: HashSet<CString> =
        dependencies.iter().filter_map(no_link).map(CString::from).collect();
    let mut paths: Vec<&CString> = links.iter().filter(|path| is_plain(path)).collect();
    paths.sort_by_key(|path| (std::cmp::Reverse(path.count_bytes()), *path));
    let (mut whole, mut said) = (HashSet::new(), HashSet::new());
    for path in paths {
        let names: Vec<CString> = names(path).collect();
        let is_known = |name: &CString| links.contains(name) || itself.contains_key(name);
        let left = names.iter().filter(|name| links.contains(*name) && !said.contains(*name));
        if left.count() >= TOGETHER && names.iter().all(is_known) {
            whole.insert(path.clone());
            said.extend(names);
        }
    }
    let kept = dependencies.into_iter().filter_map(|dependency| match no_link(&dependency) {
        Some(path) if whole.contains(path) => {
            Some(AnswerDependency::NoLinks { path: path.to_owned() })
        }
        Some(path) if said.contains(path) => None,
        _ => Some(dependency),
    });
    kept.collect()
}

/// Of what is no link, one look at it says what both say.
fn look_at_itself(dependencies: &mut [AnswerDependency]) {
    let links: HashSet<CString> =
        dependencies.iter().filter_map(no_link).map(CString::from).collect();
    for dependency in dependencies {
        if let AnswerDependency::Content { path, told } = dependency
            && links.contains(path)
        {
            let (path, told) = (std::mem::take(path), Ok(*told));
            *dependency = AnswerDependency::Attributes { path, follow: false, told };
        }
    }
}

/// What was told of a path itself, where it is no link.
fn looked_at_itself(dependency: &AnswerDependency) -> Option<(CString, StatAttributes)> {
    match dependency {
        AnswerDependency::Attributes { path, follow: false, told: Ok(told) }
            if told.mode & libc::S_IFMT != libc::S_IFLNK =>
        {
            Some((path.clone(), *told))
        }
        _ => None,
    }
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

/// The paths of the directories above one, but for the root, and its own.
fn names(path: &CStr) -> impl Iterator<Item = CString> {
    let bytes = path.to_bytes();
    let ends = bytes.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
    let above = ends.filter_map(|(end, _)| CString::new(&bytes[..end]).ok());
    above.chain([path.to_owned()])
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
        let [a, ab, abc, abd, ef] = [c"/a", c"/a/b", c"/a/b/c", c"/a/b/d", c"/e/../f"];
        // Of `/g` and `/g/h` nothing is known.
        let asked = [a, ab, abd, abc, ef, c"/g/h/i"].map(link);
        let whole = AnswerDependency::NoLinks { path: abc.to_owned() };
        assert_eq!(joined(asked.into()), [link(abd), whole, link(ef), link(c"/g/h/i")]);
    }

    #[test]
    fn what_is_looked_at_itself_and_is_no_link_is_looked_at_once() {
        let about = |path: &CStr, follow| AnswerDependency::Attributes {
            path: path.to_owned(),
            follow,
            told: StatAttributes::of(path, follow).map_err(Errno::raw_os_error),
        };
        let content = |path: &CStr| AnswerDependency::Content {
            path: path.to_owned(),
            told: StatAttributes::of(path, true).unwrap(),
        };
        let scene = tempfile::tempdir().unwrap();
        symlink(scene.path(), scene.path().join("link")).unwrap();
        let (directory, to_it) = (path(scene.path()), path(&scene.path().join("link")));
        let (directory, to_it) = (directory.as_c_str(), to_it.as_c_str());
        let all = |path| vec![content(path), link(path), about(path, false), about(path, true)];
        assert_eq!(joined(all(directory)), [about(directory, false)]);
        let read = vec![link(directory), content(directory)];
        assert_eq!(joined(read), [about(directory, false)]);
        // A link may come to lead elsewhere, and what it leads to may change.
        let mut through = all(to_it);
        through.remove(1);
        assert_eq!(joined(through.clone()), through);
        // Two looks with a change in between.
        let mut other = about(directory, false);
        if let AnswerDependency::Attributes { told: Ok(told), .. } = &mut other {
            told.size += 1;
        }
        assert_eq!(joined(vec![content(directory), other.clone()]), [content(directory), other]);
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
