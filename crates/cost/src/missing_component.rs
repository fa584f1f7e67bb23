//! Which component of a path is the one that is not there.
//!
//! The kernel says ENOENT of a whole path, but its walk ended at the first component that is not
//! there, and that is the one it caches. The rest of the recording tells which one it was:
//!
//! - A directory that was ever found, or anything below it, is there.
//! - One that was looked up by itself, and never found, is not.
//! - Neither is one in which only directories were looked for, none of which is there: of
//!   `lib/glibc-hwcaps/x86-64-v3/` and its kin the loader looks up each, never the first.
//! - Neither is one below an entry of a search path in which nothing was found: perl looks for
//!   `File/Find.pm` in each directory of @INC, and `File/` is where the module is. An entry is a
//!   directory in which a file was looked for that was found in another. But where most names were
//!   looked for in the entry itself, too, the directory below it is an entry of its own:
//!   `PERL5LIB=/x:/x/lib1` looks for `/x/strict.pm`, then for `/x/lib1/strict.pm`.
//! - Neither is a package that another directory has, where packages are looked for by one of their
//!   files: R asks for `Matrix/DESCRIPTION` in each of its libraries, and for nothing else there.
//!
//! Where nothing tells, the last component is taken: one lookup for each name, which is the most
//! it can be.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::PathRequest;

/// Of fewer packages a directory is no library.
const PACKAGES: usize = 3;
/// A package is looked for by so many of its files at most, on average. In a directory that is there,
/// and that has nothing of a search, many names are tried.
const FILES_OF_A_PACKAGE: usize = 2;

/// What all the calls of a recording tell of each other's paths.
#[derive(Default)]
pub(crate) struct PathEvidence<'a> {
    found: FxHashSet<&'a [u8]>,
    missing: FxHashSet<&'a [u8]>,
}

impl<'a> PathEvidence<'a> {
    /// What these tell.
    pub(crate) fn of(requests: impl Iterator<Item = PathRequest<'a>>) -> PathEvidence<'a> {
        let mut evidence = PathEvidence::default();
        for request in requests {
            let path = trimmed(request.path);
            if request.enoent {
                evidence.missing.insert(path);
            } else {
                evidence.find(path);
            }
            if let Some(other) = request.other_path {
                evidence.find(above(trimmed(other)));
            }
        }
        evidence.miss_directories();
        evidence
    }

    /// Adds to what is missing the directories in which nothing was found, and either only
    /// directories were looked for or which are below an entry of a search path.
    fn miss_directories(&mut self) {
        let mut entries = self.search_entries();
        let libraries = self.libraries();
        entries.extend(&libraries);
        let nested = self.nested_entries();
        let PathEvidence { found, missing } = self;
        let mut searched: FxHashSet<&[u8]> = FxHashSet::default();
        for path in missing.iter() {
            let mut directory = above(path);
            while !directory.is_empty() && !found.contains(directory) && searched.insert(directory)
            {
                directory = above(directory);
            }
        }
        let mut looked_up: Vec<&[u8]> = searched.union(missing).copied().collect();
        // What lies in a directory comes before it.
        looked_up.sort_unstable_by_key(|path| std::cmp::Reverse(path.len()));
        // A library is there, though only packages were looked for in it.
        let mut only_directories: FxHashMap<&[u8], bool> =
            libraries.into_iter().map(|library| (library, false)).collect();
        for path in looked_up {
            let is_package = entries.contains(above(path)) && !nested.contains(path);
            if searched.contains(path) && is_package || only_directories.get(path) == Some(&true) {
                missing.insert(path);
            }
            let is_missing_directory = searched.contains(path) && missing.contains(path);
            *only_directories.entry(above(path)).or_insert(true) &= is_missing_directory;
        }
    }

    /// The directories in which a name was looked for in vain that another directory has.
    fn search_entries(&self) -> FxHashSet<&'a [u8]> {
        let found: FxHashSet<&[u8]> = self.found.iter().map(|path| name(path)).collect();
        let missing = self.missing.iter().filter(|path| found.contains(name(path)));
        missing.map(|path| above(path)).collect()
    }

    /// The directories in which packages were looked for in vain that others have, each by one or two
    /// of its files.
    fn libraries(&self) -> Vec<&'a [u8]> {
        let lost = || {
            let lost = self.missing.iter().filter(|path| !self.found.contains(above(path)));
            lost.map(|path| (in_package(path), *path))
        };
        let mut elsewhere: FxHashMap<&[u8], bool> = lost().map(|(file, _)| (file, false)).collect();
        for path in &self.found {
            if let Some(is_found) = elsewhere.get_mut(in_package(path)) {
                *is_found = true;
            }
        }
        let mut tried: FxHashMap<&[u8], (FxHashSet<&[u8]>, usize)> = FxHashMap::default();
        for (_, path) in lost().filter(|(file, _)| elsewhere[file]) {
            let (packages, files) = tried.entry(above(above(path))).or_default();
            packages.insert(above(path));
            *files += 1;
        }
        let is_library = |(packages, files): &(FxHashSet<&[u8]>, usize)| {
            packages.len() >= PACKAGES && *files <= packages.len() * FILES_OF_A_PACKAGE
        };
        tried.retain(|_, tried| is_library(tried));
        tried.into_keys().collect()
    }

    /// The directories in which most names were looked for that were missing in a directory above
    /// them, and what lies between the two. A few are no list's doing: perl looks for `Socket.pm` and
    /// for `IO/Socket.pm` in each entry. Nor is a directory an entry that was looked up itself and is
    /// not there.
    fn nested_entries(&self) -> FxHashSet<&'a [u8]> {
        let mut names: FxHashMap<&[u8], usize> = FxHashMap::default();
        let mut shared: FxHashMap<(&[u8], &[u8]), usize> = FxHashMap::default();
        let mut looked_for = Vec::new();
        for path in &self.missing {
            let lowest = above(path);
            *names.entry(lowest).or_default() += 1;
            let mut upper = if self.missing.contains(lowest) { b"" } else { above(lowest) };
            while !upper.is_empty() {
                looked_for.clear();
                looked_for.extend_from_slice(upper);
                looked_for.push(b'/');
                looked_for.extend_from_slice(name(path));
                if self.missing.contains(looked_for.as_slice()) {
                    *shared.entry((upper, lowest)).or_default() += 1;
                }
                upper = above(upper);
            }
        }
        shared.retain(|(upper, _), shared| *shared * 2 >= names[upper]);
        let between = |(upper, lowest): (&'a [u8], &'a [u8])| {
            std::iter::successors(Some(lowest), |path| Some(above(path)))
                .take_while(move |path| *path != upper)
        };
        shared.into_keys().flat_map(between).collect()
    }

    /// A path is there, and so is all that leads to it.
    fn find(&mut self, mut path: &'a [u8]) {
        while !path.is_empty() && self.found.insert(path) {
            path = above(path);
        }
    }

    /// The request, with its path cut after the component that was missing.
    pub(crate) fn cut(&self, request: PathRequest<'a>) -> PathRequest<'a> {
        if !request.enoent {
            return request;
        }
        let whole = request.path;
        let ends = (1..whole.len()).filter(|end| whole[*end] == b'/');
        let mut parts = ends.map(|end| &whole[..end]);
        let first = parts.find(|part| self.missing.contains(part) && !self.found.contains(part));
        PathRequest { path: first.unwrap_or(whole), ..request }
    }
}

/// The directory that holds this path; empty for a top directory.
fn above(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |end| trimmed(&path[..end]))
}

/// The last component.
fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// The last two components; all of a path that has fewer.
fn in_package(path: &[u8]) -> &[u8] {
    let package = above(path).len() - name(above(path)).len();
    &path[package..]
}

fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestKind;

    fn request(path: &str, missing: bool) -> PathRequest<'_> {
        PathRequest {
            kind: RequestKind::Attributes,
            path: path.as_bytes(),
            enoent: missing,
            other_path: None,
        }
    }

    fn cut(others: &[(&'static str, bool)], path: &'static str) -> String {
        let others = others.iter().chain(&[("/opt/there", false)]);
        let others = others.map(|(path, missing)| request(path, *missing));
        let evidence = PathEvidence::of(others.chain([request(path, true)]));
        String::from_utf8(evidence.cut(request(path, true)).path.to_vec()).unwrap()
    }

    #[test]
    fn a_directory_that_ended_with_enoent_ends_the_walk() {
        assert_eq!(cut(&[("/opt/hwcaps/", true)], "/opt/hwcaps/v3/libm.so"), "/opt/hwcaps");
    }

    #[test]
    fn a_directory_that_was_ever_found_or_anything_below_it_does_not() {
        let path = "/opt/lib/libm.so";
        assert_eq!(cut(&[("/opt/lib", true), ("/opt/lib", false)], path), path);
        assert_eq!(cut(&[("/opt/lib", true), ("/opt/lib/x/y", false)], path), path);
    }

    #[test]
    fn a_directory_in_which_only_directories_were_looked_for_and_not_found_is_not_there() {
        let others = [("/opt/hw/v3/", true), ("/opt/hw/v2/libm.so", true), ("/opt/hw/v2", true)];
        assert_eq!(cut(&others, "/opt/hw/v3/libm.so"), "/opt/hw");
        assert_eq!(cut(&[("/bin/a", true), ("/bin/b", true)], "/bin/c"), "/bin/c", "files");
    }

    #[test]
    fn a_directory_below_an_entry_of_a_search_path_in_which_nothing_was_found_is_not_there() {
        let found = [("/usr/perl/POSIX.pm", false), ("/opt/inc/POSIX.pm", true)];
        let path = "/opt/inc/File/Spec/Unix.pm";
        assert_eq!(cut(&found, path), "/opt/inc/File");
        assert_eq!(cut(&[found[0], ("/opt/inc/Storable.pm", true)], path), path, "no entry");
        let other = [&found[..], &[("/opt/inc/File/Find.pm", false)]].concat();
        assert_eq!(cut(&other, "/opt/inc/File/Spec.pm"), "/opt/inc/File/Spec.pm", "it is there");
    }

    #[test]
    fn a_package_that_another_library_has_is_what_is_not_there() {
        let missing = |package| (["/l1/a/DESCRIPTION", "/l1/b/DESCRIPTION"][package], true);
        let has = |package| (["/l2/a/DESCRIPTION", "/l2/b/DESCRIPTION"][package], false);
        let path = "/l1/c/DESCRIPTION";
        let found = ("/l2/c/DESCRIPTION", false);
        let all = [missing(0), missing(1), has(0), has(1), found];
        assert_eq!(cut(&all, path), "/l1/c");
        assert_eq!(cut(&all[1..], path), path, "two packages are no library");
        assert_eq!(cut(&[&all[..], &[("/l1/c/x", false)]].concat(), path), path, "it is there");
    }

    #[test]
    fn a_directory_in_which_many_names_were_tried_is_there() {
        let mut all = Vec::new();
        for directory in ["a", "b", "c"] {
            for name in ["x.pc", "y.pc", "z.pc"] {
                all.push((format!("/p1/{directory}/{name}"), true));
                all.push((format!("/p2/{directory}/{name}"), false));
            }
        }
        let requests = all.iter().map(|(path, missing)| request(path, *missing));
        let evidence = PathEvidence::of(requests);
        let path = "/p1/c/z.pc";
        assert_eq!(evidence.cut(request(path, true)).path, path.as_bytes());
    }

    #[test]
    fn a_directory_below_an_entry_that_was_searched_for_the_same_name_is_an_entry_too() {
        let list = [
            ("/usr/perl/POSIX.pm", false),
            ("/x/POSIX.pm", true),
            ("/x/lib1/POSIX.pm", true),
            ("/x/deep/lib2/POSIX.pm", true),
            ("/x/File/Spec/Unix.pm", true),
        ];
        for path in ["/x/lib1/Moose.pm", "/x/deep/lib2/Moose.pm"] {
            assert_eq!(cut(&list, path), path);
        }
        assert_eq!(cut(&list, "/x/File/Find.pm"), "/x/File");
        assert_eq!(cut(&list, "/x/lib1/File/Find.pm"), "/x/lib1/File", "as below any entry");
        let of_package = [("/x/Socket.pm", true), ("/x/Carp.pm", true), ("/x/IO/Socket.pm", true)];
        let of_package = [&list[..], &[("/usr/perl/Socket.pm", false)], &of_package].concat();
        assert_eq!(cut(&of_package, "/x/IO/Handle.pm"), "/x/IO", "one name is no list");
        let absent = [&list[..], &[("/x/lib1", true)]].concat();
        assert_eq!(cut(&absent, "/x/lib1/Moose.pm"), "/x/lib1", "looked up itself");
    }

    #[test]
    fn where_nothing_tells_the_last_component_is_the_missing_one() {
        assert_eq!(cut(&[("/opt/li", true)], "/opt/lib/libm.so"), "/opt/lib/libm.so");
    }
}
