//! What is known of a process that runs already: what /proc shows.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use proc::ProcessStat;
use recording::{Exec, Micros, Phase, Usage};
use rustix::time::{ClockId, clock_gettime};

use crate::files::proc_link;
use crate::log::RecordingLog;
use crate::program::{self, ExecutedProgram};
use crate::space::AddressSpace;
use crate::task::Task;

/// Of /proc/PID/fdinfo's octal flags, O_CLOEXEC as every architecture has it there.
const CLOSE_ON_EXEC: u64 = libc::O_CLOEXEC as u64;

/// A process as it stands when it is joined.
pub(crate) struct StandingProcess {
    pub task: Task,
    pub image: Vec<u8>,
    pub cwd: Vec<u8>,
    pub wide: bool,
    pub bias: u64,
    /// The program that it runs, as if it had just become it.
    pub exec: Exec,
}

/// Reads what a process is. What it does meanwhile may be in it or not.
pub(crate) fn read(pid: i32, log: &mut RecordingLog) -> StandingProcess {
    let program = program::of_running(pid);
    let task = Task::new(pid);
    *task.space.borrow_mut() = space_of(pid, &program, log);
    read_files(pid, &task, log);
    task.directories.borrow_mut().root = other_root(pid);
    let image = proc_link(pid, "exe").unwrap_or_default();
    let cwd = proc_link(pid, "cwd").unwrap_or_else(|| b"/".to_vec());
    let at = log.now();
    let ExecutedProgram { argv, exact_argv, env, loader, bias, .. } = program;
    let wide = !program::is_narrow(pid);
    let image_id = log.path(&image);
    let loader = loader.map(|loader| log.path(&loader));
    let cwd_id = log.path(&cwd);
    let exec = Exec { at, argv, exact_argv, env, loader, ..Exec::new(image_id, cwd_id) };
    StandingProcess { task, image, cwd, wide, bias, exec }
}

/// What its `/` is, where that is not becalm's own.
fn other_root(pid: i32) -> Vec<u8> {
    proc_link(pid, "root").filter(|root| root != b"/").unwrap_or_default()
}

/// Its executable mappings (proc_pid_maps(5)). Where nothing is mapped but its program and the loader,
/// its libraries are still to come; else it has begun.
fn space_of(pid: i32, program: &ExecutedProgram, log: &mut RecordingLog) -> AddressSpace {
    let has_loader = !program.loader_code.is_empty();
    let mut space = AddressSpace::new(has_loader, program.has_musl());
    let mut files = BTreeSet::new();
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    for (start, end, path) in maps.split(|byte| *byte == b'\n').filter_map(executable) {
        let file = path.starts_with(b"/").then(|| {
            log.mapped(path);
            let file = log.path(path);
            files.insert(file);
            file
        });
        let lies_in = |(code, length): &(u64, u64)| (*code..code + length).contains(&start);
        let is_loader = program.loader_code.iter().any(lies_in)
            || program.loader_code.iter().any(|(code, _)| (start..end).contains(code));
        space.map(start, end - start, file, is_loader);
    }
    if files.len() > 2 {
        space.phase = Phase::Running;
    }
    space
}

/// How many files a process has mapped to execute what is in them.
pub(crate) fn code_files(pid: i32) -> usize {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let files = maps.split(|byte| *byte == b'\n').filter_map(executable);
    files
        .map(|(_, _, path)| path)
        .filter(|path| path.starts_with(b"/"))
        .collect::<BTreeSet<_>>()
        .len()
}

/// The range and the file of a line of `maps` that is of instructions.
fn executable(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let text = |field: &[u8]| Some(std::str::from_utf8(field).ok()?.to_owned());
    let range = text(fields.next()?)?;
    let (start, end) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    let permissions = fields.next()?;
    let path = fields.nth(3).unwrap_or_default().trim_ascii_start();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    (permissions.get(2) == Some(&b'x') && start < end).then_some((start, end, path))
}

/// Its open files, and which of them exec closes.
fn read_files(pid: i32, task: &Task, log: &mut RecordingLog) {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return };
    for entry in entries.flatten() {
        let Some(fd) = number_of(&entry.file_name()) else { continue };
        if let Some(path) = proc_link(pid, &format!("fd/{fd}")) {
            let path = log.full_path(&path);
            task.files.borrow_mut().opened(fd, Some(path), closes_on_exec(pid, fd));
        }
    }
}

fn number_of(name: &OsStr) -> Option<i32> {
    std::str::from_utf8(name.as_bytes()).ok()?.parse().ok()
}

fn closes_on_exec(pid: i32, fd: i32) -> bool {
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & CLOSE_ON_EXEC != 0)
}

/// What a process and its reaped children have used so far. Its largest resident set is not in it.
pub(crate) fn used(pid: i32) -> Usage {
    let (user, system) = ProcessStat::of(pid).and_then(|stat| stat.used()).unwrap_or_default();
    let micros = |ticks| Micros(duration(ticks).as_micros() as u64);
    Usage { user: micros(user), system: micros(system), ..Usage::default() }
}

/// How long ago a process was started.
pub(crate) fn age(pid: i32) -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32);
    let started = ProcessStat::of(pid).and_then(|stat| stat.started());
    started.map_or(Duration::ZERO, |ticks| now.saturating_sub(duration(ticks)))
}

fn duration(ticks: u64) -> Duration {
    let a_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / a_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read_where_it_is_of_instructions() {
        let line = |text: &'static str| executable(text.as_bytes());
        let code = line("7f00-8000 r-xp 00001000 08:01 77    /lib/a b.so (deleted)");
        assert_eq!(code, Some((0x7f00, 0x8000, b"/lib/a b.so".as_slice())));
        assert_eq!(line("7f00-8000 rw-p 00001000 08:01 77    /lib/a.so"), None);
        assert_eq!(
            line("7f00-8000 r-xp 00000000 00:00 0 "),
            Some((0x7f00, 0x8000, b"".as_slice()))
        );
        assert_eq!((line(""), line("x-y r-xp"), line("9-1 r-xp 0 0 0 /a")), (None, None, None));
    }

    #[test]
    fn a_process_that_was_just_started_is_young_and_has_used_little() {
        let mut child = std::process::Command::new("sleep").arg("20").spawn().unwrap();
        let id = child.id() as i32;
        assert!(age(id) < Duration::from_secs(20));
        assert!(used(id).user < Micros(1_000_000));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
