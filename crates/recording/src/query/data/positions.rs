//! Where in its file a call reads that does not say so: at the descriptor's position, which opening
//! it, seeking and reading set.

use std::collections::HashMap;

use crate::{Event, FileRange, Kind, Outcome, ProcessId};

/// The positions of descriptors. One that was opened where nobody looked is taken to be at its
/// file's beginning, and one that another duplicates to have a position of its own.
#[derive(Default)]
pub(super) struct Positions {
    known: HashMap<(ProcessId, i32), u64>,
}

impl Positions {
    /// Takes in a call, and says where it read, if it did.
    pub(super) fn take_in(&mut self, event: &Event, range: Option<&FileRange>) -> u64 {
        let Outcome::Returned(value) = event.outcome else { return 0 };
        match (event.kind(), event.call.known_name(), event.fd) {
            (Kind::Open, ..) => {
                self.known.remove(&(event.process, value as i32));
            }
            (Kind::Close, _, Some(fd)) => {
                self.known.remove(&(event.process, fd));
            }
            (_, Some("lseek"), Some(fd)) => {
                self.known.insert((event.process, fd), value as u64);
            }
            (Kind::Read | Kind::Write, _, Some(fd)) => {
                if let Some(range) = range {
                    return range.offset;
                }
                let position = self.known.entry((event.process, fd)).or_default();
                let at = *position;
                *position = at.saturating_add(value.max(0) as u64);
                return at;
            }
            _ => {}
        }
        0
    }
}
