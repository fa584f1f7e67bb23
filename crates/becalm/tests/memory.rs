//! What a long recording costs.

mod support;

use std::fs;

use support::{Live, Scene, trap};

const CALLS: usize = 1_000_000;
const NAMES: usize = 300_000;

/// The largest resident set, in KiB, that a process has had.
fn peak(pid: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// The peaks of all processes that run the becalm of that pid.
fn peaks_of_becalm(pid: i32) -> Vec<u64> {
    let becalm = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let mine = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == becalm);
    let all = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    all.filter(|pid| mine(pid)).filter_map(|pid| peak(&pid)).collect()
}

#[test]
fn a_million_calls_take_less_than_100_mb_of_memory_and_20_mb_of_disk() {
    let scene = Scene::new();
    let calls = [CALLS.to_string(), NAMES.to_string()];
    let mut live = Live::start(&mut scene.record(&[&trap("many_calls"), &calls[0], &calls[1]]));
    live.wait_for("asked");
    let peaks = peaks_of_becalm(live.pid());
    let total: u64 = peaks.iter().sum();
    assert!(total > 0 && total < 100 * 1000, "{peaks:?} KiB");
    assert_eq!(live.end().code(), 0);
    // What it took after the command's end, too: rusage tells it of children that were waited
    // for, which becalm and its children are; the command itself takes less than 2 MB.
    // SAFETY: a zeroed rusage is a valid one, and getrusage fills it.
    let after = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage), 0);
        usage.ru_maxrss
    };
    assert!(after < 100 * 1000, "{after} KiB");

    let size = fs::metadata(scene.rec()).unwrap().len();
    assert!(size < 20 * 1000 * 1000, "{size} bytes");
    let recording = scene.recording();
    assert!(recording.is_whole());
    let marks = support::seen::calls_below(&recording, b"/nonexistent/spack/");
    assert_eq!(marks.len(), CALLS);
    let mut names: Vec<_> = marks.iter().map(|event| event.path).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), NAMES);
    eprintln!("becalm's memory {peaks:?} KiB, at its end {after} KiB; recording {size} bytes");
}
