//! A million calls: small on disk, little in memory while recording, quick to read.
//!
//! One test in a file of its own: it looks at its process's memory.
#![allow(clippy::unwrap_used)] // A test program.

use std::fs::File;
use std::time::Duration;

use recording::query::{CallFilter, GroupBy, table};
use recording::{Recording, Writer};
use testkit::made::storm;
use testkit::memory::{forget_peak, peak};

const CALLS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

#[test]
fn a_million_calls_fit_in_20_mb_and_are_recorded_in_bounded_memory_and_read_in_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("million.becalm");
    forget_peak();
    let before = peak();
    let started = processor_time();
    let mut writer =
        Writer::new(Box::new(File::create(&file).unwrap()), &testkit::made::header()).unwrap();
    let ended = storm::record(&mut writer, CALLS);
    writer.finish(ended).unwrap();
    let (wrote, held) = (processor_time() - started, peak() - before);
    let size = std::fs::metadata(&file).unwrap().len();

    let started = processor_time();
    let recording = Recording::open(&file).unwrap();
    let loaded = processor_time() - started;
    assert_eq!(recording.events.len() as u64, CALLS);
    assert!(recording.is_whole());
    let mut took = Vec::new();
    for by in GroupBy::ALL {
        let started = processor_time();
        let table = table(&recording, by, &CallFilter::default());
        took.push((by, processor_time() - started));
        let rows: u64 = table.rows.iter().map(|row| row.metadata_ops).sum();
        assert_eq!(rows, table.total.metadata_ops, "{by}");
    }
    println!("written in {wrote:?} holding {} KiB, {size} bytes", held >> 10);
    println!("loaded in {loaded:?}; tables {took:?}");

    assert!(size < 20_000_000, "{size} bytes on disk");
    assert!(held < 60 * MIB, "{held} bytes held while recording");
    assert!(loaded < Duration::from_secs(10), "loaded in {loaded:?}");
    for (by, took) in took {
        assert!(took < Duration::from_secs(10), "{by} in {took:?}");
    }
}

/// How long this thread has had a processor (proc_pid_schedstat(5)): however busy the machine is,
/// the same work takes about as much.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_once(' ').unwrap().0.parse().unwrap())
}
