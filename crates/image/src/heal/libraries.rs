//! Programs and libraries whose lists of directories (RPATH) are long, bound in the image to what these
//! find today. What binds is handed in: it knows loaders, and says which bytes become others. The
//! length of a file stays, and the source is what the image is compared with.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use image_format::tree::{ContentPatch, FileNodeId, FileNodeKind, FileTree};
use rustix::fs::{Mode, OFlags, open};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::bytecode::in_threads;
use super::{Healed, UnhealedFile, file_of};

/// No more are bound: what the sources hold is in the image's manifest.
const MOST: usize = 20_000;
/// Bytes that are read at a time.
const PIECE: usize = 256 << 10;
const ELF: &[u8] = b"\x7fELF";

/// Says how these files are bound, where these paths are packed into an image.
pub type LibraryBinder<'a> = &'a dyn Fn(&[PathBuf], &[PathBuf]) -> LibraryBindings;

/// How files are bound.
#[derive(Debug, Default)]
pub struct LibraryBindings {
    /// Files that become others.
    pub bound: Vec<BoundLibrary>,
    /// What stays as it is though it is searched, and why.
    pub as_it_was: Vec<UnhealedFile>,
    /// What the loader looks up.
    pub search: SearchCounts,
}

/// One file that becomes another.
#[derive(Debug)]
pub struct BoundLibrary {
    /// Its path, without symbolic links.
    pub path: PathBuf,
    /// How many names of libraries become paths.
    pub names: u64,
    /// Whether its list of directories goes.
    pub drops_list: bool,
    /// Those of the names that LD_LIBRARY_PATH could have led elsewhere.
    pub replaceable: Vec<ReplaceableLibrary>,
    /// Its inode, size and time (in nanoseconds since 1970) as it was read.
    pub seen: (u64, u64, i64),
    /// The bytes that become others, sorted by offset.
    pub patches: Vec<ContentPatch>,
}

/// A program or library that is bound in the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HealedLibrary {
    /// Its file.
    #[serde(with = "image_format::path_json")]
    #[schemars(with = "image_format::path_json::PathText")]
    pub path: PathBuf,
    /// How many of the libraries that it needs it names by their path.
    pub names: u64,
    /// Whether its list of directories (DT_RPATH, DT_RUNPATH) is gone: nothing is searched there.
    pub drops_list: bool,
}

/// What loaders look up, in several starts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchCounts {
    /// Metadata operations as the files are.
    pub before: u64,
    /// Of these, failed lookups.
    pub failed_before: u64,
    /// Metadata operations in the image.
    pub after: u64,
    /// Of these, failed lookups.
    pub failed_after: u64,
}

/// What the source of a bound file holds: an image is compared with that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BoundSource {
    /// Its path.
    #[serde(with = "image_format::path_json")]
    #[schemars(with = "image_format::path_json::PathText")]
    pub path: PathBuf,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

/// A library that is named by its path in the image, where LD_LIBRARY_PATH would be searched for it
/// before the list that it was found by.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct ReplaceableLibrary {
    /// The name that was searched.
    #[serde(with = "image_format::path_json")]
    #[schemars(with = "image_format::path_json::PathText")]
    pub name: PathBuf,
    /// What it is bound to.
    #[serde(with = "image_format::path_json")]
    #[schemars(with = "image_format::path_json::PathText")]
    pub file: PathBuf,
    /// Whether it is named by `$ORIGIN`, and so another file where the image is mounted elsewhere.
    pub moves: bool,
}

/// What the manifest says of bound files.
#[derive(Debug, Default)]
pub(crate) struct BoundFacts {
    /// What their sources hold, by path.
    pub sources: Vec<BoundSource>,
    /// What LD_LIBRARY_PATH could have led elsewhere, each once.
    pub replaceable: Vec<ReplaceableLibrary>,
}

impl BoundSource {
    /// Whether a file has that content.
    pub(crate) fn is_still_in(&self, path: &Path) -> io::Result<bool> {
        Ok(digest(File::open(path)?)? == self.sha256)
    }
}

/// Binds the ELF files of a tree.
pub(super) fn bind(
    tree: &mut FileTree,
    binder: LibraryBinder<'_>,
    readers: usize,
    healed: &mut Healed,
) -> BoundFacts {
    let candidates: Vec<FileNodeId> = (0..)
        .zip(&tree.nodes)
        .filter(|(_, node)| {
            let is_file = matches!(node.kind, FileNodeKind::File { given: None, .. });
            is_file && (is_library(&node.name) || node.attributes.mode & 0o111 != 0)
        })
        .map(|(id, _)| id)
        .collect();
    let is_elf = |index: usize| is_elf(&tree.source(candidates[index]));
    let are_elf = in_threads(candidates.len(), readers, &is_elf);
    let elf = candidates.iter().zip(are_elf).filter(|(_, is_elf)| *is_elf);
    let files: Vec<PathBuf> = elf.map(|(id, _)| tree.source(*id)).collect();
    if files.is_empty() {
        return BoundFacts::default();
    }
    let LibraryBindings { mut bound, as_it_was, search } = binder(&files, tree.layout.paths());
    healed.as_it_was.extend(as_it_was);
    if let Some(beyond) = bound.get(MOST) {
        let why = format!("no more than {MOST} files are bound in one image");
        healed.as_it_was.push(UnhealedFile { path: beyond.path.clone(), why });
        bound.truncate(MOST);
    }
    let nodes: Vec<Option<FileNodeId>> =
        bound.iter().map(|library| node_of(tree, library)).collect();
    let digest = |index: usize| {
        let library: &BoundLibrary = &bound[index];
        nodes[index].and_then(|_| digest(opened(&library.path).ok()?).ok())
    };
    let digests = in_threads(bound.len(), readers, &digest);
    let mut other_names: HashMap<FileNodeId, Vec<FileNodeId>> = HashMap::new();
    for (id, node) in (0..).zip(&tree.nodes) {
        if let Some(first) = node.first_name {
            other_names.entry(first).or_default().push(id);
        }
    }
    let (mut sources, mut replaceable) = (Vec::new(), BTreeSet::new());
    for ((library, node), sha256) in bound.iter().zip(&nodes).zip(digests) {
        let (Some(node), Some(sha256)) = (node, sha256) else {
            let why = "it changed while it was read".to_owned();
            healed.as_it_was.push(UnhealedFile { path: library.path.clone(), why });
            continue;
        };
        tree.nodes[*node as usize].patches = Some(library.patches.as_slice().into());
        let names = [node].into_iter().chain(other_names.get(node).into_iter().flatten());
        let source =
            |id: &FileNodeId| BoundSource { path: tree.source(*id), sha256: sha256.clone() };
        sources.extend(names.map(source));
        replaceable.extend(library.replaceable.iter().cloned());
        healed.libraries.push(HealedLibrary {
            path: library.path.clone(),
            names: library.names,
            drops_list: library.drops_list,
        });
    }
    if !healed.libraries.is_empty() {
        healed.library_search = search;
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    BoundFacts { sources, replaceable: replaceable.into_iter().collect() }
}

/// The file that a library is in a tree, if it is as it was read.
fn node_of(tree: &FileTree, library: &BoundLibrary) -> Option<FileNodeId> {
    let place = tree.stands_for.join(library.path.strip_prefix(tree.layout.base()).ok()?);
    let id = match tree.find(&place) {
        image_format::tree::PathTarget::Inside(id) => file_of(tree, id)?,
        _ => return None,
    };
    let node = &tree.nodes[id as usize];
    let FileNodeKind::File { size, .. } = node.kind else { return None };
    let (seconds, rest) = node.attributes.mtime;
    let mtime = seconds.saturating_mul(1_000_000_000).saturating_add(rest.into());
    ((node.attributes.identity.1, size, mtime) == library.seen).then_some(id)
}

/// `libx.so`, `libx.so.1`, `x.cpython-311-x86_64-linux-gnu.so`.
fn is_library(name: &[u8]) -> bool {
    name.ends_with(b".so") || name.windows(4).any(|part| part == b".so.")
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; ELF.len()];
    opened(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && start == *ELF)
}

/// A regular file, opened; another is not waited for.
fn opened(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    match file.metadata()?.mode() & 0o170_000 {
        0o100_000 => Ok(file),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn digest(mut file: File) -> io::Result<String> {
    let (mut sha, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece)? {
            0 => break,
            length => sha.update(&piece[..length]),
        }
    }
    Ok(sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
