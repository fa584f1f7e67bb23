//! The writer forgets paths before they fill the memory.
//!
//! One test in a file of its own: it looks at its process's memory.
#![allow(clippy::unwrap_used)] // A test program.

use recording::{Nanos, Recording, Writer};
use testkit::memory;

#[test]
fn a_run_that_names_a_million_files_is_recorded_in_bounded_memory() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("paths.becalm");
    let sink = std::fs::File::create(&file).unwrap();
    let mut writer = Writer::new(Box::new(sink), &testkit::made::header()).unwrap();
    memory::forget_peak();
    let before = memory::peak();
    for number in 0..1_000_000 {
        writer.path(format!("/scratch/project/data/by-date/2024/run-{number}/output").as_bytes());
    }
    let held = memory::peak() - before;
    writer.finish(Nanos(1)).unwrap();
    assert!(held < 60 << 20, "{held} bytes held");
    assert_eq!(Recording::open(&file).unwrap().path_count(), 1_000_000);
}
