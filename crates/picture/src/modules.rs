//! Python modules by package, and modulefiles, with what the search for each cost.

use recording::Recording;
use recording::query::{GroupBy, RowsOfCalls};

use crate::call_use::CallUse;
use crate::count_tree::{CountTree, TreeRows};

/// Modules that a page shows.
const MOST: usize = 2_000;

/// The searches for modules.
pub(crate) struct ModuleCounts {
    rows: RowsOfCalls,
    tree: CountTree,
    /// The node of each row.
    nodes: Vec<u32>,
}

impl ModuleCounts {
    pub(crate) fn new(recording: &Recording) -> ModuleCounts {
        let rows = RowsOfCalls::of(recording, GroupBy::Module);
        let mut tree = CountTree::new(b"modules");
        let nodes = rows.rows.iter().map(|row| node(&mut tree, &row.raw_key)).collect();
        ModuleCounts { rows, tree, nodes }
    }

    pub(crate) fn count(&mut self, number: usize, cause: usize, uses: CallUse) {
        if let Some(row) = self.rows.of_call(number) {
            self.tree.count(self.nodes[row], cause, uses);
        }
    }

    pub(crate) fn rows(self) -> TreeRows {
        self.tree.rows(MOST)
    }
}

/// `numpy.core` is below `numpy`; a modulefile (`gcc/12.1`) and what is in brackets are themselves.
fn node(tree: &mut CountTree, name: &[u8]) -> u32 {
    if name.contains(&b'/') || name.starts_with(b"(") {
        return tree.below(0, name);
    }
    name.split(|byte| *byte == b'.').fold(0, |above, part| tree.below(above, part))
}
