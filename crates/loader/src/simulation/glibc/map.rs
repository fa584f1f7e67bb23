//! One entry of the link map.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use super::directories::SearchDirectoryList;
use crate::simulation::{Edge, FoundBy, LoadedObject};
use crate::{ElfObject, FileId};

/// An object in memory, as `struct link_map` (include/link.h) has it.
#[derive(Clone)]
pub(super) struct LinkMap {
    /// `l_name`: the path by which it was opened; empty for the program.
    pub(super) path: OsString,
    /// `l_libname`: all names that were asked for and led here.
    names: Vec<OsString>,
    /// `l_file_id`; nothing where the loader does not know.
    pub(super) id: Option<FileId>,
    pub(super) object: Arc<ElfObject>,
    pub(super) how: FoundBy,
    /// `l_loader`: who asked first.
    pub(super) loader: Option<usize>,
    /// `l_origin`, once it is known; nothing inside if it cannot be known.
    pub(super) origin: Option<Option<OsString>>,
    pub(super) rpath: SearchDirectoryList,
    pub(super) runpath: SearchDirectoryList,
    pub(super) edges: Vec<Edge>,
    /// What to show for objects whose path or file the loader itself does not know.
    pub(super) shown: Option<(PathBuf, FileId)>,
}

impl LinkMap {
    pub(super) fn new(
        path: OsString,
        name: OsString,
        object: Arc<ElfObject>,
        how: FoundBy,
    ) -> LinkMap {
        LinkMap {
            path,
            names: vec![name],
            id: None,
            object,
            how,
            loader: None,
            origin: None,
            rpath: SearchDirectoryList::Unread,
            runpath: SearchDirectoryList::Unread,
            edges: Vec::new(),
            shown: None,
        }
    }

    /// Whether `name` means this object: `_dl_name_match_p` (elf/dl-misc.c) or its DT_SONAME.
    pub(super) fn answers_to(&self, name: &OsStr) -> bool {
        self.path == name
            || self.names.iter().any(|known| known == name)
            || self.object.soname.as_deref() == Some(name)
    }

    /// All names that it may answer to.
    pub(super) fn names_of_all_kinds(&self) -> impl Iterator<Item = &OsStr> {
        let soname = self.object.soname.as_deref();
        let names = self.names.iter().map(OsString::as_os_str);
        names.chain([self.path.as_os_str()]).chain(soname)
    }

    /// `add_name_to_object` in elf/dl-load.c.
    pub(super) fn add_name(&mut self, name: OsString) {
        if !self.names.contains(&name) {
            self.names.push(name);
        }
    }

    /// For the reader: with all indices translated by `place`.
    pub(super) fn loaded(self, place: &[usize]) -> LoadedObject {
        let id = self.id.unwrap_or(FileId { device: 0, inode: 0 });
        let asked_as = self.names.into_iter().next().unwrap_or_default();
        let (path, id) = self.shown.unwrap_or((PathBuf::from(self.path), id));
        let edges = self.edges.into_iter().map(|mut edge| {
            edge.to = edge.to.map(|to| place[to]);
            edge
        });
        LoadedObject {
            path,
            id,
            object: self.object,
            loader: self.loader.map(|loader| place[loader]),
            asked_as,
            how: match self.how {
                FoundBy::Rpath { of } => FoundBy::Rpath { of: place[of] },
                how => how,
            },
            edges: edges.collect(),
        }
    }
}
