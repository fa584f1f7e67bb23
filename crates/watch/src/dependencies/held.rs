//! Something that was written, and is held until it is known that nothing has to be done again.

use std::time::{Duration, Instant};

use launch::WaitAlarm;

/// So long a user waits for it: what waits for something else is killed at once, so that this is for what
/// computes, or reads from a slow filesystem.
const HELD_MOST: Duration = Duration::from_secs(5);

/// Why a command is killed that has written something and goes on for longer.
pub const GOES_ON: &str = "it goes on for long once it has written";

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
