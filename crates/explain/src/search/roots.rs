//! Which part of a path is a directory of a search list, and which the name that is searched in it.
//!
//! `/opt/a/perl5/Foo/Bar.pm` that is not there may be `Foo/Bar.pm` in `/opt/a/perl5`, `Bar.pm` in
//! `/opt/a/perl5/Foo`, `perl5/Foo/Bar.pm` in `/opt/a`. It is what others were tried for, too: each
//! way to split a path counts by the number of directories in which the same name was tried, and a
//! path's directory is the one whose names were tried in most. `DESCRIPTION` was tried in a directory of each
//! package and each library, and is no name for that: what a variable names goes before.

use std::collections::{HashMap, HashSet};

use recording::PathId;

/// A directory that a variable names counts so many times.
const DECLARED: u64 = 2;
/// No name that is searched has more components.
const DEEPEST: usize = 6;

/// What is known of all splits.
pub(super) struct ListRoots<'a, 'd> {
    /// In how many directories a relative name was tried.
    tried: HashMap<&'a [u8], u64>,
    /// The same, summed over the names that were tried in a directory.
    score: HashMap<&'a [u8], u64>,
    declared: &'d HashSet<Vec<u8>>,
}

impl<'a, 'd> ListRoots<'a, 'd> {
    /// Of these paths, none of which is there.
    pub fn of(
        missing: impl Iterator<Item = (PathId, &'a [u8])>,
        declared: &'d HashSet<Vec<u8>>,
    ) -> ListRoots<'a, 'd> {
        let mut seen = HashSet::new();
        let paths: Vec<_> = missing.filter(|(id, _)| seen.insert(*id)).collect();
        let mut names: HashMap<&[u8], u64> = HashMap::new();
        for (_, path) in &paths {
            *names.entry(crate::survey::split(path).1).or_default() += 1;
        }
        let is_searched = |path: &[u8]| names[crate::survey::split(path).1] >= 2;
        let paths: Vec<_> = paths.into_iter().filter(|(_, path)| is_searched(path)).collect();
        let mut roots = ListRoots { tried: HashMap::new(), score: HashMap::new(), declared };
        for (_, path) in &paths {
            for (_, name) in splits(path) {
                *roots.tried.entry(name).or_default() += 1;
            }
        }
        for (_, path) in &paths {
            for (root, name) in splits(path) {
                let tried = roots.tried[name];
                if tried >= 2 {
                    *roots.score.entry(root).or_default() += tried;
                }
            }
        }
        roots
    }

    /// The directory and the name of a path that is not there; none where the name was tried
    /// nowhere else, unless a variable names the directory, and other names were: the second directory may have had it.
    pub fn split(&self, path: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let is_tried = |(_, name): &(&[u8], &[u8])| self.tried.get(name).is_some_and(|n| *n >= 2);
        let worth = |(root, _): &(&[u8], &[u8])| {
            let is_declared = self.declared.contains(*root);
            let times = if is_declared { DECLARED } else { 1 };
            (self.score.get(root).copied().unwrap_or(0) * times, is_declared)
        };
        let tried: Vec<_> = splits(path).filter(is_tried).collect();
        // Of equals the last one is taken: the deepest.
        let tried = tried.into_iter().rev().max_by_key(worth);
        tried.or_else(|| splits(path).find(|split| self.has(split.0) && worth(split).1))
    }

    /// Whether names were searched in a directory.
    pub fn has(&self, root: &[u8]) -> bool {
        self.score.contains_key(root)
    }
}

/// All ways to split a path, the deepest directory first.
pub(super) fn splits(path: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let slashes = (1..path.len()).rev().filter(|at| path[*at] == b'/');
    slashes.take(DEEPEST).map(|at| (&path[..at], &path[at + 1..]))
}

/// What a search is for, whichever of its files is tried: `Foo/Bar` for `Foo/Bar.pm` and
/// `Foo/Bar.pmc`, `name` for `name.js` and `name/package.json`, `x` for `x/init.lua`.
pub fn stem(name: &[u8]) -> &[u8] {
    let (above, last) = crate::survey::split(name);
    // What a directory is entered by: Lua, Node, Python, R, Tcl.
    const ENTRANCES: [&[u8]; 6] =
        [b"init", b"index", b"package", b"__init__", b"DESCRIPTION", b"pkgIndex"];
    let base = match last.iter().skip(1).position(|byte| *byte == b'.') {
        Some(dot) => &last[..dot + 1],
        None => last,
    };
    match above.is_empty() {
        false if ENTRANCES.contains(&base) => above,
        _ => &name[..name.len() - last.len() + base.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_one_search_tries_have_one_stem() {
        let names = ["x.js", "x.json", "x/package.json", "x/index.js", "x", "x.so.1"];
        assert!(names.iter().all(|name| stem(name.as_bytes()) == b"x"));
        assert_eq!(stem(b"Foo/Bar.pm"), b"Foo/Bar");
        assert_eq!(stem(b".hidden"), b".hidden");
        assert_eq!(stem(b"index.js"), b"index");
    }

    #[test]
    fn the_directory_is_the_one_whose_names_were_tried_in_most_places() {
        let mut paths = Vec::new();
        for root in ["/p/a/lib/perl5", "/p/b/lib/perl5", "/usr/share/perl"] {
            for name in ["strict.pm", "Foo/Bar.pm", "Foo/Util.pm", "Baz/Util.pm"] {
                paths.push(format!("{root}/{name}"));
            }
        }
        let ids = paths.iter().enumerate().map(|(id, path)| (PathId(id as u32), path.as_bytes()));
        let none = HashSet::new();
        let roots = ListRoots::of(ids, &none);
        for path in &paths {
            let (root, _) = roots.split(path.as_bytes()).unwrap();
            assert!(root.ends_with(b"perl5") || root.ends_with(b"perl"), "{path}");
        }
        assert_eq!(roots.split(b"/p/a/alone"), None);
    }

    #[test]
    fn packages_that_are_searched_by_one_file_of_each_are_searched_in_what_a_variable_names() {
        let libraries: Vec<String> = (0..12).map(|number| format!("/r/l{number}")).collect();
        let declared = libraries.iter().map(|library| library.clone().into_bytes()).collect();
        let package = |library: &String, number| format!("{library}/pk{number}/DESCRIPTION");
        let all = libraries.iter().flat_map(|library| (0..10).map(|it| package(library, it)));
        let mut paths: Vec<String> = all.collect();
        paths.push("/etc/r/pk1/DESCRIPTION".to_owned());
        let ids = paths.iter().enumerate().map(|(id, path)| (PathId(id as u32), path.as_bytes()));
        let roots = ListRoots::of(ids, &declared);
        for path in &paths[..120] {
            let (root, _) = roots.split(path.as_bytes()).unwrap();
            assert!(declared.contains(root), "{path}");
        }
    }
}
