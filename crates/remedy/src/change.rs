//! One change to the filesystem, resolved and checked, with all that its inverse needs.
//!
//! Applying does changes; undoing does their inverses. Both go through the same code.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use recording::ByteUnits;
use serde::{Deserialize, Serialize};

use crate::attributes::FileAttributes;
use crate::{Digest, Edit, Seen, text};

/// A change, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub(crate) enum FileChange {
    Patch(FilePatch),
    Add(Item),
    Remove(Item),
    /// In a box: it is twice as large as the others.
    Replace(Box<Replacement>),
}

/// Bytes of a file are replaced; its attributes stay as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FilePatch {
    /// Every name of the file, without symbolic links in them.
    #[serde(with = "text::paths")]
    pub(crate) names: Vec<PathBuf>,
    pub(crate) before: Version,
    pub(crate) after: Version,
    #[serde(with = "text::shared")]
    pub(crate) edits: Arc<[Edit]>,
    pub(crate) attributes: FileAttributes,
    /// What was a hole before the edits were written into it: from byte, up to byte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) holes: Vec<(u64, u64)>,
}

/// One file or symbolic link comes to be in another's place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Replacement {
    pub(crate) before: Item,
    pub(crate) after: Item,
}

/// A file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) size: ByteUnits,
    /// None only until the file has been read.
    pub(crate) digest: Option<Digest>,
}

impl Version {
    /// Whether a file that was read is of this version, as far as that is known.
    pub(crate) fn admits(&self, read: &Version) -> bool {
        self.size == read.size && self.digest.is_none_or(|digest| Some(digest) == read.digest)
    }
}

/// Something that comes to be at a path, or ceases to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Item {
    #[serde(with = "text::path")]
    pub(crate) path: PathBuf,
    pub(crate) thing: ItemKind,
    /// Its attributes, where they are to be as they were: of what a plan removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attributes: Option<FileAttributes>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ItemKind {
    File {
        version: Version,
        #[serde(with = "text::mode")]
        mode: u32,
        /// Which of the journal's kept files has the content; none of what a plan created.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<usize>,
        /// What tells a large file, whose content is not read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seen: Option<Seen>,
        /// The name beside it that a large file keeps, once another has its place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        aside: Option<String>,
        /// What it has become since: becalm's own caches are made anew.
        #[serde(skip)]
        renewed: Vec<Version>,
    },
    Link {
        #[serde(with = "text::path")]
        target: PathBuf,
    },
    Directory {
        #[serde(with = "text::mode")]
        mode: u32,
    },
}

impl FileChange {
    /// What takes it back.
    pub(crate) fn inverse(&self) -> FileChange {
        match self {
            FileChange::Patch(patch) => FileChange::Patch(patch.inverse()),
            FileChange::Add(item) => FileChange::Remove(item.clone()),
            FileChange::Remove(item) => FileChange::Add(item.clone()),
            FileChange::Replace(replaced) => FileChange::Replace(Box::new(Replacement {
                before: replaced.after.clone(),
                after: replaced.before.clone(),
            })),
        }
    }

    /// What is no longer there after it.
    pub(crate) fn removed(&self) -> Option<&Item> {
        match self {
            FileChange::Remove(item) => Some(item),
            FileChange::Replace(replaced) => Some(&replaced.before),
            FileChange::Patch(_) | FileChange::Add(_) => None,
        }
    }

    /// The file or link that is there after it, and was not before.
    pub(crate) fn put(&self) -> Option<&Item> {
        match self {
            FileChange::Add(item) => Some(item),
            FileChange::Replace(replaced) => Some(&replaced.after),
            FileChange::Patch(_) | FileChange::Remove(_) => None,
        }
    }

    /// The same, to be told more of it.
    pub(crate) fn put_mut(&mut self) -> Option<&mut Item> {
        match self {
            FileChange::Add(item) => Some(item),
            FileChange::Replace(replaced) => Some(&mut replaced.after),
            FileChange::Patch(_) | FileChange::Remove(_) => None,
        }
    }

    /// The other name of what is no longer there after it.
    pub(crate) fn aside(&self) -> Option<PathBuf> {
        self.removed().and_then(Item::aside)
    }

    /// What is no longer there after it, to be told more of it.
    pub(crate) fn removed_mut(&mut self) -> Option<&mut Item> {
        match self {
            FileChange::Remove(item) => Some(item),
            FileChange::Replace(replaced) => Some(&mut replaced.before),
            FileChange::Patch(_) | FileChange::Add(_) => None,
        }
    }

    /// The paths that it changes.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        match self {
            FileChange::Patch(patch) => &patch.names,
            FileChange::Add(item) | FileChange::Remove(item) => std::slice::from_ref(&item.path),
            FileChange::Replace(replaced) => std::slice::from_ref(&replaced.after.path),
        }
    }

    /// Its first path.
    pub(crate) fn path(&self) -> &Path {
        self.paths().first().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// When it is done, in relation to others: nothing may refer to what is not there yet, or
    /// no longer.
    pub(crate) fn turn(&self) -> Turn {
        match self {
            FileChange::Add(item) if item.thing.is_directory() => Turn::AddDirectories,
            FileChange::Add(_) => Turn::Add,
            FileChange::Patch(_) | FileChange::Replace(_) => Turn::Patch,
            FileChange::Remove(item) if item.thing.is_directory() => Turn::RemoveDirectories,
            FileChange::Remove(_) => Turn::Remove,
        }
    }
}

impl FilePatch {
    fn inverse(&self) -> FilePatch {
        let inverse = |edit: &Edit| Edit {
            offset: edit.offset,
            old: edit.new.clone(),
            new: edit.old.clone(),
        };
        FilePatch {
            names: self.names.clone(),
            before: self.after,
            after: self.before,
            edits: self.edits.iter().map(inverse).collect(),
            attributes: self.attributes.clone(),
            holes: self.holes.clone(),
        }
    }
}

impl Item {
    /// The name beside it that its content keeps.
    pub(crate) fn aside(&self) -> Option<PathBuf> {
        match &self.thing {
            ItemKind::File { aside: Some(name), .. } => Some(self.path.with_file_name(name)),
            _ => None,
        }
    }
}

impl ItemKind {
    /// A file that has been neither kept nor looked at.
    pub(crate) fn file(version: Version, mode: u32) -> ItemKind {
        let (kept, seen, aside) = (None, None, None);
        ItemKind::File { version, mode, kept, seen, aside, renewed: Vec::new() }
    }

    pub(crate) fn is_directory(&self) -> bool {
        matches!(self, ItemKind::Directory { .. })
    }

    /// Of a file, says under which number its copy is.
    pub(crate) fn keep_as(&mut self, number: usize) {
        if let ItemKind::File { kept, .. } = self {
            *kept = Some(number);
        }
    }
}

/// The order in which kinds of changes are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    AddDirectories,
    Add,
    Patch,
    Remove,
    RemoveDirectories,
}

impl Turn {
    pub(crate) const ALL: [Turn; 5] =
        [Turn::AddDirectories, Turn::Add, Turn::Patch, Turn::Remove, Turn::RemoveDirectories];

    /// Whether something is no longer there after it.
    pub(crate) fn removes(self) -> bool {
        matches!(self, Turn::Remove | Turn::RemoveDirectories)
    }

    /// Whether the changes of this turn may depend on each other, so that their order counts.
    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, Turn::AddDirectories | Turn::RemoveDirectories)
    }
}
