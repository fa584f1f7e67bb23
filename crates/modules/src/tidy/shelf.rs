//! One modulepath while it is planned for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::everyone;
use crate::site::Release;
use crate::tcl::rc::{self, Defined};
use crate::tree::{ModulepathTree, TreeEntry, TreeEntryKind};

/// A larger rc file or modulefile is not read.
pub(super) const MOST: u64 = 1 << 20;

/// A modulepath: its names, and its rc files as far as they can be read.
pub(super) struct Shelf<'a> {
    pub(super) root: &'a Path,
    pub(super) entries: BTreeMap<&'a Path, &'a TreeEntry>,
    /// Every rc file, the root's included, by its name.
    pub(super) rcs: BTreeMap<&'a Path, ShelfRcFile>,
    pub(super) release: &'a Release,
    pub(super) is_cut: bool,
}

/// An rc file.
pub(super) struct ShelfRcFile {
    pub(super) content: Vec<u8>,
    /// What it defines, or why that cannot be said.
    pub(super) defines: Result<Vec<Defined>, String>,
    /// How many names the file has.
    pub(super) links: u64,
}

impl<'a> Shelf<'a> {
    pub(super) fn of(tree: &'a ModulepathTree, release: &'a Release) -> Shelf<'a> {
        let entries: BTreeMap<_, _> =
            tree.entries.iter().map(|entry| (entry.name.as_path(), entry)).collect();
        let rcs = tree.entries.iter().filter(|entry| is_rc(entry));
        let rcs = rcs.map(|entry| (entry.name.as_path(), ShelfRcFile::read(tree, entry, release)));
        let rcs = rcs.collect();
        Shelf { root: &tree.root, entries, rcs, release, is_cut: tree.is_cut }
    }

    /// The rc file at its root, if it has one, or may have.
    pub(super) fn root_rc(&self) -> Option<&ShelfRcFile> {
        self.rcs.get(Path::new(".modulerc"))
    }

    /// Why lines cannot be added to the rc file at the root, or made there. None if they can.
    pub(super) fn root_is_closed(&self) -> Option<String> {
        if self.is_cut {
            return Some("the tree is too large to be seen whole".into());
        }
        if self.entries.contains_key(Path::new(".version")) {
            return Some("the modulepath's root has a .version".into());
        }
        let name = Path::new(".modulerc");
        let Some(rc) = self.root_rc() else {
            return self
                .entries
                .contains_key(name)
                .then(|| "its root's .modulerc is no file".into());
        };
        match &rc.defines {
            Err(why) => Some(format!("the .modulerc at the modulepath's root is kept: {why}")),
            Ok(_) if rc.links != 1 => Some("its root's .modulerc has other names".into()),
            Ok(_) if !everyone::may_read(self.root, name) => {
                Some("the .modulerc at the modulepath's root is not for everyone".into())
            }
            Ok(_) => None,
        }
    }

    /// Whether a name is a modulefile that this release of Modules shows.
    pub(super) fn is_modulefile(&self, name: &Path) -> bool {
        let kind = self.entries.get(name).map(|entry| &entry.kind);
        matches!(kind, Some(TreeEntryKind::File(cookie)) if cookie.is_valid_for(self.release))
    }

    /// The names directly below its root that hold or are modules.
    pub(super) fn tops(&self) -> Vec<&'a Path> {
        let is_top = |name: &&&Path| name.components().count() == 1;
        let names = self.entries.keys().filter(is_top).copied();
        names.filter(|name| self.has_modules(name)).collect()
    }

    fn has_modules(&self, top: &Path) -> bool {
        let below = self.entries.range(top..).take_while(|(name, _)| name.starts_with(top));
        below.into_iter().any(|(name, _)| self.is_modulefile(name))
    }

    /// The files of a name, and of all below it.
    pub(super) fn below<'b>(&'b self, top: &'b Path) -> impl Iterator<Item = &'a TreeEntry> + 'b {
        let below = self.entries.range(top..).take_while(move |(name, _)| name.starts_with(top));
        below.map(|(_, entry)| *entry)
    }
}

fn is_rc(entry: &TreeEntry) -> bool {
    matches!(entry.kind, TreeEntryKind::Rc(..))
}

impl ShelfRcFile {
    fn read(tree: &ModulepathTree, entry: &TreeEntry, release: &Release) -> ShelfRcFile {
        let path = tree.root.join(&entry.name);
        let (content, links) = match content(&path) {
            Ok(read) => read,
            Err(why) => return ShelfRcFile { content: Vec::new(), defines: Err(why), links: 0 },
        };
        let valid =
            matches!(&entry.kind, TreeEntryKind::Rc(_, cookie) if cookie.is_valid_for(release));
        let defines = match rc::read(&content) {
            _ if entry.is_link => Err("it is a symbolic link".into()),
            _ if !valid => Err("Modules does not take it: its magic cookie".into()),
            read => read.map_err(|why| why.to_string()),
        };
        ShelfRcFile { content, defines, links }
    }
}

/// The content of a regular file that is not large, and how many names it has.
pub(super) fn content(path: &Path) -> Result<(Vec<u8>, u64), String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty());
    let file = File::from(file.map_err(|error| std::io::Error::from(error).to_string())?);
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is no regular file".into());
    }
    let mut content = Vec::new();
    file.take(MOST + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
    match content.len() as u64 > MOST {
        true => Err("it is larger than 1 MiB".into()),
        false => Ok((content, found.nlink())),
    }
}

/// Whether Modules reads a name as nothing but a name: no part of it is a version
/// specification, a variant or a pattern, and it begins like no option.
pub(super) fn is_plain(name: &str) -> bool {
    let plain = |letter: char| letter.is_alphanumeric() || "._-/ ".contains(letter);
    !name.is_empty() && name.chars().all(plain) && !name.starts_with(['-', ' ', '.', '/'])
}
