//! A PYTHONPATH of many entries, joined in the image: one directory of symbolic links, a link for each
//! name that an entry offers. Python then asks one directory for what it asked all of them.
//!
//! A name that several entries offer, such as a namespace package, keeps these entries apart: so every
//! import finds what it found before, whatever the order. Links rather than the directories themselves:
//! what a package looks for beside itself, and `$ORIGIN` of its libraries, lead where they led.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use image_format::tree::{FileNodeId, FileNodeKind, FileTree, PathTarget};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bytecode::{BytecodeKeeper, read};
use super::file_of;
use super::own_place::left_upwards;

/// The directory, in a packed one, that holds what was joined.
pub(crate) const JOINED: &str = ".becalm-python";
/// Fewer entries are searched as fast as a link is followed.
const WORTH_JOINING: usize = 4;
const BYTECODE: &[u8] = b"__pycache__";
/// The file in it that says what was joined.
const SAID: &str = "joined.json";

/// What PYTHONPATH was when an image was made, and what it is in the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinedPath {
    /// Its entries.
    #[serde(with = "image_format::path_json::list")]
    #[schemars(with = "Vec<image_format::path_json::PathText>")]
    pub from: Vec<PathBuf>,
    /// What takes their place.
    #[serde(with = "image_format::path_json::list")]
    #[schemars(with = "Vec<image_format::path_json::PathText>")]
    pub to: Vec<PathBuf>,
    /// Entries that stay for themselves, though they are packed, and why.
    pub apart: Vec<EntryApart>,
}

/// An entry that stays for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EntryApart {
    /// The entry.
    #[serde(with = "image_format::path_json")]
    #[schemars(with = "image_format::path_json::PathText")]
    pub path: PathBuf,
    /// The name that another entry offers, too.
    pub name: Option<String>,
    /// The source in it, by its path there, that may make a place above the entry from its own. With
    /// neither, it is no directory that is packed.
    pub leaves: Option<String>,
}

impl JoinedPath {
    /// What was joined in an image that is mounted over this path.
    pub fn of_mounted(over: &Path) -> Option<JoinedPath> {
        let text = std::fs::read(over.join(JOINED).join(SAID)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The file that says so, which each start reads.
    pub(super) fn said(&self) -> Option<PathBuf> {
        let mut kept = self.to.iter().filter_map(|path| path.parent());
        Some(kept.find(|path| path.ends_with(JOINED))?.join(SAID))
    }

    /// A PYTHONPATH in the image, where these entries are part of it, one after the other.
    pub fn applied_to(&self, search: &OsStr) -> Option<Vec<PathBuf>> {
        let now: Vec<PathBuf> = std::env::split_paths(search).collect();
        let at = now.windows(self.from.len()).position(|part| part == self.from)?;
        let (before, after) = (&now[..at], &now[at + self.from.len()..]);
        Some([before, &self.to, after].concat())
    }
}

/// Joins the entries of a PYTHONPATH that a tree holds; none where that is not worth it.
pub(super) fn join(
    tree: &mut FileTree,
    entries: Vec<PathBuf>,
    readers: usize,
    keeper: &mut BytecodeKeeper,
) -> Option<JoinedPath> {
    let nodes: Vec<Option<FileNodeId>> =
        entries.iter().map(|entry| directory(tree, entry)).collect();
    let packed: Vec<FileNodeId> = nodes.iter().flatten().copied().collect();
    if packed.len() < WORTH_JOINING {
        return None;
    }
    let leaving = left_upwards(tree, &packed, readers, keeper);
    let mut joined = JoinedPath { from: entries, to: Vec::new(), apart: Vec::new() };
    let (mut at, mut number) = (0, 0);
    while at < nodes.len() {
        // What is not packed may offer any name: nothing is moved past it.
        let run: Vec<FileNodeId> = nodes[at..].iter().map_while(|node| *node).collect();
        if run.is_empty() {
            let path = joined.from[at].clone();
            joined.apart.push(EntryApart { path: path.clone(), name: None, leaves: None });
            joined.to.push(path);
            at += 1;
            continue;
        }
        let shared = shared_names(tree, &run);
        let is_apart = |id: &FileNodeId| shared.contains_key(id) || leaving.contains_key(id);
        let alone: Vec<FileNodeId> = run.iter().copied().filter(|id| !is_apart(id)).collect();
        let is_worth_it = alone.len() >= WORTH_JOINING;
        let linked = is_worth_it.then(|| link(tree, number, &alone)).flatten();
        let is_linked = linked.is_some();
        number += u32::from(is_linked);
        joined.to.extend(linked);
        for (index, id) in run.iter().enumerate() {
            let path = joined.from[at + index].clone();
            if is_linked && !is_apart(id) {
                continue;
            }
            if is_linked {
                let (name, leaves) = (shared.get(id).cloned(), leaving.get(id).cloned());
                joined.apart.push(EntryApart { path: path.clone(), name, leaves });
            }
            joined.to.push(path);
        }
        at += run.len();
    }
    if number == 0 {
        return None;
    }
    let text = serde_json::to_vec(&joined).ok()?;
    for directory in tops(tree, &nodes) {
        if let Some(kept) = tree.child(directory, JOINED.as_bytes()) {
            let attributes = tree.nodes[kept as usize].attributes;
            tree.add_content(kept, SAID.as_bytes(), attributes, text.as_slice().into());
        }
    }
    Some(joined)
}

/// The packed directories that hold these.
fn tops(tree: &FileTree, nodes: &[Option<FileNodeId>]) -> BTreeSet<FileNodeId> {
    nodes.iter().flatten().filter_map(|id| top(tree, *id)).collect()
}

/// The packed directory that holds another, or is it.
fn top(tree: &FileTree, mut id: FileNodeId) -> Option<FileNodeId> {
    while id != 0 && !tree.nodes[tree.nodes[id as usize].parent as usize].is_above {
        id = tree.nodes[id as usize].parent;
    }
    (!tree.nodes[id as usize].is_above).then_some(id)
}

/// A directory of the tree that a path means now.
fn directory(tree: &FileTree, path: &Path) -> Option<FileNodeId> {
    let real = path.canonicalize().ok().filter(|_| path.is_absolute())?;
    match tree.find(&real) {
        PathTarget::Inside(id) => {
            let node = &tree.nodes[id as usize];
            (matches!(node.kind, FileNodeKind::Directory(_)) && !node.is_above).then_some(id)
        }
        PathTarget::Outside(_) | PathTarget::Nowhere => None,
    }
}

/// The entries that offer a name that another one offers, and the first such name.
fn shared_names(tree: &FileTree, entries: &[FileNodeId]) -> HashMap<FileNodeId, String> {
    let mut offered: HashMap<Vec<u8>, Vec<FileNodeId>> = HashMap::new();
    for entry in entries {
        let all = children(tree, *entry);
        let names = all.iter().filter_map(|id| key(&tree.nodes[*id as usize].name));
        let points = all.iter().flat_map(|id| entry_points(tree, *id));
        let keys: BTreeSet<Vec<u8>> = names.chain(points).collect();
        keys.into_iter().for_each(|key| offered.entry(key).or_default().push(*entry));
    }
    let mut shared = HashMap::new();
    let mut several: Vec<_> = offered.into_iter().filter(|(_, by)| by.len() > 1).collect();
    several.sort();
    for (key, by) in several {
        for entry in by {
            shared.entry(entry).or_insert_with(|| String::from_utf8_lossy(&key).into_owned());
        }
    }
    shared
}

/// What a name in an entry stands for: a module, whatever file it is of, or a distribution, of
/// whatever version. None: nothing reads it there.
fn key(name: &[u8]) -> Option<Vec<u8>> {
    if name == BYTECODE || name.ends_with(b".pth") {
        return None;
    }
    let end = |at: u8| name.iter().position(|byte| *byte == at).unwrap_or(name.len());
    match [&b".dist-info"[..], b".egg-info"].iter().any(|it| name.ends_with(it)) {
        true => {
            let plain = |byte: &u8| match byte {
                b'.' | b'_' => b'_',
                byte => byte.to_ascii_lowercase(),
            };
            Some(
                [b"distribution ".to_vec(), name[..end(b'-')].iter().map(plain).collect()].concat(),
            )
        }
        false => Some(name[..end(b'.').max(1).min(name.len())].to_vec()),
    }
}

/// What a distribution offers to others by name: who looks for it takes the first one, or the last,
/// in the order of PYTHONPATH. The commands that are made of such names when it is installed are
/// nobody's to look for.
fn entry_points(tree: &FileTree, distribution: FileNodeId) -> Vec<Vec<u8>> {
    let list = tree.child(distribution, b"entry_points.txt");
    let Some(text) = list.and_then(|list| read(tree, file_of(tree, list)?)) else {
        return Vec::new();
    };
    let (mut group, mut points) = (Vec::new(), Vec::new());
    for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if let Some(name) = line.strip_prefix(b"[").and_then(|it| it.strip_suffix(b"]")) {
            group = name.trim_ascii().to_vec();
        } else if let Some(end) = line.iter().position(|byte| *byte == b'=')
            && !matches!(&group[..], b"console_scripts" | b"gui_scripts")
        {
            let name = line[..end].trim_ascii();
            points.push([b"entry point ", &group[..], b" ", name].concat());
        }
    }
    points
}

fn children(tree: &FileTree, directory: FileNodeId) -> Vec<FileNodeId> {
    match &tree.nodes[directory as usize].kind {
        FileNodeKind::Directory(children) => children.clone(),
        _ => Vec::new(),
    }
}

/// Links all that these entries offer into one new directory; where that is in the image.
fn link(tree: &mut FileTree, number: u32, entries: &[FileNodeId]) -> Option<PathBuf> {
    let top = top(tree, *entries.first()?)?;
    let kept = match tree.child(top, JOINED.as_bytes()) {
        // It is somebody else's.
        Some(_) if number == 0 => return None,
        Some(kept) => kept,
        None => tree.add_directory(top, JOINED.as_bytes()),
    };
    let joined = tree.add_directory(kept, number.to_string().as_bytes());
    let from = tree.below(joined);
    let mut bytecode = None;
    for entry in entries {
        let place = tree.below(*entry);
        for child in children(tree, *entry) {
            let name = tree.nodes[child as usize].name.clone();
            if name == BYTECODE {
                let there = *bytecode.get_or_insert_with(|| tree.add_directory(joined, BYTECODE));
                for file in children(tree, child) {
                    let file = tree.nodes[file as usize].name.clone();
                    let target = place.join(OsStr::from_bytes(BYTECODE));
                    let target = target.join(OsStr::from_bytes(&file));
                    let target = relative(&from.join("__pycache__"), &target);
                    // Of two with the same name neither has a source beside it.
                    if tree.child(there, &file).is_none() {
                        tree.add_link(there, &file, target.as_os_str().as_bytes());
                    }
                }
            } else if key(&name).is_some() {
                let target = relative(&from, &place.join(OsStr::from_bytes(&name)));
                tree.add_link(joined, &name, target.as_os_str().as_bytes());
            }
        }
    }
    Some(tree.place(joined))
}

/// A path from a directory to another place, both from the image's root.
fn relative(directory: &Path, to: &Path) -> PathBuf {
    let same = directory.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = directory.components().skip(same).map(|_| "..".as_ref());
    up.chain(to.components().skip(same).map(|part| part.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_the_same_name_whatever_file_it_is_of_and_a_distribution_whatever_version() {
        let said = |name: &str| key(name.as_bytes()).map(|key| String::from_utf8(key).unwrap());
        for name in ["six", "six.py", "six.cpython-311-x86_64-linux-gnu.so", "six.abi3.so"] {
            assert_eq!(said(name).unwrap(), "six", "{name}");
        }
        let one = said("Ruamel.yaml-0.1.dist-info").unwrap();
        assert_eq!(one, said("ruamel_yaml-0.2-py3.11.egg-info").unwrap());
        assert_eq!((said("__pycache__"), said("easy-install.pth")), (None, None));
        assert_eq!(said(".hidden").unwrap(), ".");
    }

    #[test]
    fn an_entry_is_found_among_others_and_only_whole() {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let joined =
            JoinedPath { from: paths(&["/a", "/b"]), to: paths(&["/ab"]), apart: Vec::new() };
        let applied = |search: &str| joined.applied_to(OsStr::new(search));
        assert_eq!(applied("/a:/b"), Some(paths(&["/ab"])));
        assert_eq!(applied("/x:/a:/b:/y"), Some(paths(&["/x", "/ab", "/y"])));
        assert_eq!((applied("/b:/a"), applied("/a:/x:/b"), applied("")), (None, None, None));
    }
}
