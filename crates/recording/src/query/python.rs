//! The name of a Python module, from the path of its file.

use std::borrow::Cow;
use std::collections::HashSet;

use super::clean;

/// What importlib's finders look for (importlib.machinery's SOURCE_SUFFIXES, BYTECODE_SUFFIXES
/// and EXTENSION_SUFFIXES end in these).
const SUFFIXES: [&[u8]; 3] = [b".py", b".pyc", b".so"];
/// Directories of every installation that modules are found in by their full name.
const TOPS: [&[u8]; 3] = [b"site-packages", b"dist-packages", b"lib-dynload"];
/// Where bytecode is kept (PEP 3147).
pub const CACHE: &[u8] = b"__pycache__";

/// A path's directory and its last component. `/a/b` is `/a` and `b`; `/a` is `/` and `a`.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (&path[..1.min(path.len())], &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

/// Directories above this many others are not looked at: no installation is so deep, but a
/// recording may say so.
const DEEPEST: usize = 64;

/// A path, then each directory above it, the deepest first; the root is left out.
pub fn upwards(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(path), |path| Some(split(path).0))
        .take_while(|path| path.len() > 1)
        .take(DEEPEST)
}

/// Whether a file of this name is one that modules are found in.
pub fn is_module_file(name: &[u8]) -> bool {
    SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// The directory in which the finder looked for this file (that of its cache, for bytecode), and
/// the file's name up to the first dot: `core` of `core.cpython-311.pyc`.
pub fn directory_and_stem(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let (directory, name) = split(path);
    if !is_module_file(name) {
        return None;
    }
    let (above, last) = split(directory);
    let directory = if last == CACHE { above } else { directory };
    let stem = name.split(|byte| *byte == b'.').next().unwrap_or(name);
    (!stem.is_empty()).then_some((directory, stem))
}

/// The directory that a file makes a package: that of an `__init__`.
pub fn package_of(path: &[u8]) -> Option<&[u8]> {
    directory_and_stem(path)
        .filter(|(_, stem)| *stem == b"__init__")
        .map(|(directory, _)| directory)
}

/// What is known of where modules are found.
#[derive(Debug)]
pub struct ModuleDirectories<'a> {
    /// Entries of `sys.path`, as far as they are known.
    pub entries: HashSet<Cow<'a, [u8]>>,
    /// Directories that hold an `__init__` file that was there.
    pub packages: &'a HashSet<&'a [u8]>,
}

impl<'a> ModuleDirectories<'a> {
    /// Those that a `PYTHONPATH` names.
    pub(super) fn of_variable(
        roots: &str,
        packages: &'a HashSet<&'a [u8]>,
    ) -> ModuleDirectories<'a> {
        let roots = roots.split(':').map(|root| clean(root.as_bytes()).into_owned());
        let entries = roots.filter(|root| !root.is_empty()).map(Cow::Owned).collect();
        ModuleDirectories { entries, packages }
    }

    /// The dotted name of the module in a file; none for a directory or another kind of file.
    ///
    /// It is counted from the deepest directory that is known to be searched: an entry of
    /// `sys.path`, a directory that every installation has, or the first that is no package.
    pub fn module(&self, path: &[u8]) -> Option<Vec<u8>> {
        let (_, name) = split(path);
        if is_site_file(name) {
            return Some(b"site".to_vec());
        }
        let (directory, stem) = directory_and_stem(path)?;
        let top = self.top(directory).unwrap_or_else(|| self.first_above(directory));
        let below = directory.get(top.len()..).unwrap_or_default();
        let mut parts: Vec<&[u8]> =
            below.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        if parts.len() > DEEPEST {
            return None;
        }
        match stem {
            b"__init__" if !parts.is_empty() => {}
            b"__init__" => parts.push(split(directory).1),
            stem => parts.push(stem),
        }
        Some(parts.join(&b'.'))
    }

    /// The entry of `sys.path` that a path is in: the deepest at or above it that is known or
    /// that every installation has.
    pub fn top<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        upwards(path).find(|directory| self.entries.contains(*directory) || is_installed(directory))
    }

    fn first_above<'p>(&self, directory: &'p [u8]) -> &'p [u8] {
        upwards(directory).find(|directory| !self.packages.contains(directory)).unwrap_or_default()
    }
}

/// What module `site` reads: pyvenv.cfg and the `.pth` files of site-packages.
pub fn is_site_file(name: &[u8]) -> bool {
    name == b"pyvenv.cfg" || name.ends_with(b".pth") || name.ends_with(b"._pth")
}

/// `…/site-packages` and the like, or `…/lib/python3.11`.
pub(crate) fn is_installed(directory: &[u8]) -> bool {
    let (above, name) = split(directory);
    let is_version = |rest: &[u8]| rest.first().is_some_and(u8::is_ascii_digit);
    let versioned = [&b"python"[..], b"pypy"].iter().any(|program| {
        name.strip_prefix(*program).is_some_and(|rest| is_version(rest) && !rest.ends_with(b".zip"))
    });
    TOPS.contains(&name) || (versioned && split(above).1.starts_with(b"lib") && name != b"python3")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_counted_from_the_directory_that_is_searched() {
        let packages = HashSet::from([&b"/x/app"[..], b"/x/app/sub"]);
        let entries = HashSet::from([Cow::Borrowed(&b"/w/src"[..])]);
        let places = ModuleDirectories { entries, packages: &packages };
        for (path, name) in [
            ("/v/lib/python3.11/site-packages/numpy/core/__init__.py", "numpy.core"),
            ("/v/lib/python3.11/site-packages/n/__pycache__/x.cpython-311.pyc", "n.x"),
            ("/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so", "_json"),
            ("/usr/lib/python3/dist-packages/_cffi.abi3.so", "_cffi"),
            ("/usr/lib/python3.11/collections/abc.py", "collections.abc"),
            ("/w/src/ns/part/io.py", "ns.part.io"),
            ("/x/app/sub/io.py", "app.sub.io"),
            ("/x/io.py", "io"),
            ("/v/pyvenv.cfg", "site"),
        ] {
            let found = places.module(path.as_bytes()).map(|name| String::from_utf8(name).unwrap());
            assert_eq!(found.as_deref(), Some(name), "{path}");
        }
        assert_eq!(places.module(b"/usr/lib/python3.11/site-packages/numpy"), None);
    }

    fn python(roots: &str, packages: &[&'static str], path: &str) -> Option<String> {
        let packages = packages.iter().map(|directory| directory.as_bytes()).collect();
        let name = ModuleDirectories::of_variable(roots, &packages).module(path.as_bytes())?;
        Some(String::from_utf8_lossy(&name).into_owned())
    }

    #[test]
    fn a_modules_name_is_its_path_below_the_directory_that_is_searched() {
        for (path, name) in [
            ("/v/lib/python3.11/site-packages/numpy/core/__init__.py", "numpy.core"),
            (
                "/v/lib/python3.11/site-packages/numpy/core/__pycache__/x.cpython-311.pyc",
                "numpy.core.x",
            ),
            ("/usr/lib/python3/dist-packages/_cffi.cpython-311-x86_64-linux-gnu.so", "_cffi"),
            ("/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so", "_json"),
            ("/usr/lib/python3.11/collections/abc.py", "collections.abc"),
            ("/usr/lib/python3.11/site-packages/foo.abi3.so", "foo"),
            ("/v/pyvenv.cfg", "site"),
        ] {
            assert_eq!(python("", &[], path).as_deref(), Some(name), "{path}");
        }
        assert_eq!(python("", &[], "/usr/lib/python3.11/site-packages/numpy"), None);
    }

    #[test]
    fn pythonpath_and_packages_say_where_a_name_begins() {
        assert_eq!(python("/a:/w/src/", &[], "/w/src/app/io.py").as_deref(), Some("app.io"));
        let packages = ["/w/src/app", "/w/src/app/sub"];
        let module = python("", &packages, "/w/src/app/sub/io.py");
        assert_eq!(module.as_deref(), Some("app.sub.io"));
        assert_eq!(python("", &[], "/w/src/app/io.py").as_deref(), Some("io"));
    }
}
