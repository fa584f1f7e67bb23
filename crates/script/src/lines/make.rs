//! GNU make's line, read from outside.
//!
//! While make reads makefiles or expands a recipe, `reading_file` points to where it is; a
//! `$(shell …)` starts its process there. For a recipe's line make notes the job only after it has
//! started it: that is read when the job has ended and make has not yet heard of it. The structures
//! are those of make's job.h, filedef.h and commands.h, 4.2 and 4.3 or 4.4: which one it is tells
//! the job's process id in its place. What does not fit is no answer.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use proc::ProcessStat;
use watch::{ScriptFrame, Stopped};

use super::symbols::Addresses;

/// More jobs at a time than this are not looked through.
const MOST_JOBS: usize = 4096;

/// Longer than a scheduler's turn.
const MOMENT: Duration = Duration::from_millis(20);

/// A make that runs.
#[derive(Clone, Debug)]
pub(super) struct Make {
    children: u64,
    reading_file: u64,
    cwd: Rc<[u8]>,
}

/// Where the fields of a `struct child` are.
struct MakeChildLayout {
    next: usize,
    file: usize,
    command_line: usize,
    pid: usize,
}

const LAYOUTS: [MakeChildLayout; 2] = [
    MakeChildLayout { next: 0, file: 8, command_line: 48, pid: 64 },
    MakeChildLayout { next: 32, file: 40, command_line: 72, pid: 76 },
];

impl Make {
    pub fn new(addresses: &Addresses, bias: u64, cwd: &[u8]) -> Make {
        let [children, reading_file] = addresses.0.map(|address| address.wrapping_add(bias));
        Make { children, reading_file, cwd: cwd.into() }
    }

    /// Where make is reading, at the fork of a `$(shell …)`.
    pub fn reading(&self, process: &Stopped) -> Option<ScriptFrame> {
        let at = process.pointer(self.reading_file).ok()?;
        if at == 0 { None } else { self.place(process, at, None, String::new()).ok()? }
    }

    fn job(&self, make: &Stopped, child: i32) -> Option<ScriptFrame> {
        LAYOUTS.iter().find_map(|layout| self.job_of(make, child, layout).ok()?)
    }

    /// The recipe's line that has started a process which has ended, and which make has not yet
    /// waited for. A job may have been so quick that make is still about to note it, on a machine
    /// that has other work for its processors: as long as make runs, a moment is waited for it.
    pub fn job_soon(&self, make: &Stopped, child: i32) -> Option<ScriptFrame> {
        let until = Instant::now() + MOMENT;
        loop {
            let job = self.job(make, child);
            if job.is_some() || Instant::now() > until || !is_running(make.pid) {
                return job;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn job_of(
        &self,
        make: &Stopped,
        child: i32,
        layout: &MakeChildLayout,
    ) -> io::Result<Option<ScriptFrame>> {
        let mut at = make.pointer(self.children)?;
        for _ in 0..MOST_JOBS {
            if at == 0 {
                break;
            }
            let mut job = [0; 80];
            make.read(at, &mut job)?;
            if word(&job, layout.pid) == child.unsigned_abs() {
                let file = pointer(&job, layout.file);
                // struct file: name, hname, vpath, deps, cmds.
                let target = make.read_string(make.pointer(file)?)?;
                let target = String::from_utf8_lossy(&target).into_owned();
                let commands = make.pointer(file.wrapping_add(32))?;
                // It counts the lines of the recipe that it has begun.
                let begun = word(&job, layout.command_line).saturating_sub(1);
                return self.place(make, commands, Some(begun), target);
            }
            at = pointer(&job, layout.next);
        }
        Ok(None)
    }

    /// A `floc`: the file's name, a line, and by how many lines the expansion is further on.
    fn place(
        &self,
        process: &Stopped,
        floc: u64,
        further: Option<u32>,
        function: String,
    ) -> io::Result<Option<ScriptFrame>> {
        let mut raw = [0; 24];
        process.read(floc, &mut raw)?;
        let name = process.read_string(pointer(&raw, 0))?;
        let further = further.map_or(pointer(&raw, 16), u64::from);
        let line = pointer(&raw, 8).checked_add(further).and_then(|line| u32::try_from(line).ok());
        let Some(line) = line.filter(|line| *line > 0 && !name.is_empty()) else {
            return Ok(None);
        };
        let file = match name.first() {
            Some(b'/') => name,
            _ => [&self.cwd, &b"/"[..], &name].concat(),
        };
        let path = Path::new(OsStr::from_bytes(&file));
        Ok(path.is_file().then_some(ScriptFrame { file: Some(file), line, function }))
    }
}

/// Whether a process runs or could (proc_pid_stat(5)): it does not sleep, and waits for no tracer.
fn is_running(pid: i32) -> bool {
    ProcessStat::of(pid).is_some_and(|stat| stat.is_running())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
}

fn pointer(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}
