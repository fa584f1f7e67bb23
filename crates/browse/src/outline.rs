//! A tree on the screen: which nodes are open, in which order, and where the cursor is.

use std::cmp::{Ordering, Reverse};

use recording::Recording;

use crate::call_tree::{CallTree, ROOT};
use crate::counts::CallFacts;
use crate::cursor::RowCursor;
use crate::typed_filter::SelectedCalls;
use crate::view::View;

/// What a tree is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeColumn {
    /// Metadata operations.
    Ops,
    /// Failed lookups.
    Failed,
    /// Predicted wait of one rank.
    Wait,
    /// Time in the calls.
    Time,
    /// Calls.
    Calls,
    /// The main cause.
    Cause,
    /// The name; of processes, when they began.
    Name,
}

impl TreeColumn {
    /// All of them, as they stand on the screen.
    pub const ALL: [TreeColumn; 7] = [
        TreeColumn::Ops,
        TreeColumn::Failed,
        TreeColumn::Wait,
        TreeColumn::Time,
        TreeColumn::Calls,
        TreeColumn::Cause,
        TreeColumn::Name,
    ];
}

/// A tree on the screen.
pub struct Outline {
    /// What it lays out.
    pub view: View,
    /// The tree.
    pub tree: CallTree,
    /// Which filter it was counted with.
    pub counted_with: u64,
    /// What it is sorted by.
    pub sort: TreeColumn,
    /// Whether it is sorted the other way round.
    pub is_reversed: bool,
    /// Of each node whether it is open.
    open: Vec<bool>,
    /// The nodes that can be scrolled to, in their order.
    rows: Vec<u32>,
    /// Where in them.
    pub cursor: RowCursor,
    /// All nodes in their order, as if all were open; empty until they are searched.
    order: Vec<u32>,
}

impl Outline {
    /// A tree, not yet counted, with what is below its first level closed.
    pub fn new(view: View, tree: CallTree) -> Outline {
        let open = vec![false; tree.len()];
        let sort = match view {
            View::Processes => TreeColumn::Name,
            View::Storms => TreeColumn::Wait,
            _ => TreeColumn::Ops,
        };
        Outline {
            view,
            tree,
            counted_with: 0,
            sort,
            is_reversed: false,
            open,
            rows: Vec::new(),
            cursor: RowCursor::default(),
            order: Vec::new(),
        }
    }

    /// CallCounts the selected calls; the cursor stays on its row if that is still there.
    pub fn count(&mut self, recording: &Recording, facts: &CallFacts, selected: &SelectedCalls) {
        self.tree.count(recording, facts, selected);
        self.arrange();
    }

    /// Opens what is open when the view is seen first: a single node, the root directory, and
    /// processes to a few levels.
    pub fn open_at_first(&mut self) {
        const LEVELS: usize = 3;
        const MOST: usize = 200;
        let is_process = self.view == View::Processes;
        for node in 1..self.tree.len().min(MOST) as u32 {
            let is_near = is_process && self.tree.depth(node) < LEVELS;
            self.open[node as usize] = is_near || self.tree.name(node) == "/";
        }
        self.open_only_children(ROOT);
        self.arrange();
    }

    /// Opens what is the only one below its node, and so on: there is nothing to choose from.
    fn open_only_children(&mut self, node: u32) {
        let mut node = node;
        loop {
            let mut below = self.tree.below(node);
            let (Some(only), None) = (below.next(), below.next()) else { return };
            drop(below);
            self.open[only as usize] = true;
            node = only;
        }
    }

    /// Puts the rows in order anew.
    pub fn arrange(&mut self) {
        let current = self.current();
        self.order.clear();
        self.rows = self.walked(|node| self.open[node as usize]);
        let again = current.and_then(|node| self.rows.iter().position(|row| *row == node));
        self.cursor.go_to(again.unwrap_or(self.cursor.at), self.rows.len());
    }

    /// The nodes from the root down, sorted, into those that are open.
    fn walked(&self, is_open: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut rows = Vec::new();
        let mut next: Vec<u32> = self.sorted_below(ROOT);
        while let Some(node) = next.pop() {
            rows.push(node);
            if is_open(node) {
                next.extend(self.sorted_below(node));
            }
        }
        rows
    }

    /// The nodes right below one, the last first.
    fn sorted_below(&self, node: u32) -> Vec<u32> {
        let mut below: Vec<u32> = self.tree.below(node).collect();
        below.sort_by(|one, other| {
            let order = self.compare(*one, *other);
            // Where all is equal, as they came.
            (if self.is_reversed { order.reverse() } else { order }).then(one.cmp(other)).reverse()
        });
        below
    }

    fn compare(&self, one: u32, other: u32) -> Ordering {
        let (a, b) = (self.tree.counts(one), self.tree.counts(other));
        match self.sort {
            TreeColumn::Ops => (b.ops, b.calls).cmp(&(a.ops, a.calls)),
            TreeColumn::Failed => (b.failed, b.ops).cmp(&(a.failed, a.ops)),
            TreeColumn::Wait => b.wait.total_cmp(&a.wait).then(b.ops.cmp(&a.ops)),
            TreeColumn::Time => b.time.cmp(&a.time),
            TreeColumn::Calls => b.calls.cmp(&a.calls),
            TreeColumn::Cause => {
                (a.main_cause(), Reverse(a.ops)).cmp(&(b.main_cause(), Reverse(b.ops)))
            }
            TreeColumn::Name if self.view.has_order_of_its_own() => one.cmp(&other),
            TreeColumn::Name => self.tree.name(one).cmp(self.tree.name(other)),
        }
    }

    /// How many rows can be scrolled to.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows that are seen, so many at most.
    pub fn seen(&mut self, height: usize) -> &[u32] {
        let seen = self.cursor.seen(self.rows.len(), height);
        &self.rows[seen]
    }

    /// The node at the cursor.
    pub fn current(&self) -> Option<u32> {
        self.rows.get(self.cursor.at).copied()
    }

    /// Whether a node is open.
    pub fn is_open(&self, node: u32) -> bool {
        self.open[node as usize]
    }

    /// Whether there is anything below a node.
    pub fn has_below(&self, node: u32) -> bool {
        self.tree.below(node).next().is_some()
    }

    /// Opens the node at the cursor; one that is open: goes to the first below it.
    pub fn open(&mut self) {
        let Some(node) = self.current().filter(|node| self.has_below(*node)) else { return };
        if self.is_open(node) {
            return self.cursor.go_to(self.cursor.at + 1, self.rows.len());
        }
        self.open[node as usize] = true;
        self.open_only_children(node);
        self.arrange();
    }

    /// Closes the node at the cursor; one that is closed: goes to that above it.
    pub fn close(&mut self) {
        let Some(node) = self.current() else { return };
        if self.is_open(node) && self.has_below(node) {
            self.open[node as usize] = false;
            return self.arrange();
        }
        let above = self.tree.above(node);
        if above != ROOT {
            self.reveal(above);
        }
    }

    /// Opens and closes.
    pub fn toggle(&mut self) {
        match self.current() {
            Some(node) if self.is_open(node) => self.close(),
            _ => self.open(),
        }
    }

    /// Opens all nodes, or closes all.
    pub fn open_all(&mut self, is_open: bool) {
        self.open.fill(is_open);
        self.arrange();
    }

    /// Goes to the next node whose name has this text (in lower case), or to the one before, round
    /// the end; false where none has.
    pub fn search(&mut self, text: &str, is_forward: bool) -> bool {
        if self.order.is_empty() {
            self.order = self.walked(|_| true);
        }
        let all = self.order.len();
        let current = self.current();
        let at = self.order.iter().position(|node| Some(*node) == current).unwrap_or(0);
        let step = |by: usize| if is_forward { (at + by) % all } else { (at + all - by) % all };
        let has = |node: &u32| self.tree.name(*node).to_lowercase().contains(text);
        let found = (1..=all).map(|by| self.order[step(by)]).find(has);
        let Some(found) = found else { return false };
        let order = std::mem::take(&mut self.order);
        self.reveal(found);
        self.order = order;
        true
    }

    /// Opens all that is above a node, and goes to it.
    fn reveal(&mut self, node: u32) {
        let mut above = self.tree.above(node);
        while above != ROOT {
            self.open[above as usize] = true;
            above = self.tree.above(above);
        }
        self.arrange();
        if let Some(row) = self.rows.iter().position(|row| *row == node) {
            self.cursor.go_to(row, self.rows.len());
        }
    }
}
