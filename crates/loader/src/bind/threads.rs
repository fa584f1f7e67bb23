//! The threads that a plan is made on.

use std::sync::OnceLock;

use launch::signals;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Does work that uses rayon: on as many threads as this process may start, or else on this one. (rayon's own
/// pool ends the process where not all of its threads can be started: a limit on processes or on memory.)
pub(super) fn on_threads<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    match POOL.get_or_init(pool) {
        Some(pool) => pool.install(work),
        None => on_this_thread(work),
    }
}

/// As many threads as suit this machine, or half as many, and so on; none where not even two can be started.
fn pool() -> Option<ThreadPool> {
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    wanted().build().ok().or_else(|| {
        let fewer = std::iter::successors(Some(most / 2), |threads| Some(threads / 2));
        let mut fewer = fewer.take_while(|threads| *threads > 1);
        fewer.find_map(|threads| wanted().num_threads(threads).build().ok())
    })
}

/// Threads that leave signals to the one that asked for the work: they outlive it, and would end the process while
/// that holds them back.
fn wanted() -> ThreadPoolBuilder {
    ThreadPoolBuilder::new().start_handler(|_| {
        let _ = signals::block(&signals::set(signals::passed_on()));
    })
}

/// This thread becomes the only one of a pool, and stays so.
fn on_this_thread<R>(work: impl FnOnce() -> R) -> R {
    if rayon::current_thread_index().is_none()
        && let Ok(alone) = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()
    {
        // Were it dropped, this thread would be left in a pool that has ended.
        std::mem::forget(alone);
    }
    work()
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    #[test]
    fn work_is_done_on_this_thread_alone_as_often_as_it_is_asked_for() {
        let alone = std::thread::current().id();
        for _ in 0..2 {
            let sum: u32 = on_this_thread(|| {
                let checked = |number: u32| {
                    assert_eq!(std::thread::current().id(), alone);
                    number
                };
                (0..1000).into_par_iter().map(checked).sum()
            });
            assert_eq!(sum, 499_500);
        }
    }
}
