//! What an image's content refers to, and does not hold: found in the image itself, once it is
//! written, so that no source is read twice.
//!
//! | file | what it holds |
//! |---|---|
//! | `python` | `.pth` files, editable installs, `pyvenv.cfg` |
//! | `elf` | the interpreter and libraries that an ELF file names |

pub(crate) mod elf;
mod python;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use image_format::squash::{SquashImage, SquashNode, SquashReadError};
use image_format::tree::{FileNodeId, FileNodeKind, FileTree, PathTarget};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of a text file that are looked at.
const MOST_TEXT: u64 = 1 << 20;

/// Something that is used from the image and lies outside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct OutsideReference {
    /// How it is referred to.
    pub by: Reference,
    /// What lies outside: a path, or of a library its name.
    #[serde(with = "image_format::path_json")]
    #[schemars(with = "image_format::path_json::PathText")]
    pub what: PathBuf,
    /// One of the files that refer to it.
    #[serde(with = "image_format::path_json")]
    #[schemars(with = "image_format::path_json::PathText")]
    pub from: PathBuf,
    /// How many do.
    pub times: u64,
}

/// How something outside is referred to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Reference {
    /// A symbolic link points to it.
    Symlink,
    /// A line of a `.pth` file adds it to `sys.path`.
    Pth,
    /// A package is installed there in editable mode.
    Editable,
    /// `pyvenv.cfg` names it as the Python that the environment was made from.
    Home,
    /// An ELF program names it as its interpreter (PT_INTERP).
    Interpreter,
    /// An ELF file needs a library of this name (DT_NEEDED), and no packed file is called so.
    Library,
}

/// Finds what lies outside, sorted by kind and name.
pub(crate) fn survey(
    tree: &FileTree,
    image: &SquashImage,
    elf: &[FileNodeId],
) -> Result<Vec<OutsideReference>, SquashReadError> {
    let mut survey = OutsideSurvey { tree, image, found: BTreeMap::new() };
    for (id, node) in (0..).zip(&tree.nodes) {
        match &node.kind {
            FileNodeKind::Symlink(_) => survey.point_to(Reference::Symlink, tree.place(id), id),
            FileNodeKind::File { size, .. } if *size <= MOST_TEXT => survey.python(id)?,
            _ => {}
        }
    }
    let names: HashSet<&[u8]> = tree.nodes.iter().map(|node| &node.name[..]).collect();
    for id in elf {
        survey.elf(*id, &names)?;
    }
    let outside = survey.found.into_iter();
    Ok(outside
        .map(|((by, what), (from, times))| OutsideReference { by, what, from, times })
        .collect())
}

struct OutsideSurvey<'a> {
    tree: &'a FileTree,
    image: &'a SquashImage,
    /// By how and what: one that refers to it, and how many do.
    found: BTreeMap<(Reference, PathBuf), (PathBuf, u64)>,
}

impl OutsideSurvey<'_> {
    /// A file refers to a path, which may lie outside.
    fn point_to(&mut self, by: Reference, path: PathBuf, from: FileNodeId) {
        if let PathTarget::Outside(path) = self.tree.find(&image_format::tree::clean(&path)) {
            self.add(by, path, from);
        }
    }

    fn add(&mut self, by: Reference, what: PathBuf, from: FileNodeId) {
        let from = self.tree.place(from);
        self.found.entry((by, what)).or_insert((from, 0)).1 += 1;
    }

    /// A file in the image; none where it was left out.
    fn node(&self, id: FileNodeId) -> Result<Option<SquashNode>, SquashReadError> {
        let mut node = self.image.root();
        for name in &self.tree.below(id) {
            match self.image.lookup(node, name.as_bytes())? {
                Some(next) => node = next,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    /// The start of a file.
    fn read(&self, id: FileNodeId) -> Result<Vec<u8>, SquashReadError> {
        let Some(node) = self.node(id)? else { return Ok(Vec::new()) };
        let file = self.image.open(node)?;
        let mut bytes = vec![0; file.size().min(MOST_TEXT) as usize];
        let length = self.image.read_at(&file, 0, &mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
