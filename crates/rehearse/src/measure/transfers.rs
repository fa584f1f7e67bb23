//! Data, from the server and from the node's memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tree::named;
use super::{DATA_BYTES, MeasuringPlan, TimedSeries};

/// Reading a big file takes no longer.
const LASTS: Duration = Duration::from_secs(3);

/// What one client read of a big file. `posix_fadvise(DONTNEED)` comes before, which has a client that
/// wrote a file itself drop it from its memory.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TransferFigures {
    /// Clients that read at once, one a node.
    pub readers: u64,
    /// Bytes that they read, from the file's begin in parts of 1 MiB.
    pub bytes: u64,
    /// How long that took, in seconds.
    pub seconds: f64,
    /// How long the same bytes took again, from the nodes' memory, in seconds.
    pub seconds_again: f64,
}

impl TransferFigures {
    /// Those of several nodes that read at the same time.
    pub fn together(all: &[TransferFigures]) -> TransferFigures {
        let longest = |time: fn(&TransferFigures) -> f64| all.iter().map(time).fold(0.0, f64::max);
        TransferFigures {
            readers: all.iter().map(|one| one.readers).sum(),
            bytes: all.iter().map(|one| one.bytes).sum(),
            seconds: longest(|one| one.seconds),
            seconds_again: longest(|one| one.seconds_again),
        }
    }
}

/// How long the first 4 KiB of small files take, from the server and then from the node's memory.
///
/// # Errors
/// Of an open or a read.
pub(super) fn first_bytes(tree: &Path, plan: &MeasuringPlan) -> io::Result<[TimedSeries; 2]> {
    let mut part = vec![0; 4096];
    let mut small = |is_dropped: bool| {
        TimedSeries::of(plan.small, |number| {
            let file = File::open(named(tree, "small", number))?;
            if is_dropped {
                fadvise(&file, 0, None, Advice::DontNeed)?;
            }
            let begun = Instant::now();
            let length = file.read_at(&mut part, 0)?;
            Ok((length > 0).then(|| begun.elapsed()))
        })
    };
    Ok([small(true)?, small(false)?])
}

/// Reads the big file, twice.
///
/// # Errors
/// Of an open or a read.
pub fn transfers(tree: &Path) -> io::Result<TransferFigures> {
    let mut part = vec![0; 1 << 20];
    let file = File::open(tree.join("data"))?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let mut read = |most: u64| -> io::Result<(u64, f64)> {
        let (begun, mut offset) = (Instant::now(), 0);
        while offset < most && begun.elapsed() < LASTS {
            match file.read_at(&mut part, offset)? {
                0 => break,
                length => offset += length as u64,
            }
        }
        Ok((offset, begun.elapsed().as_secs_f64()))
    };
    let (bytes, seconds) = read(DATA_BYTES)?;
    let (_, seconds_again) = read(bytes)?;
    Ok(TransferFigures { readers: 1, bytes, seconds, seconds_again })
}
