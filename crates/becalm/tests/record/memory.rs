//! What a long recording costs.

use std::fs;
use std::thread::{sleep, spawn};
use std::time::Duration;

use super::BACKEND;
use recording::Kind;
use testkit::seen::calls_below;
use testkit::{Live, trap};

/// Opens, stats and reads, each a third.
const CALLS: usize = 1_000_000;
/// No multiple of three, or some names would only ever meet a read.
const NAMES: usize = 299_999;

/// The largest resident set, in KiB, that a process has had; none if it is gone.
fn peak(pid: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// The peaks of a becalm process and of its children that are becalm, too, taken together;
/// none if it is gone.
fn peak_of_becalm(pid: i32) -> Option<u64> {
    let becalm = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let mine = children
        .split_whitespace()
        .filter(|child| fs::read_link(format!("/proc/{child}/exe")).is_ok_and(|exe| exe == becalm));
    Some(peak(&pid.to_string())? + mine.filter_map(peak).sum::<u64>())
}

#[test]
fn a_million_calls_take_less_than_100_mb_of_memory_and_20_mb_of_disk() {
    let scene = BACKEND.scene();
    let words = [trap("many_calls"), CALLS.to_string(), NAMES.to_string()];
    let mut live = Live::start(&mut scene.record(&words));
    let pid = live.pid();
    // To becalm's very end, as it works on after the command has ended.
    let watch = spawn(move || {
        let mut most = 0;
        while let Some(now) = peak_of_becalm(pid) {
            most = most.max(now);
            sleep(Duration::from_millis(5));
        }
        most
    });
    live.wait_for("asked");
    assert_eq!(live.end().code(), 0);
    let memory = watch.join().unwrap();
    assert!(memory > 1000 && memory < 100 * 1000, "{memory} KiB");
    let size = fs::metadata(scene.rec()).unwrap().len();
    assert!(size < 20 * 1000 * 1000, "{size} bytes");
    eprintln!("becalm took {memory} KiB of memory and {size} bytes of disk");

    let recording = scene.recording();
    assert!(recording.is_whole());
    let lookups = calls_below(&recording, b"/nonexistent/spack/");
    assert_eq!(lookups.len(), CALLS - CALLS.div_ceil(3));
    let reads = calls_below(&recording, b"/dev/null");
    assert!(reads.iter().filter(|call| call.kind() == Kind::Read).count() >= CALLS.div_ceil(3));
    let mut names: Vec<_> = lookups.iter().map(|event| event.path).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), NAMES);
}
