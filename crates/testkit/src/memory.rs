//! What this process holds in memory. Tests that ask have a file, so a process, of their own.

/// The largest resident set since the last [`forget_peak`], in bytes (proc_pid_status(5)).
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Makes the present resident set the largest (proc_pid_clear_refs(5)).
pub fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}
