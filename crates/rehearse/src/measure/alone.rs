//! What one client waits for, with nobody beside it.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::transfers::first_bytes;
use super::tree::named;
use super::{MeasureBounds, MeasuringPlan, TimedSeries, timed_stat};

/// What one client waited.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AloneFigures {
    /// stat of names that nobody has ever asked for, and that are not there.
    pub absent: TimedSeries,
    /// The same names at once again: short where the client has a negative dentry cache.
    pub absent_again: TimedSeries,
    /// stat of files that another node has made; where there is one node, of files that this one
    /// has made, and so knows.
    pub there: TimedSeries,
    /// The same files at once again.
    pub there_again: TimedSeries,
    /// open of these files, which the client knows.
    pub open: TimedSeries,
    /// A listing of a directory with four files that the client has listed before.
    pub list_again: TimedSeries,
    /// The first 4 KiB of files of 16 KiB, which `posix_fadvise(DONTNEED)` has the client drop before.
    pub first_bytes: TimedSeries,
    /// The same again, from the node's memory.
    pub first_bytes_again: TimedSeries,
}

/// Measures in a directory that is filled.
///
/// # Errors
/// Of a stat, an open, a listing, a read; `Interrupted` where somebody asks to end.
pub fn alone(
    tree: &Path,
    plan: &MeasuringPlan,
    is_asked: &dyn Fn() -> bool,
) -> io::Result<AloneFigures> {
    let go_on =
        || if is_asked() { Err(io::Error::from(io::ErrorKind::Interrupted)) } else { Ok(()) };
    // The directories themselves are looked up once before.
    for name in ["names", "absent", "listed"] {
        fs::metadata(tree.join(name))?;
    }
    // Names of this process's own: it may not be the first in this directory.
    let process = std::process::id();
    let absent_name = |number| tree.join("absent").join(format!("no-{process}-{number:04}"));
    let absent = |number| timed_stat(&absent_name(number), false);
    let there = |number| timed_stat(&named(tree, "names", number), true);
    let first_absent = TimedSeries::of(MeasureBounds::SERIES, absent)?;
    go_on()?;
    let absent_again = TimedSeries::of(first_absent.samples as usize, absent)?;
    go_on()?;
    let first_there = TimedSeries::of(plan.names, there)?;
    let known = first_there.samples as usize;
    go_on()?;
    let there_again = TimedSeries::of(known, there)?;
    go_on()?;
    let open = TimedSeries::of(known.min(32), |number| {
        let begun = Instant::now();
        let file = File::open(named(tree, "names", number))?;
        let took = begun.elapsed();
        // It is closed after the clock is read.
        drop(file);
        Ok(Some(took))
    })?;
    let listed = tree.join("listed");
    list(&listed)?;
    go_on()?;
    let list_again = TimedSeries::of(16, |_| {
        let begun = Instant::now();
        list(&listed)?;
        Ok(Some(begun.elapsed()))
    })?;
    go_on()?;
    let [first_bytes, first_bytes_again] = first_bytes(tree, plan)?;
    Ok(AloneFigures {
        first_bytes,
        first_bytes_again,
        absent: first_absent,
        absent_again,
        there: first_there,
        there_again,
        open,
        list_again,
    })
}

fn list(directory: &Path) -> io::Result<()> {
    fs::read_dir(directory)?.try_for_each(|entry| entry.map(drop))
}
