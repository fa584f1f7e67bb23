//! Names of Python modules and modulefiles, from the paths of their files.

use std::collections::HashSet;

use super::clean;
use super::process::base_name;
use crate::header::is_below;

/// What Python's path finder looks for (importlib.machinery's SOURCE_SUFFIXES,
/// BYTECODE_SUFFIXES and EXTENSION_SUFFIXES end in these).
const SUFFIXES: [&[u8]; 3] = [b".py", b".pyc", b".so"];

/// Folders of every installation that modules are found in by their full name.
const TOPS: [&[u8]; 3] = [b"site-packages", b"dist-packages", b"lib-dynload"];

/// What is known of where a Python program finds its modules.
pub(super) struct Python<'a> {
    /// PYTHONPATH.
    pub(super) roots: &'a str,
    /// Folders that hold an `__init__` file.
    pub(super) packages: &'a HashSet<&'a [u8]>,
}

impl Python<'_> {
    /// The dotted name of the module in a file; none for a folder or another kind of file.
    ///
    /// It is counted from the deepest folder that is known to be searched: one of PYTHONPATH,
    /// one that installations have, or the first above the file that is no package.
    pub(super) fn module(&self, path: &[u8]) -> Option<Vec<u8>> {
        let name = base_name(path);
        if name == b"pyvenv.cfg" || name.ends_with(b".pth") || name.ends_with(b"._pth") {
            return Some(b"site".to_vec());
        }
        let (folder, stem) = folder_and_stem(path)?;
        let roots = self.roots.split(':').map(|root| clean(root.as_bytes()));
        let given = roots.filter(|root| !root.is_empty() && is_below(folder, root));
        let top = given.map(|root| root.len()).chain(installed(folder)).max();
        let top = top.unwrap_or_else(|| self.first_above(folder));
        let packages = folder.get(top..).unwrap_or(b"").split(|byte| *byte == b'/');
        let mut parts: Vec<&[u8]> = packages.filter(|part| !part.is_empty()).collect();
        match stem {
            b"__init__" if !parts.is_empty() => {}
            b"__init__" => parts.push(base_name(folder)),
            stem => parts.push(stem),
        }
        Some(parts.join(&b'.'))
    }

    /// The folder that a file makes a package.
    pub(super) fn package_of(path: &[u8]) -> Option<&[u8]> {
        folder_and_stem(path).filter(|(_, stem)| *stem == b"__init__").map(|(folder, _)| folder)
    }

    /// The length of the deepest folder at or above this one that is no package.
    fn first_above(&self, folder: &[u8]) -> usize {
        let mut folder = folder;
        while self.packages.contains(folder) {
            folder = parent(folder);
        }
        folder.len()
    }
}

/// The folder of a module's file (that of its cache, for one in `__pycache__`) and its name up
/// to the first dot: `core` of `core.cpython-311.pyc`.
fn folder_and_stem(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = base_name(path);
    if !SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        return None;
    }
    let folder = parent(path);
    let folder = if base_name(folder) == b"__pycache__" { parent(folder) } else { folder };
    let stem = name.split(|byte| *byte == b'.').next().unwrap_or(name);
    (!stem.is_empty()).then_some((folder, stem))
}

/// The length of `…/site-packages` and the like, or `…/lib/python3.11`, in a path.
fn installed(folder: &[u8]) -> Option<usize> {
    let (mut end, mut found, mut before) = (0, None, &b""[..]);
    for part in folder.split(|byte| *byte == b'/') {
        end += part.len() + 1;
        let versioned = part.starts_with(b"python") || part.starts_with(b"pypy");
        if TOPS.contains(&part) || (versioned && before.starts_with(b"lib")) {
            found = Some(end - 1);
        }
        before = part;
    }
    found
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |at| &path[..at])
}

/// The name of a modulefile or of a folder of them: its path below the modulepath's root it is
/// in, without Lmod's `.lua`; none for other files.
///
/// A root that a module added (`module use`) is not in the environment; then a folder named
/// `modulefiles` is taken for it.
pub(super) fn modulefile(modulepath: &str, path: &[u8]) -> Option<Vec<u8>> {
    const USUAL: &[u8] = b"/modulefiles/";
    let path = clean(path);
    let roots = modulepath.split(':').map(|root| clean(root.as_bytes()));
    let inside = roots.filter(|root| !root.is_empty() && is_below(&path, root));
    let usual = || {
        let at = path.windows(USUAL.len()).rposition(|window| window == USUAL)?;
        Some(at + USUAL.len() - 1)
    };
    let top = inside.map(|root| root.len()).max().or_else(usual)?;
    let name = path.get(top + 1..).unwrap_or(b"");
    if name.is_empty() {
        return Some(b"(modulepath)".to_vec());
    }
    Some(name.strip_suffix(b".lua").unwrap_or(name).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(roots: &str, packages: &[&'static str], path: &str) -> Option<String> {
        let packages = packages.iter().map(|folder| folder.as_bytes()).collect();
        let name = Python { roots, packages: &packages }.module(path.as_bytes())?;
        Some(String::from_utf8_lossy(&name).into_owned())
    }

    #[test]
    fn a_modules_name_is_its_path_below_the_folder_that_is_searched() {
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

    #[test]
    fn a_modulefiles_name_is_its_path_below_the_modulepath() {
        let name = |path: &str| {
            let name = modulefile("/opt/mods:/opt/mods/Core/", path.as_bytes())?;
            Some(String::from_utf8_lossy(&name).into_owned())
        };
        assert_eq!(name("/opt/mods/Core/gcc/12.1.lua").as_deref(), Some("gcc/12.1"));
        assert_eq!(name("/opt/mods/gcc").as_deref(), Some("gcc"));
        assert_eq!(name("/opt/mods/Core").as_deref(), Some("(modulepath)"));
        assert_eq!(name("/usr/share/modules/modulefiles/null").as_deref(), Some("null"));
        assert_eq!(name("/usr/lib/tcl8.6/init.tcl"), None);
    }
}
