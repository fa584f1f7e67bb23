//! A filesystem that is there, measured, so that it can be emulated and predicted.
//!
//! All of it happens in a directory of its own, is bounded in operations, bytes and time
//! ([`MeasureBounds`]), and asks as a program would: `stat`, `open`, `read`. What one client caches it
//! cannot make itself forget; so names are looked up that no client has ever seen, or that another
//! node has made.
//!
//! | file | what it holds |
//! |---|---|
//! | `tree` | the directory: made, filled, removed |
//! | `alone` | what one client waits for, with nobody beside it |
//! | `load` | how much the server does for many at once |
//! | `lifetimes` | for how long a client trusts what it has |
//! | `transfers` | data, from the server and from the node's memory |
//! | `profile` | all of it as a profile |

mod alone;
mod lifetimes;
mod load;
mod profile;
mod transfers;
mod tree;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use alone::{AloneFigures, alone};
pub use lifetimes::{LifetimeCheck, LifetimeFigures, lifetimes};
pub use load::{LoadFigures, load};
pub use profile::{FilesystemFigures, MeasuredProfile, filesystem_kind};
pub use transfers::{TransferFigures, transfers};
pub use tree::{MeasuringPlan, MeasuringTree, TreeError};

/// What a measurement does at most.
#[derive(Clone, Copy, Debug)]
pub struct MeasureBounds;

impl MeasureBounds {
    /// Files that are made.
    pub const FILES: usize = 128 + 32 + 4 + 4 * CHECKS.len() + 3;
    /// Bytes that are written.
    pub const BYTES: u64 = DATA_BYTES + SMALL_FILES as u64 * SMALL_BYTES as u64 + 8192;
    /// Lookups that all clients make together at each of the two levels of load.
    pub const LOOKUPS: u64 = 100_000;
    /// For how long they do so.
    pub const LOAD: Duration = Duration::from_secs(2);
    /// Operations of each kind of one client.
    pub const SERIES: usize = 128;
}

/// The big file.
const DATA_BYTES: u64 = 16 << 20;
/// Small ones.
const SMALL_FILES: usize = 32;
const SMALL_BYTES: usize = 16 << 10;
/// A series takes no longer, once it has three samples.
const LASTS: Duration = Duration::from_millis(1200);
/// When names are asked for again, in seconds. Around 30, which is NFS's for directories.
const CHECKS: [u64; 9] = [1, 2, 3, 5, 10, 15, 20, 29, WATCHED_OUT];
/// What is still cached after so many seconds is said to be so for ever.
const WATCHED_OUT: u64 = 31;

/// One operation, many times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimedSeries {
    /// How often it was done.
    pub samples: u64,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// 95 of 100 took no longer, in nanoseconds.
    pub p95_ns: u64,
}

impl TimedSeries {
    /// Does it for each number below `most`, as long as there is time.
    fn of(
        most: usize,
        mut act: impl FnMut(usize) -> io::Result<Option<Duration>>,
    ) -> io::Result<TimedSeries> {
        let begun = Instant::now();
        let mut times = Vec::new();
        for number in 0..most {
            if number >= 3 && begun.elapsed() > LASTS {
                break;
            }
            times.extend(act(number)?.map(|took| took.as_nanos() as u64));
        }
        times.sort_unstable();
        let at = |hundredths: usize| times.get(times.len().saturating_sub(1) * hundredths / 100);
        let [p50_ns, p95_ns] = [50, 95].map(|part| at(part).copied().unwrap_or(0));
        Ok(TimedSeries { samples: times.len() as u64, p50_ns, p95_ns })
    }
}

/// How long a stat of a name takes that is there, or is not; none where it is the other.
fn timed_stat(path: &Path, is_there: bool) -> io::Result<Option<Duration>> {
    let begun = Instant::now();
    let stat = std::fs::symlink_metadata(path);
    let took = begun.elapsed();
    match stat {
        Ok(_) => Ok(is_there.then_some(took)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((!is_there).then_some(took)),
        Err(error) => Err(error),
    }
}
