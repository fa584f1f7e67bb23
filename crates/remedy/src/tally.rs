//! How much was changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{FileChange, ItemKind};

/// How many of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// Files patched or replaced; of an undo, files that have their old bytes again.
    pub patched: u64,
    /// Files created; of an undo, such files removed.
    pub created: u64,
    /// Symbolic links created; of an undo, removed.
    pub linked: u64,
    /// Directories created; of an undo, removed.
    pub directories: u64,
    /// Files, links and directories removed; of an undo, put back.
    pub removed: u64,
}

impl Tally {
    /// Of changes as a plan makes them.
    pub(crate) fn of<'a>(changes: impl Iterator<Item = &'a FileChange>) -> Tally {
        let mut tally = Tally::default();
        for change in changes {
            *match change {
                FileChange::Patch(_) | FileChange::Replace(_) => &mut tally.patched,
                FileChange::Remove(_) => &mut tally.removed,
                FileChange::Add(item) => match item.thing {
                    ItemKind::File { .. } => &mut tally.created,
                    ItemKind::Link { .. } => &mut tally.linked,
                    ItemKind::Directory { .. } => &mut tally.directories,
                },
            } += 1;
        }
        tally
    }
}
