//! Operations and failed lookups by the directory in which a name was looked up.

use std::collections::HashMap;

use recording::query::clean;
use recording::{Event, PathId, Recording};

use crate::call_use::CallUse;
use crate::count_tree::{CountTree, TreeRows};

/// Directories that a page shows.
const MOST: usize = 2_500;
/// Directories deeper than this are not told apart: a bound for hostile recordings.
const DEEPEST: usize = 24;

/// The directories of a recording.
pub(crate) struct DirectoryCounts<'a> {
    recording: &'a Recording,
    tree: CountTree,
    /// The node of each path's directory, once it was asked for.
    above: HashMap<PathId, u32>,
    /// The node of a directory that was listed.
    listed: HashMap<PathId, u32>,
}

impl<'a> DirectoryCounts<'a> {
    pub(crate) fn new(recording: &'a Recording) -> DirectoryCounts<'a> {
        let (above, listed) = (HashMap::new(), HashMap::new());
        DirectoryCounts { recording, tree: CountTree::new(b"/"), above, listed }
    }

    pub(crate) fn count(&mut self, event: &Event, cause: usize, uses: CallUse) {
        let Some(path) = event.path else {
            let none = self.tree.below(0, b"(no path)");
            return self.tree.count(none, cause, uses);
        };
        let (recording, tree) = (self.recording, &mut self.tree);
        let (known, is_itself) = match event.is_listing() {
            true => (&mut self.listed, true),
            false => (&mut self.above, false),
        };
        let node =
            *known.entry(path).or_insert_with(|| directory(tree, recording.path(path), is_itself));
        tree.count(node, cause, uses);
    }

    pub(crate) fn rows(self) -> TreeRows {
        self.tree.rows(MOST)
    }
}

/// The node of a path's directory, or of the path itself.
fn directory(tree: &mut CountTree, path: &[u8], is_itself: bool) -> u32 {
    let path = clean(path);
    let end = match is_itself {
        true => path.len(),
        false => path.iter().rposition(|byte| *byte == b'/').unwrap_or(0),
    };
    let parts = path[..end].split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    parts.take(DEEPEST).fold(0, |above, part| tree.below(above, part))
}
