//! The same for many things, on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What `work` gives for each of the things, in their order, done by so many threads. After the
/// first failure no new thing is begun. They are joined, but may be there for a moment longer.
///
/// # Errors
/// The first failure.
pub fn each<'a, T: Sync, R: Send, E: Send>(
    threads: usize,
    things: &'a [T],
    work: impl Fn(usize, &'a T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    if threads <= 1 || things.len() <= 1 {
        return things.iter().enumerate().map(|(at, thing)| work(at, thing)).collect();
    }
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results = Mutex::new(Vec::with_capacity(things.len()));
    let worker = || {
        let mut done = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(at) else { break };
            let result = work(at, thing);
            stop.fetch_or(result.is_err(), Ordering::Relaxed);
            done.push((at, result));
        }
        results.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(done);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(things.len()) {
            // Where no more threads are to be had, those that are there do all of it.
            let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
        }
        worker();
    });
    let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
