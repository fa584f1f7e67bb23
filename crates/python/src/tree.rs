//! The imports as a tree: which module was imported while which other was.

use std::collections::{BTreeMap, HashMap, HashSet};

use recording::{Event, PathId, shown};

use crate::ask::ImportOperation;
use crate::runs::PythonRunId;
use crate::scan::{Import, ImportCounts};
use recording::module_search::LookupReason;

/// An import in the tree: a module, below the import that it was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ImportNodeId(pub(crate) usize);

#[derive(Default)]
struct ImportNode {
    module: Vec<u8>,
    parent: Option<ImportNodeId>,
    depth: u64,
    is_exact: bool,
    times: u64,
    own: ImportTally,
    reasons: BTreeMap<LookupReason, u64>,
    file: Option<Vec<u8>>,
}

/// Operations, and the paths that they named.
#[derive(Clone, Default)]
pub(crate) struct ImportTally {
    metadata_ops: u64,
    enoent: u64,
    paths: HashSet<PathId>,
}

impl ImportTally {
    pub(crate) fn add(&mut self, event: &Event) {
        self.metadata_ops += 1;
        self.enoent += u64::from(event.is_missing());
        self.paths.extend(event.path);
    }

    /// Takes in another's; the smaller set of paths is moved into the larger.
    fn merge(&mut self, mut other: ImportTally) {
        self.metadata_ops += other.metadata_ops;
        self.enoent += other.enoent;
        if other.paths.len() > self.paths.len() {
            std::mem::swap(&mut self.paths, &mut other.paths);
        }
        self.paths.extend(other.paths);
    }

    pub(crate) fn counts(&self) -> ImportCounts {
        ImportCounts {
            metadata_ops: self.metadata_ops,
            distinct: self.paths.len() as u64,
            enoent: self.enoent,
        }
    }
}

/// All imports, those of all processes in one tree.
#[derive(Default)]
pub(crate) struct ImportTree {
    nodes: Vec<ImportNode>,
    known: HashMap<(Option<ImportNodeId>, Vec<u8>), ImportNodeId>,
    guessed: HashSet<(PythonRunId, ImportNodeId)>,
}

impl ImportTree {
    fn node(&mut self, parent: Option<ImportNodeId>, module: &[u8]) -> ImportNodeId {
        let next = ImportNodeId(self.nodes.len());
        let node = *self.known.entry((parent, module.to_vec())).or_insert(next);
        if node == next {
            let depth = parent.map_or(0, |parent| self.nodes[parent.0].depth + 1);
            let module = module.to_vec();
            self.nodes.push(ImportNode { module, parent, depth, ..ImportNode::default() });
        }
        node
    }

    /// An import that was seen to begin.
    pub(crate) fn begin(&mut self, parent: Option<ImportNodeId>, module: &[u8]) -> ImportNodeId {
        let node = self.node(parent, module);
        self.nodes[node.0].times += 1;
        self.nodes[node.0].is_exact = true;
        node
    }

    /// An import that a file's path tells of: below its packages, since who imported it is not
    /// known.
    pub(crate) fn guess(&mut self, run: PythonRunId, module: &[u8]) -> ImportNodeId {
        let mut parent = None;
        for (dot, _) in module.iter().enumerate().filter(|(_, byte)| **byte == b'.') {
            // A name of dots alone has no package.
            if dot > 0 {
                parent = Some(self.node(parent, &module[..dot]));
            }
        }
        let node = self.node(parent, module);
        if self.guessed.insert((run, node)) {
            self.nodes[node.0].times += 1;
        }
        node
    }

    /// Counts an operation in an import.
    pub(crate) fn count(
        &mut self,
        node: ImportNodeId,
        ask: &ImportOperation,
        reason: LookupReason,
    ) {
        let node = &mut self.nodes[node.0];
        node.own.add(ask.event);
        *node.reasons.entry(reason).or_default() += 1;
        let is_its_file = matches!(reason, LookupReason::Source | LookupReason::Extension);
        if is_its_file && ask.is_yes() && node.file.is_none() {
            node.file = Some(ask.path.to_vec());
        }
    }

    /// The name of an import's module.
    pub(crate) fn module(&self, node: ImportNodeId) -> &[u8] {
        &self.nodes[node.0].module
    }

    /// Every import with its own and its cumulative counts, in the order of their first begin.
    pub(crate) fn imports(self) -> Vec<Import> {
        let mut cumulative: Vec<ImportTally> =
            self.nodes.iter().map(|node| node.own.clone()).collect();
        let mut counts = vec![ImportCounts::default(); self.nodes.len()];
        // A child's number is above its parent's.
        for at in (0..self.nodes.len()).rev() {
            let tally = std::mem::take(&mut cumulative[at]);
            counts[at] = tally.counts();
            if let Some(parent) = self.nodes[at].parent {
                cumulative[parent.0].merge(tally);
            }
        }
        let import = |(node, cumulative): (ImportNode, ImportCounts)| Import {
            module: shown(&node.module),
            parent: node.parent.map(|parent| parent.0),
            depth: node.depth,
            exact: node.is_exact,
            times: node.times,
            file: node.file.map(|file| shown(&file)),
            own: node.own.counts(),
            cumulative,
            reasons: node.reasons,
            time: None,
        };
        self.nodes.into_iter().zip(counts).map(import).collect()
    }
}
