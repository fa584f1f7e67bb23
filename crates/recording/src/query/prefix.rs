//! Calls by the directory that their path lies below.
//!
//! Which directories? Those that explain most with few rows: from the leaves up, a directory that
//! holds a twentieth of all operations that no row below it has explained becomes a row of its
//! own; what is less goes up to its parent ('hierarchical heavy hitters'). So there are about
//! 20 rows at most, each is the deepest directory that still matters, each call is in one of
//! them, and they add up.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use super::sum::{Groups, Keys, RowOfCall};
use super::{CallFilter, clean};
use crate::header::is_below;
use crate::{Event, Kind, Recording};

/// The directories that a table tells apart.
pub(super) type PrefixDirectories = BTreeSet<Vec<u8>>;

/// A directory is a row if it holds one part in this many that no row below it has.
const PARTS: u64 = 20;

/// Directories deeper than this are not told apart: a bound for hostile recordings.
const DEEPEST: usize = 64;

/// Calls on descriptors without a path, and on sockets and pipes.
const NO_PATH: &[u8] = b"(no path)";

/// Puts each call in the row of the next level below the filter's directory; without one, in that
/// of the deepest of `directories` that it is below.
pub(super) fn group(
    recording: &Recording,
    filter: &CallFilter,
    directories: &PrefixDirectories,
) -> Groups {
    let mut keys = Keys::default();
    let rows = match filter.below.is_empty() {
        true => deepest(recording, directories, &mut keys),
        false => {
            let below: Vec<_> = filter.below.iter().map(|directory| clean(directory)).collect();
            children(recording, &below, &mut keys)
        }
    };
    let none = keys.row(NO_PATH);
    let place = |event: &Event| {
        RowOfCall::observed(event.path.map_or(none, |path| rows[path.0 as usize].unwrap_or(none)))
    };
    Groups { places: recording.events.iter().map(place).collect(), rows: keys.rows }
}

/// The row of each path: the deepest of the directories above it.
fn deepest(
    recording: &Recording,
    directories: &PrefixDirectories,
    keys: &mut Keys,
) -> Vec<Option<u32>> {
    let lengths: BTreeSet<usize> = directories.iter().map(|directory| directory.len()).collect();
    let mut row = |path: &[u8]| {
        let path = clean(path);
        let above = lengths.iter().rev().filter_map(|length| path.get(..*length));
        let mut above = above
            .filter(|directory| is_below(&path, directory) && directories.contains(*directory));
        above.next().map(|directory| keys.row(directory))
    };
    recording.paths().map(&mut row).collect()
}

/// How many metadata operations each path has; calls, where there are no such operations.
fn weights(recording: &Recording, selected: &[bool]) -> Vec<u64> {
    let count = |counts: &dyn Fn(&Event) -> bool| {
        let mut weights = vec![0; recording.path_count()];
        for (event, selected) in recording.events.iter().zip(selected) {
            if let Some(path) = event.path.filter(|_| *selected && counts(event)) {
                weights[path.0 as usize] += 1;
            }
        }
        weights
    };
    let metadata = count(&|event| event.is_metadata());
    if metadata.iter().any(|weight| *weight > 0) { metadata } else { count(&|_| true) }
}

/// The row of each path: the next level below the first of `directories` that it is below, or that
/// itself.
fn children(recording: &Recording, directories: &[Cow<[u8]>], keys: &mut Keys) -> Vec<Option<u32>> {
    let mut row = |path: &[u8]| {
        let path = clean(path);
        let directory = directories.iter().find(|directory| is_below(&path, directory))?;
        let skip = if **directory == b"/"[..] { 1 } else { directory.len() + 1 };
        let rest = path.get(skip..).unwrap_or(b"");
        let child = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        Some(keys.row(path.get(..skip + child).unwrap_or(directory)))
    };
    recording.paths().map(&mut row).collect()
}

/// A directory of the recording, or a file: the tree of all paths.
struct PrefixNode {
    parent: usize,
    /// Length of its path, which is a prefix of the path that made it.
    length: usize,
    path: usize,
    is_directory: bool,
    /// Operations on it and below it that no row explains yet.
    weight: u64,
}

/// The directories to tell apart in a table of the selected calls; the root is always one.
pub(super) fn heavy(recording: &Recording, selected: &[bool]) -> PrefixDirectories {
    let paths: Vec<_> = recording.paths().map(clean).collect();
    let (mut nodes, leaves) = tree(&paths);
    let mut total = 0;
    for (leaf, weight) in leaves.iter().zip(weights(recording, selected)) {
        if let Some(leaf) = leaf {
            nodes[*leaf].weight += weight;
            total += weight;
        }
    }
    for event in recording.events.iter().filter(|event| event.kind() == Kind::List) {
        if let Some(leaf) = event.path.and_then(|path| leaves[path.0 as usize]) {
            nodes[leaf].is_directory = true;
        }
    }
    let mut directories = PrefixDirectories::from([b"/".to_vec()]);
    // Children come after their parents, so this goes from the leaves up.
    for at in (1..nodes.len()).rev() {
        let PrefixNode { parent, length, path, is_directory, weight } = nodes[at];
        if is_directory && weight > 0 && weight * PARTS >= total {
            directories.insert(paths[path][..length].to_vec());
        } else {
            nodes[parent].weight += weight;
        }
    }
    directories
}

/// The tree of all absolute paths, its root first and parents before children, and the node of
/// each path.
fn tree(paths: &[Cow<[u8]>]) -> (Vec<PrefixNode>, Vec<Option<usize>>) {
    let mut nodes =
        vec![PrefixNode { parent: 0, length: 1, path: 0, is_directory: true, weight: 0 }];
    let mut known: HashMap<&[u8], usize> = HashMap::from([(&b"/"[..], 0)]);
    let mut leaves = Vec::with_capacity(paths.len());
    for (path, bytes) in paths.iter().enumerate() {
        if bytes.first() != Some(&b'/') {
            leaves.push(None);
            continue;
        }
        let ends = (1..=bytes.len()).filter(|end| *end == bytes.len() || bytes[*end] == b'/');
        let mut at = 0;
        for length in ends.filter(|end| *end > 1).take(DEEPEST) {
            nodes[at].is_directory = true;
            at = *known.entry(&bytes[..length]).or_insert_with(|| {
                nodes.push(PrefixNode { parent: at, length, path, is_directory: false, weight: 0 });
                nodes.len() - 1
            });
        }
        leaves.push(Some(at));
    }
    (nodes, leaves)
}
