//! Reads any bytes as a mountinfo, and as the stat of a process.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proc::{ProcessStat, mount_entries};

fuzz_target!(|input: &[u8]| {
    for mount in mount_entries(input) {
        assert!(
            mount.point.as_os_str().len() + mount.kind.len() + mount.source.len() <= input.len()
        );
    }
    if let Some(stat) = ProcessStat::parse(input) {
        let _ = (stat.state(), stat.processor());
    }
});
