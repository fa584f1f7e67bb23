//! Who is ended first where memory is short: a rank, before the holder that all ranks of the node
//! need.
//!
//! A holder asks for the lowest score that its user may ask for (oom_score_adj of proc(5)), which
//! for an ordinary user is the one that they have. So the ranks take a higher one: by as much as a
//! holder can weigh, and no more, since other users' processes are compared with them, too.

use std::fs;

use crate::stage::room::most_memory;

const SCORE: &str = "/proc/self/oom_score_adj";
/// More than a holder has: the blocks that it keeps, its buffers, the tables of a large image.
const HOLDER: u64 = 256 << 20;
/// The kernel ends nobody before one of this score.
const HIGHEST: i64 = 1000;

/// The calling process, and what it starts, is ended before the holder. Where that cannot be
/// written, the holder weighs little all the same.
pub(super) fn end_before_the_holder() {
    // Root's holder has the lowest score.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let own = fs::read_to_string(SCORE).ok().and_then(|text| text.trim().parse().ok());
    if let (Some(own), Some(memory)) = (own, most_memory()) {
        let _ = fs::write(SCORE, raised(own, memory).to_string());
    }
}

/// The kernel adds a thousandth of the memory for each point of the score (mm/oom_kill.c,
/// `oom_badness`).
fn raised(own: i64, memory: u64) -> i64 {
    let points = HOLDER.saturating_mul(1000).div_ceil(memory.max(1)).min(HIGHEST as u64);
    (own + points as i64).min(HIGHEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_outweighs_a_holder_and_as_little_more_as_can_be_said() {
        assert_eq!(raised(0, 1 << 40), 1);
        assert_eq!(raised(5, 256 << 30), 6);
        assert_eq!(raised(0, 1 << 30), 250);
        assert_eq!(raised(-500, 128 << 20), 500);
        assert_eq!((raised(900, 1 << 29), raised(1000, 1 << 40), raised(0, 0)), (1000, 1000, 1000));
    }
}
