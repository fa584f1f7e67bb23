//! How much the server does for many at once.

use std::io;
use std::path::Path;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MeasureBounds, timed_stat};

/// Lookups by many clients at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadFigures {
    /// How many asked at once, each for one name after the other.
    pub clients: u64,
    /// How many names they looked up.
    pub lookups: u64,
    /// For how long, in seconds.
    pub seconds: f64,
}

impl LoadFigures {
    /// Lookups a second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.lookups as f64 / self.seconds } else { 0.0 }
    }

    /// Those of several ranks that did it at the same time.
    pub fn together(all: &[LoadFigures]) -> LoadFigures {
        LoadFigures {
            clients: all.iter().map(|one| one.clients).sum(),
            lookups: all.iter().map(|one| one.lookups).sum(),
            seconds: all.iter().map(|one| one.seconds).fold(0.0, f64::max),
        }
    }
}

/// Looks up names that nobody has ever asked for, in so many threads, as one of so many ranks.
///
/// # Errors
/// Of a stat.
pub fn load(tree: &Path, rank: u32, ranks: u64, threads: usize) -> io::Result<LoadFigures> {
    let directory = tree.join("load");
    std::fs::metadata(&directory)?;
    let most = (MeasureBounds::LOOKUPS / ranks.max(1) / threads as u64).max(1);
    let process = std::process::id();
    let begun = Instant::now();
    let client = |client: usize| -> io::Result<u64> {
        for number in 0..most {
            if begun.elapsed() > MeasureBounds::LOAD {
                return Ok(number);
            }
            let name = format!("no-{rank}-{process}-{threads}-{client}-{number}");
            timed_stat(&directory.join(name), false)?;
        }
        Ok(most)
    };
    let done: Vec<io::Result<u64>> = std::thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> =
            (0..threads).map(|number| scope.spawn(move || client(number))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<u64>>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let lookups = done.into_iter().sum::<io::Result<u64>>()?;
    Ok(LoadFigures { clients: threads as u64, lookups, seconds })
}
