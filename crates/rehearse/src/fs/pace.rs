//! What handing a question over and an answer back costs, as long as the server runs.
//!
//! Whoever asks again and again lets a server see it: from an answer to the next question of the
//! same thread passes the time in which the answer goes to the thread and the question comes from
//! it, and what the thread does between. Of many such gaps the short ones are those in which it
//! did nothing. That much earlier an answer must be given, so that whoever asked has waited as
//! long as the profile says.

use recording::Nanos;

/// Follows the lower fifth of the gaps.
#[derive(Debug)]
pub(super) struct CallerPace {
    hand_over: u64,
    /// The threads that were answered lately, and when.
    answered: [(u32, u64); SLOTS],
}

const SLOTS: usize = 64;
/// Longer gaps are a thread's own work.
const LONGEST: u64 = 40_000;
/// Handing over never takes longer than this by itself.
const MOST: u64 = 25_000;
/// One gap moves the estimate by this, or four times this if it is a short one.
const STEP: u64 = 100;

impl CallerPace {
    /// Begins with this estimate.
    pub fn new(hand_over: Nanos) -> CallerPace {
        CallerPace { hand_over: hand_over.0.min(MOST), answered: [(0, 0); SLOTS] }
    }

    /// A thread asks; gives what handing over costs now.
    pub fn asked(&mut self, thread: u32, at: Nanos) -> Nanos {
        let (last, answered) = self.answered[thread as usize % SLOTS];
        let gap = at.0.saturating_sub(answered);
        if last == thread && gap < LONGEST {
            self.hand_over = match gap < self.hand_over {
                true => self.hand_over.saturating_sub(4 * STEP),
                false => (self.hand_over + STEP).min(MOST),
            };
        }
        Nanos(self.hand_over)
    }

    /// A thread will get its answer at this time.
    pub fn answers(&mut self, thread: u32, at: Nanos) {
        self.answered[thread as usize % SLOTS] = (thread, at.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(gaps: impl Iterator<Item = u64>) -> u64 {
        let mut pace = CallerPace::new(Nanos(5_000));
        let mut now = 0;
        let mut estimate = 0;
        for gap in gaps {
            estimate = pace.asked(7, Nanos(now)).0;
            pace.answers(7, Nanos(now + 200_000));
            now += 200_000 + gap;
        }
        estimate
    }

    #[test]
    fn the_estimate_follows_what_a_thread_that_only_asks_shows() {
        assert!(after((0..1000).map(|_| 17_000)).abs_diff(17_000) < 600);
        assert!(after((0..1000).map(|_| 3_000)).abs_diff(3_000) < 600);
        assert!(after((0..3000).map(|n| 6_000 + n % 5 * 3_000)).abs_diff(6_500) < 3_500);
    }

    #[test]
    fn a_thread_that_works_between_says_nothing() {
        assert_eq!(after((0..1000).map(|_| 60_000)), 5_000);
        assert_eq!(after((0..1000).map(|_| 39_000)), MOST);
    }
}
