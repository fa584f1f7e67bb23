//! The ways in which the calls of a recording are laid out as trees.
//!
//! | file | what it holds |
//! |---|---|
//! | `storms` | what `becalm check` found, and the causes of what belongs to no storm |
//! | `directories` | directories, level by level |
//! | this one | processes, and the rows of `becalm report` |

mod directories;
mod storms;

use explain::ExplainedCalls;
use recording::Recording;
use recording::query::{GroupBy, RowsOfCalls, process_name};

use crate::call_tree::{CallTree, GrowingTree, NOWHERE, ROOT};

/// A way to lay the calls out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// As `becalm check` finds them.
    Storms,
    /// Who started whom.
    Processes,
    /// Why they were made.
    Causes,
    /// Where their paths lie.
    Directories,
    /// Which library was looked for.
    Libraries,
    /// Which Python module or modulefile was looked for.
    Modules,
    /// Which line of a script started the process.
    Lines,
    /// Which system call they are.
    Syscalls,
}

impl View {
    /// All of them, in the order in which they are shown.
    pub const ALL: [View; 8] = [
        View::Processes,
        View::Storms,
        View::Causes,
        View::Directories,
        View::Libraries,
        View::Modules,
        View::Lines,
        View::Syscalls,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            View::Storms => "storms",
            View::Processes => "processes",
            View::Causes => "causes",
            View::Directories => "directories",
            View::Libraries => "libraries",
            View::Modules => "modules",
            View::Lines => "lines",
            View::Syscalls => "syscalls",
        }
    }

    /// The same where all of them stand in a line.
    pub fn short_name(self) -> &'static str {
        if self == View::Directories { "dirs" } else { self.name() }
    }

    /// What a recording has no rows for, in a sentence.
    pub fn nothing(self) -> &'static str {
        match self {
            View::Storms => "No metadata operation was recorded.",
            View::Libraries => "The loader looked for no library.",
            View::Modules => "No Python module and no modulefile was looked for.",
            _ => "No call was recorded.",
        }
    }

    /// Whether the order of its rows is that of what happened.
    pub fn has_order_of_its_own(self) -> bool {
        self == View::Processes
    }

    /// Lays out the calls of a recording; `found` is what [`View::Storms`] shows.
    pub fn tree(self, recording: &Recording, found: Option<&ExplainedCalls>) -> CallTree {
        let by = match self {
            View::Storms => return storms::tree(recording, found),
            View::Processes => return processes(recording),
            View::Directories => return directories::tree(recording),
            View::Modules => return modules(recording),
            View::Causes => GroupBy::Cause,
            View::Libraries => GroupBy::Library,
            View::Lines => GroupBy::Line,
            View::Syscalls => GroupBy::Syscall,
        };
        rows(recording, by, |tree, name| tree.below(ROOT, name))
    }
}

/// The rows of a report's table, each at a place in the tree.
fn rows(
    recording: &Recording,
    by: GroupBy,
    mut node: impl FnMut(&mut GrowingTree, &[u8]) -> u32,
) -> CallTree {
    let grouped = RowsOfCalls::of(recording, by);
    let mut tree = GrowingTree::new();
    let nodes: Vec<u32> = grouped.rows.iter().map(|row| node(&mut tree, &row.raw_key)).collect();
    let of_call = |call| grouped.of_call(call).map_or(NOWHERE, |row| nodes[row]);
    tree.grown((0..recording.events.len()).map(of_call).collect())
}

/// `numpy.core` is below `numpy`; a modulefile (`gcc/12.1`) and what is in brackets are themselves.
fn modules(recording: &Recording) -> CallTree {
    rows(recording, GroupBy::Module, |tree, name| {
        match name.contains(&b'/') || name.starts_with(b"(") {
            true => tree.below(ROOT, name),
            false => {
                name.split(|byte| *byte == b'.').fold(ROOT, |above, part| tree.below(above, part))
            }
        }
    })
}

/// A process is below the one that started it.
fn processes(recording: &Recording) -> CallTree {
    let mut tree = GrowingTree::new();
    let mut nodes: Vec<u32> = Vec::with_capacity(recording.processes.len());
    for process in &recording.processes {
        let above = process.parent.map_or(ROOT, |parent| nodes[parent.0 as usize]);
        let name = format!("{} {}", process_name(recording, process), process.pid);
        nodes.push(tree.add(above, name));
    }
    let node = |event: &recording::Event| nodes[event.process.0 as usize];
    let of_call = recording.events.iter().map(node).collect();
    tree.shows_empty = true;
    tree.grown(of_call)
}
