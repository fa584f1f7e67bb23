//! What each metadata operation of a recording counts for in every view.

use cost::Prediction;
use recording::{Attributor, Event, Recording};
use serde::Serialize;

use crate::pictured_cause;

/// What some calls come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct CallUse {
    /// Metadata operations.
    pub ops: u64,
    /// Of those, failed lookups.
    pub failed: u64,
    /// Seconds that one rank waits for them.
    pub wait: f64,
}

impl std::ops::AddAssign for CallUse {
    fn add_assign(&mut self, other: CallUse) {
        self.ops += other.ops;
        self.failed += other.failed;
        self.wait += other.wait;
    }
}

/// Gives every metadata operation to a view: its number, itself, the number of its cause, and what
/// it counts for.
pub(crate) fn each(
    recording: &Recording,
    prediction: &Prediction,
    mut view: impl FnMut(usize, &Event, usize, CallUse),
) {
    let mut attributor = Attributor::new(recording);
    for (number, event) in recording.events.iter().enumerate() {
        if !event.is_metadata() {
            continue;
        }
        let cause = pictured_cause::number(attributor.attribute(event).cause);
        let failed = u64::from(event.is_missing());
        let wait = prediction.of_events([number]).one_rank;
        view(number, event, cause, CallUse { ops: 1, failed, wait });
    }
}
