//! Many looks at a filesystem: one after the other where each takes microseconds, many at once where
//! each waits for a server.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A look that takes longer waits for somebody: a server, over a network. One that is traced, or comes
/// when a machine is busy, may take half of that.
const FAST: Duration = Duration::from_micros(150);

/// So many one after the other, and all are taken to be so.
const KNOWN: usize = 4;

/// How many wait at once.
const AT_ONCE: usize = 16;

/// Which of these is the first of which something does not hold. `holds` may be asked of some
/// behind it, too. No thread is left.
pub(crate) fn first_failing<T: Sync>(
    items: &[T],
    holds: impl Fn(&T) -> bool + Sync,
) -> Option<usize> {
    let mut slow = 0;
    for (done, item) in items.iter().enumerate() {
        if slow >= KNOWN && items.len() - done > AT_ONCE {
            return first_failing_at_once(&items[done..], holds).map(|at| done + at);
        }
        let begun = Instant::now();
        if !holds(item) {
            return Some(done);
        }
        slow = if begun.elapsed() > FAST { slow + 1 } else { 0 };
    }
    None
}

fn first_failing_at_once<T: Sync>(items: &[T], holds: impl Fn(&T) -> bool + Sync) -> Option<usize> {
    let (next, failing) = (AtomicUsize::new(0), AtomicUsize::new(items.len()));
    let look = || {
        loop {
            let at = next.fetch_add(1, Relaxed);
            // What comes behind one that fails need not be looked at.
            if at >= failing.load(Relaxed) {
                return;
            }
            if !holds(&items[at]) {
                failing.fetch_min(at, Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..AT_ONCE {
            // Where no thread can be had, there are fewer.
            let _ = std::thread::Builder::new().spawn_scoped(scope, look);
        }
        look();
    });
    Some(failing.into_inner()).filter(|at| *at < items.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_fails_is_found_whether_looks_are_fast_or_slow() {
        let numbers: Vec<usize> = (0..200).collect();
        let slowly = |number: &usize, fails: &[usize]| {
            std::thread::sleep(FAST * 2);
            !fails.contains(number)
        };
        for fails in [&[][..], &[0], &[3], &[4, 5], &[17, 180], &[199]] {
            let first = fails.first().copied();
            assert_eq!(first_failing(&numbers, |number| !fails.contains(number)), first);
            assert_eq!(first_failing(&numbers, |number| slowly(number, fails)), first);
            assert_eq!(first_failing_at_once(&numbers, |number| slowly(number, fails)), first);
        }
        assert_eq!(first_failing_at_once(&[] as &[usize], |_| false), None);
    }

    #[test]
    fn slow_looks_wait_together() {
        let waiting = AtomicUsize::new(0);
        let most = AtomicUsize::new(0);
        let numbers: Vec<usize> = (0..200).collect();
        let found = first_failing(&numbers, |_| {
            most.fetch_max(waiting.fetch_add(1, Relaxed) + 1, Relaxed);
            std::thread::sleep(Duration::from_millis(2));
            waiting.fetch_sub(1, Relaxed);
            true
        });
        assert_eq!(found, None);
        assert!(most.into_inner() > 4);
    }
}
