//! Which files of a tree a Python can import, and which Pythons are meant.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use image_format::tree::{FileNodeId, FileNodeKind, FileTree, PathTarget, clean};

use rustix::fs::{Access, access};

use super::python::Interpreter;

/// Where modules are in a tree.
pub(super) struct ModulePlaces {
    /// Directories of distributions, and the version (`3.11`) that their path names; `3` where it
    /// names no more.
    packages: Vec<(FileNodeId, String)>,
    /// Directories above modules that the trace opened, or that PYTHONPATH names.
    searched: BTreeSet<FileNodeId>,
    /// Interpreters: those that the trace ran first, then those of the tree.
    pub interpreters: Vec<PathBuf>,
    /// How many of those ran in the trace.
    pub ran: usize,
}

impl ModulePlaces {
    pub fn of(tree: &FileTree, first: &[PathBuf], searched: &[PathBuf]) -> ModulePlaces {
        let mut places = ModulePlaces {
            packages: Vec::new(),
            searched: BTreeSet::new(),
            interpreters: Vec::new(),
            ran: 0,
        };
        let mut known = HashSet::new();
        let mut interpreters = Vec::new();
        for path in first.iter().filter(|path| path.file_name().is_some_and(is_interpreter)) {
            interpreters.extend(program(path).filter(|path| known.insert(path.clone())));
        }
        places.ran = interpreters.len();
        for (id, node) in (0..).zip(&tree.nodes) {
            match &node.kind {
                FileNodeKind::Directory(_) => {
                    places.packages.extend(version_of(tree, id).map(|version| (id, version)));
                }
                _ if is_interpreter(OsStr::from_bytes(&node.name))
                    && tree.nodes[node.parent as usize].name == b"bin" =>
                {
                    let file = program(&tree.source(id));
                    interpreters.extend(file.filter(|path| known.insert(path.clone())));
                }
                _ => {}
            }
        }
        places.interpreters = interpreters;
        let named = searched.iter().filter_map(|path| directory(tree, path));
        places.searched = named.chain(first.iter().filter_map(|path| top(tree, path))).collect();
        places
    }

    /// Whether there is anything that a Python could import.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty() && self.searched.is_empty()
    }

    /// Versions that directories are made for.
    pub fn versions(&self) -> BTreeSet<&str> {
        self.packages.iter().map(|(_, version)| &version[..]).collect()
    }

    /// The modules that an interpreter can import from the tree, in the order of the tree.
    pub fn modules(
        &self,
        tree: &FileTree,
        python: &Interpreter,
        searches: bool,
    ) -> Vec<FileNodeId> {
        let is_its = |version: &str| version == python.version || version == "3";
        let packages = self.packages.iter().filter(|(_, version)| is_its(version));
        let library = python.library.iter().filter_map(|path| directory(tree, path));
        let searched = self.searched.iter().filter(|_| searches).copied();
        // A path that names another version is another Python's.
        let searched = searched.filter(|id| named_version(tree, *id).is_none_or(|it| is_its(&it)));
        let entries = packages.map(|(id, _)| *id).chain(library).chain(searched);
        let (mut modules, mut listed) = (BTreeSet::new(), HashSet::new());
        for entry in entries {
            add_modules(tree, entry, &mut modules, &mut listed);
        }
        modules.into_iter().collect()
    }
}

/// Adds the modules below a directory: only what has a name that can be imported.
fn add_modules(
    tree: &FileTree,
    directory: FileNodeId,
    modules: &mut BTreeSet<FileNodeId>,
    listed: &mut HashSet<FileNodeId>,
) {
    let FileNodeKind::Directory(children) = &tree.nodes[directory as usize].kind else { return };
    if !listed.insert(directory) {
        return;
    }
    for child in children {
        let node = &tree.nodes[*child as usize];
        match (&node.kind, node.name.strip_suffix(b".py")) {
            (FileNodeKind::Directory(_), _) if is_module_name(&node.name) => {
                add_modules(tree, *child, modules, listed);
            }
            (FileNodeKind::File { .. } | FileNodeKind::Symlink(_), Some(stem))
                if is_module_name(stem) =>
            {
                modules.insert(*child);
            }
            _ => {}
        }
    }
}

fn is_module_name(name: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_' || *byte >= 0x80;
    name != b"__pycache__"
        && name.first().is_some_and(is_letter)
        && name.iter().all(|byte| is_letter(byte) || byte.is_ascii_digit())
        && std::str::from_utf8(name).is_ok()
}

/// `python`, `python3`, `python3.11`; Python 2 keeps its bytecode elsewhere.
fn is_interpreter(name: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(b"python");
    let is_version = |rest: &[u8]| rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    rest.is_some_and(|rest| is_version(rest) && !rest.starts_with(b"2"))
}

/// A file that can be run, without links: `/usr/lib/python3.11` is a directory.
fn program(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    (path.is_file() && access(&path, Access::EXEC_OK).is_ok()).then_some(path)
}

/// The version that a directory of Python's own, or of distributions, is for.
fn version_of(tree: &FileTree, id: FileNodeId) -> Option<String> {
    let node = &tree.nodes[id as usize];
    let above = &tree.nodes[node.parent as usize];
    match &node.name[..] {
        b"site-packages" | b"dist-packages" if id != 0 => version(&match node.parent {
            // The packed directory itself is above it.
            0 => tree.layout.base().file_name()?.as_bytes().to_vec(),
            _ => above.name.clone(),
        }),
        // What is packed is perhaps that directory.
        _ if id == 0 => {
            let base = tree.layout.base();
            let is_packages = ["site-packages", "dist-packages"].map(OsStr::new);
            let is_packages = base.file_name().is_some_and(|name| is_packages.contains(&name));
            let above = base.parent().and_then(Path::file_name).filter(|_| is_packages)?;
            version(above.as_bytes())
        }
        _ => None,
    }
}

/// `3.11` of `python3.11`, `3` of `python3`.
fn version(name: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(name.strip_prefix(b"python")?).ok()?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    (text.split('.').all(is_number) && text.starts_with('3')).then(|| text.to_owned())
}

/// The version that the path of a node names.
fn named_version(tree: &FileTree, id: FileNodeId) -> Option<String> {
    tree.source(id).iter().rev().find_map(|part| version(part.as_bytes()))
}

fn directory(tree: &FileTree, path: &Path) -> Option<FileNodeId> {
    match tree.find(&clean(path)) {
        PathTarget::Inside(id)
            if matches!(tree.nodes[id as usize].kind, FileNodeKind::Directory(_)) =>
        {
            Some(id)
        }
        _ => None,
    }
}

/// The directory from which a module was imported that a trace opened: above its packages.
fn top(tree: &FileTree, path: &Path) -> Option<FileNodeId> {
    let mut directory_path = path.parent()?;
    match path.extension()?.as_bytes() {
        b"py" => {}
        b"pyc" if directory_path.file_name()? == "__pycache__" => {
            directory_path = directory_path.parent()?;
        }
        _ => return None,
    }
    let mut id = directory(tree, directory_path)?;
    while id != 0 && tree.child(id, b"__init__.py").is_some() {
        id = tree.nodes[id as usize].parent;
    }
    (!tree.nodes[id as usize].is_above).then_some(id)
}
