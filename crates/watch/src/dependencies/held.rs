//! Something that was written, and is held until it is known that nothing has to be done again.

use std::time::{Duration, Instant};

use launch::WaitAlarm;

/// So long a user waits for it.
const HELD_MOST: Duration = Duration::from_secs(1);

/// Since when it is held.
pub(super) struct HeldOutput {
    since: Instant,
    /// Ends the waiting for what comes next.
    _alarm: WaitAlarm,
}

impl HeldOutput {
    /// From now on.
    pub fn begin() -> HeldOutput {
        HeldOutput { since: Instant::now(), _alarm: WaitAlarm::after(HELD_MOST) }
    }

    /// Whether that is for too long.
    pub fn is_long(&self) -> bool {
        self.since.elapsed() >= HELD_MOST
    }
}
