//! Processes that run what is about to be changed, as far as this user sees them, and on this machine.
//!
//! They keep the files that they have open. But what one opens by name later (dlopen), it looks for then.

use std::collections::HashSet;
use std::path::Path;

use term::number::count;

/// The line to say of them; none where nobody has loaded any of these files.
pub fn warning<'a>(files: impl Iterator<Item = &'a Path>) -> Option<String> {
    let files: HashSet<&[u8]> = files.map(|path| path.as_os_str().as_encoded_bytes()).collect();
    if files.is_empty() {
        return None;
    }
    let own = std::process::id() as i32;
    let others = proc::process_ids().filter(|pid| *pid != own);
    let mut found = others.filter(|pid| has_loaded(*pid, &files));
    let first = found.next()?;
    let more = match found.count() {
        0 => " has".to_owned(),
        more => format!(" and {} more have", count(more as u64)),
    };
    Some(format!(
        "PID {first}{more} loaded what changes: a library that is opened by name from now on may be loaded twice there, or \
         not be found"
    ))
}

/// Whether one of these files is mapped: proc_pid_maps(5). Of who may not be looked at, nothing is known.
fn has_loaded(pid: i32, files: &HashSet<&[u8]>) -> bool {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let path = |line: &'_ [u8]| line.iter().position(|byte| *byte == b'/');
    let mut lines = maps.split(|byte| *byte == b'\n');
    lines.any(|line| path(line).is_some_and(|at| files.contains(&line[at..])))
}
