//! Which thread of a process is lent: one that an interruption does not change.

use std::fs;

use crate::collapse::process::TargetProcess;

/// Calls that go on after a stop as if there had been none: signal(7), "Interruption of system
/// calls and library functions by stop signals". Not epoll_wait, semop and the like, which fail.
const GO_ON: [i64; 13] = [
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_pause,
    libc::SYS_rt_sigsuspend,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
];

/// Such threads, those first that only wait.
pub(super) fn threads(process: &TargetProcess) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", process.pid)) else { return Vec::new() };
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let mut found: Vec<(u8, i32)> = ids.filter_map(|id| Some((order(process, id)?, id))).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, id)| id).collect()
}

/// 0 where it waits, 1 where it runs; none where it is to be left alone.
fn order(process: &TargetProcess, thread: i32) -> Option<u8> {
    // proc(5): "running", or the call's number, its arguments, stack pointer and program counter.
    let call = process.read(&format!("task/{thread}/syscall")).ok()?;
    let mut words = call.split_whitespace();
    let number = match words.next()? {
        "running" | "-1" => return Some(1),
        number => number.parse::<i64>().ok()?,
    };
    let mut file = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let goes_on = match number {
        libc::SYS_read => waits_plainly(process, file()?),
        number => GO_ON.contains(&number),
    };
    goes_on.then_some(0)
}

/// Whether reading goes on after a stop: that of a socket with a time limit, or of inotify, fails.
fn waits_plainly(process: &TargetProcess, file: u64) -> bool {
    let file = fs::read_link(format!("/proc/{}/fd/{file}", process.pid));
    file.is_ok_and(|file| {
        let file = file.to_string_lossy();
        file.starts_with("pipe:") || file.starts_with('/')
    })
}
