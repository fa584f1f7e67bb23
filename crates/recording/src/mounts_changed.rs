//! Whether the command changed what its paths mean.

use crate::{Blind, Outcome, Recording, shown};

/// Calls that mount something somewhere (mount(2), move_mount(2)).
const MOUNTING: [&str; 2] = ["mount", "move_mount"];

impl Recording {
    /// How the command came to other mounts than it was started with, if it did: `becalm run
    /// --image`, a container. Which filesystem answered from then on is not recorded.
    pub fn mounts_changed(&self) -> Option<String> {
        let mounting = self.events.iter().filter(|event| {
            matches!(event.outcome, Outcome::Returned(_))
                && MOUNTING.contains(&&*event.call.label())
        });
        // A mount on / alone is only told not to spread (mount_namespaces(7)).
        let mut points = mounting.filter_map(|event| event.path.map(|path| self.path(path)));
        let point = points.rfind(|path| *path != b"/");
        let moved = self.blinds.iter().any(|blind| matches!(blind, Blind::OtherRoot { .. }));
        match (point, moved) {
            (Some(point), _) => Some(format!("a mount on {}", shown(point))),
            (None, true) => Some("it entered another root or mount namespace".to_owned()),
            (None, false) => None,
        }
    }

    /// How many metadata operations it holds: what `becalm report` counts.
    pub fn metadata_operations(&self) -> u64 {
        self.events.iter().filter(|event| event.is_metadata()).count() as u64
    }
}
