//! `realpath` storms: an lstat for each directory above each path, so that the cost grows with the
//! depth at which the software is installed (Python's `posixpath.realpath`).

use std::collections::{BTreeMap, HashSet};

use recording::shown;

use super::{PythonTrouble, PythonTroubleKind, trouble};
use crate::attribute::PlacedOperation;
use crate::tree::{ImportNodeId, ImportTree};
use recording::module_search::LookupReason;

/// Fewer are no storm.
const MANY: u64 = 50;

#[derive(Default)]
struct LinkCaller<'a> {
    metadata_ops: u64,
    paths: HashSet<&'a [u8]>,
    /// Questions for a directory of the root: each walk begins with one.
    walks: u64,
}

/// Callers are the imports that the calls were made in, as far as that was observed.
pub(super) fn troubles(placed: &[PlacedOperation], tree: &ImportTree) -> Vec<PythonTrouble> {
    let mut callers: BTreeMap<Option<ImportNodeId>, LinkCaller> = BTreeMap::new();
    for placed in placed.iter().filter(|placed| placed.reason == LookupReason::Link) {
        let caller = callers.entry(placed.node).or_default();
        caller.metadata_ops += 1;
        caller.paths.insert(placed.ask.path);
        caller.walks += u64::from(components(placed.ask.path) == 1);
    }
    let many = callers.into_iter().filter(|(_, caller)| caller.metadata_ops >= MANY);
    many.map(|(node, caller)| caller.trouble(node.map(|node| shown(tree.module(node))))).collect()
}

impl LinkCaller<'_> {
    fn trouble(self, module: Option<String>) -> PythonTrouble {
        let who = module.map_or("outside of known imports".to_owned(), |name| format!("by {name}"));
        let distinct = self.paths.len() as u64;
        let deepest = self.paths.iter().copied().max_by_key(|path| (components(path), *path));
        let depth = deepest.map_or(0, components);
        let text = format!(
            "{} lstats {who}, of {distinct} paths: realpath, which asks for every directory above \
             ({} times from the root, up to {depth} deep)",
            self.metadata_ops, self.walks
        );
        let numbers = [("distinct", distinct), ("walks", self.walks), ("deepest", depth)];
        trouble(PythonTroubleKind::Realpath, text, self.metadata_ops, &numbers, deepest)
    }
}

fn components(path: &[u8]) -> u64 {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).count() as u64
}
