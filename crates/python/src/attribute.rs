//! Which import each operation belongs to.
//!
//! Where the hook ran, the operation belongs to the innermost import that its thread is in: that is
//! observed. Elsewhere, and before the hook could run, a file names its module:
//! `…/site-packages/numpy/core/__init__.py` is `numpy.core`; what Python asks of directories before
//! it finds the file belongs to the module that the thread names next. That was right for 95 % of
//! the calls where it was held against the interpreter's own account.

use std::collections::HashMap;

use recording::query::clean;
use recording::query::python::ModuleDirectories;

use crate::ask::ImportOperation;
use crate::hook::HookMark;
use crate::runs::{PythonRunId, PythonRuns};
use crate::tree::{ImportNodeId, ImportTree};
use recording::module_search::{LookupReason, ModuleSearch};

/// What Python asked of directories after the last module it found.
const UNNAMED: &[u8] = b"(no module found)";
/// Imports nest no deeper (CPython's recursion limit is reached before); a recording that says
/// so is not believed.
const DEEPEST: usize = 1000;

/// An operation that is the program's, and what it was for.
#[derive(Clone, Copy)]
pub(crate) struct PlacedOperation<'a> {
    pub ask: ImportOperation<'a>,
    pub reason: LookupReason,
    /// The import that it belongs to, if any.
    pub node: Option<ImportNodeId>,
}

/// Places every operation that is not the hook's, and makes the tree of imports.
pub(crate) fn attribute<'a>(
    asks: &[ImportOperation<'a>],
    runs: &PythonRuns<'a>,
    known: &ModuleSearch,
    places: &ModuleDirectories<'a>,
) -> (Vec<PlacedOperation<'a>>, ImportTree) {
    let mut pass = AttributionPass {
        runs,
        known,
        places,
        tree: ImportTree::default(),
        placed: Vec::with_capacity(asks.len()),
        threads: HashMap::new(),
        started: runs.all.iter().map(|run| run.is_marked && run.forked_from.is_some()).collect(),
        names: HashMap::new(),
    };
    for ask in asks {
        match ask.mark {
            Some(mark) => pass.mark(ask, mark),
            None => pass.place(ask),
        }
    }
    pass.end()
}

/// A thread of a run.
type Thread = (PythonRunId, u32);

#[derive(Default)]
struct AttributionState {
    /// The imports that it is in, outermost first.
    stack: Vec<ImportNodeId>,
    /// Operations that belong to the module that it names next.
    waiting: Vec<usize>,
    /// The module that it named last.
    last: Option<ImportNodeId>,
}

struct AttributionPass<'k, 'a> {
    runs: &'k PythonRuns<'a>,
    known: &'k ModuleSearch,
    places: &'k ModuleDirectories<'a>,
    tree: ImportTree,
    /// None where the operation turned out to be the hook's.
    placed: Vec<Option<PlacedOperation<'a>>>,
    threads: HashMap<Thread, AttributionState>,
    /// Of each run, whether it says by now what it imports.
    started: Vec<bool>,
    names: HashMap<&'a [u8], Option<Vec<u8>>>,
}

impl<'a> AttributionPass<'_, 'a> {
    fn mark(&mut self, ask: &ImportOperation<'a>, mark: HookMark<'a>) {
        let state = self.threads.entry((ask.run, ask.event.thread)).or_default();
        match mark {
            HookMark::Start => self.started[ask.run.0] = true,
            HookMark::Begin(module) if state.stack.len() < DEEPEST => {
                let node = self.tree.begin(state.stack.last().copied(), module);
                state.stack.push(node);
            }
            HookMark::End(module) => {
                let tree = &self.tree;
                let open = state.stack.iter().rposition(|node| tree.module(*node) == module);
                if let Some(open) = open {
                    state.stack.truncate(open);
                }
            }
            // The command's own sitecustomize is looked for in the same directories once more.
            HookMark::Hook => {
                for directory in self.runs.run(ask.run).ahead.iter().rev() {
                    let asked = |at: usize| self.placed[at].map(|placed| placed.ask.path);
                    let last = state.waiting.last().copied();
                    if let Some(last) = last.filter(|last| asked(*last) == Some(&clean(directory)))
                    {
                        state.waiting.pop();
                        self.placed[last] = None;
                    }
                }
            }
            HookMark::Begin(_) | HookMark::Directory | HookMark::Path(..) => {}
        }
    }

    fn place(&mut self, ask: &ImportOperation<'a>) {
        let reason = self.known.reason(ask.event, ask.path);
        let at = self.placed.len();
        let node = if ask.is_start() {
            None
        } else if self.started[ask.run.0] {
            let state = self.threads.get(&(ask.run, ask.event.thread));
            state.and_then(|state| state.stack.last().copied())
        } else {
            self.by_path(ask, reason, at)
        };
        if let Some(node) = node {
            self.tree.count(node, ask, reason);
        }
        self.placed.push(Some(PlacedOperation { ask: *ask, reason, node }));
    }

    /// The import that the path speaks of; the operation is left waiting if the next one is to
    /// say so.
    fn by_path(
        &mut self,
        ask: &ImportOperation<'a>,
        reason: LookupReason,
        at: usize,
    ) -> Option<ImportNodeId> {
        let thread = (ask.run, ask.event.thread);
        let state = self.threads.entry(thread).or_default();
        // What the loader looks for is the loader's: for whom is seen in an import only.
        if ask.event.in_loader || !reason.is_import() {
            return None;
        }
        if let (LookupReason::BytecodeWrite, Some(last)) = (reason, state.last) {
            return Some(last);
        }
        let is_of_the_next =
            matches!(reason, LookupReason::Directory | LookupReason::Listing | LookupReason::Zip);
        let places = self.places;
        let name = self.names.entry(ask.path).or_insert_with(|| places.module(ask.path));
        let Some(name) = name.as_deref().filter(|_| !is_of_the_next) else {
            state.waiting.push(at);
            return None;
        };
        let node = self.tree.guess(ask.run, name);
        state.last = Some(node);
        let waiting = std::mem::take(&mut state.waiting);
        self.settle(waiting, node);
        Some(node)
    }

    fn settle(&mut self, waiting: Vec<usize>, node: ImportNodeId) {
        for at in waiting {
            if let Some(Some(placed)) = self.placed.get_mut(at) {
                placed.node = Some(node);
                self.tree.count(node, &placed.ask, placed.reason);
            }
        }
    }

    fn end(mut self) -> (Vec<PlacedOperation<'a>>, ImportTree) {
        let mut threads: Vec<_> = std::mem::take(&mut self.threads).into_iter().collect();
        threads.sort_by_key(|(thread, _)| *thread);
        for ((run, _), state) in threads {
            if !state.waiting.is_empty() {
                let node = self.tree.guess(run, UNNAMED);
                self.settle(state.waiting, node);
            }
        }
        (self.placed.into_iter().flatten().collect(), self.tree)
    }
}
