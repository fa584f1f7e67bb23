//! A program stopped where its dynamic loader (glibc's) has mapped and relocated all that it needs,
//! and no instruction of the program or of its libraries' constructors has run.
//!
//! glibc's loader begins with a call of `_dl_start`, which does all of that and returns: a trap where
//! it returns is the place. Libraries lie clear of any stack and of what a randomised layout maps
//! (`layout::start_clear`), and the kernel's vdso is moved above them all, where it lies in every
//! other start, too: the loader sorts what it has loaded by address.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::arch::TRAP;
use crate::arch::loaded::{CALL, START_LENGTH, StoppedRegisters, after_start};
use crate::layout::{self, AtExec, LayoutError};
use crate::lookup::Command;
use crate::wait_for;

/// A system call that the loader made.
#[derive(Clone, Debug)]
pub struct LoaderSystemCall {
    /// Its number, of this machine.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// What it returned: an error is -errno.
    pub result: i64,
    /// The path that it was given, for one that takes a path.
    pub path: Option<PathBuf>,
}

/// A program whose loader has done its work. It ends where this is dropped.
pub struct LoadedStart {
    at: AtExec,
    memory: File,
    /// What the loader called, in order.
    pub calls: Vec<LoaderSystemCall>,
    /// Where it would go on.
    pub resume: u64,
    /// The program's first instruction.
    pub entry: u64,
    /// The stack, as the kernel has made it.
    pub stack: u64,
    /// The thread's pointer.
    pub thread: u64,
    /// Where the kernel's vdso lies.
    pub vdso: u64,
}

/// Why a program cannot be stopped there.
#[derive(Debug, thiserror::Error)]
pub enum LoadedError {
    /// It cannot be started so.
    #[error(transparent)]
    Layout(LayoutError),
    /// The hard limit of the stack is too small.
    #[error("the hard limit of the stack (`ulimit -H -s`), {} KiB, must be unlimited here", .hard >> 10)]
    Limit {
        /// The hard limit, in bytes.
        hard: u64,
    },
    /// The loader is not glibc's, or one of another kind.
    #[error("its loader does not begin as glibc's does")]
    UnknownLoader,
    /// It has ended before.
    #[error("it does not start: its loader ends with {0}")]
    Ended(String),
    /// The kernel's vdso cannot be moved.
    #[error("the kernel's vdso cannot be moved: {0}")]
    Vdso(io::Error),
    /// A call of ptrace(2), or a file of /proc.
    #[error("it cannot be looked into: {0}")]
    System(#[from] io::Error),
}

/// Starts a command, which names its program's file, up to where its loader has done its work, and
/// moves the vdso there. This process must have one thread.
///
/// # Errors
/// [`LoadedError`]; nothing of the program is left then.
pub fn loaded_start(command: &Command, vdso: u64) -> Result<LoadedStart, LoadedError> {
    let at = layout::start_clear(command).map_err(clear)?;
    let pid = at.pid();
    let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
    options(pid)?;
    // Out of the exec, in which registers cannot be set.
    next_call(pid)?;
    let begin = StoppedRegisters::of(pid)?;
    let mut code = [0; START_LENGTH];
    memory.read_exact_at(&mut code, begin.instruction())?;
    let after = after_start(&code).ok_or(LoadedError::UnknownLoader)?;
    let mut start = LoadedStart {
        at,
        memory,
        calls: Vec::new(),
        resume: begin.instruction() + after,
        entry: 0,
        stack: begin.stack(),
        thread: 0,
        vdso,
    };
    start.move_vdso(&begin)?;
    start.load()?;
    Ok(start)
}

impl LoadedStart {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.at.pid()
    }

    /// Its memory, from an address on.
    ///
    /// # Errors
    /// EIO where nothing is mapped.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(bytes, at)
    }

    /// A file of its directory in /proc.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn proc(&self, name: &str) -> io::Result<Vec<u8>> {
        std::fs::read(format!("/proc/{}/{name}", self.pid()))
    }

    /// Moves the vdso, and the data that it reads, which lies before it; and says so where the kernel
    /// tells the loader of it.
    fn move_vdso(&mut self, begin: &StoppedRegisters) -> Result<(), LoadedError> {
        let maps = String::from_utf8_lossy(&self.proc("maps")?).into_owned();
        let kernels = maps.lines().filter(|line| line.contains("[vdso]") || line.contains("[vvar"));
        let mut ranges: Vec<_> = kernels.filter_map(|line| Some((range(line)?, line))).collect();
        // The topmost first: no range is moved into one that is still to be moved.
        ranges.sort_unstable_by_key(|(range, _)| std::cmp::Reverse(*range));
        let old = ranges.iter().find(|(_, line)| line.ends_with("[vdso]"));
        let absent = || LoadedError::Vdso(io::Error::from_raw_os_error(libc::ENOENT));
        let old = old.map(|((start, _), _)| *start).ok_or_else(absent)?;
        for ((start, end), _) in &ranges {
            let length = end - start;
            let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
            let to = self.vdso.wrapping_add(start.wrapping_sub(old));
            let args = [*start, length, length, flags, to, 0];
            let moved = call_at(&self.at, &self.memory, begin, libc::SYS_mremap, args)?;
            if moved != to {
                let error = io::Error::from_raw_os_error((moved as i64).wrapping_neg() as i32);
                return Err(LoadedError::Vdso(error));
            }
        }
        let (pair, _) = self
            .vector()?
            .into_iter()
            .find(|(_, pair)| pair.0 == libc::AT_SYSINFO_EHDR)
            .ok_or_else(absent)?;
        self.memory.write_all_at(&self.vdso.to_le_bytes(), pair + 8)?;
        Ok(begin.set(self.pid())?)
    }

    /// The auxiliary vector on its stack: where each pair lies, its key and its value.
    ///
    /// # Errors
    /// EIO where the stack is not as the kernel makes it.
    pub fn vector(&self) -> io::Result<Vec<(u64, (u64, u64))>> {
        let mut at = self.environment()?;
        while self.word(at)? != 0 {
            at += 8;
        }
        let mut pairs = Vec::new();
        loop {
            at += if pairs.is_empty() { 8 } else { 16 };
            match (self.word(at)?, self.word(at + 8)?) {
                (libc::AT_NULL, _) => return Ok(pairs),
                pair => pairs.push((at, pair)),
            }
        }
    }

    /// Where the list of its variables begins.
    ///
    /// # Errors
    /// EIO where the stack is not as the kernel makes it.
    pub fn environment(&self) -> io::Result<u64> {
        Ok(self.stack + 16 + 8 * self.word(self.stack)?)
    }

    /// A word of its memory.
    ///
    /// # Errors
    /// EIO where nothing is mapped.
    pub fn word(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Lets the loader do its work, and notes its calls.
    fn load(&mut self) -> Result<(), LoadedError> {
        let mut before = [0; TRAP.len()];
        self.read(self.resume, &mut before)?;
        self.memory.write_all_at(TRAP, self.resume)?;
        while let LoaderStop::Call = next_call(self.pid())? {
            let (number, arguments) = StoppedRegisters::of(self.pid())?.call();
            let number = number as i64;
            let path =
                path_argument(number).map(|index| self.text(arguments[index])).transpose()?;
            if !matches!(next_call(self.pid())?, LoaderStop::Call) {
                return Err(LoadedError::Ended("a trap".into()));
            }
            let result = StoppedRegisters::of(self.pid())?.result() as i64;
            let path = path.map(PathBuf::from);
            self.calls.push(LoaderSystemCall { number, arguments, result, path });
        }
        let stopped = StoppedRegisters::of(self.pid())?;
        if stopped.instruction() != self.resume + TRAP.len() as u64 || stopped.stack() != self.stack
        {
            return Err(LoadedError::UnknownLoader);
        }
        self.memory.write_all_at(&before, self.resume)?;
        (self.entry, self.thread) = (stopped.result(), stopped.thread());
        Ok(stopped.going_on_at(self.resume).set(self.pid())?)
    }

    /// The text that a call is given, up to its zero.
    fn text(&self, at: u64) -> io::Result<OsString> {
        let mut text = Vec::new();
        for at in at..at.saturating_add(libc::PATH_MAX as u64) {
            let mut byte = [0];
            self.read(at, &mut byte)?;
            if byte == [0] {
                break;
            }
            text.push(byte[0]);
        }
        Ok(OsString::from_vec(text))
    }
}

/// Has a process make a call at its first instruction, where it is stopped.
pub(crate) fn call_at(
    process: &AtExec,
    memory: &File,
    begin: &StoppedRegisters,
    number: i64,
    args: [u64; 6],
) -> io::Result<u64> {
    let (pid, at) = (process.pid(), begin.instruction());
    let mut before = CALL;
    memory.read_exact_at(&mut before, at)?;
    memory.write_all_at(&CALL, at)?;
    begin.calling(at, number as u64, args).set(pid)?;
    layout::until_trap(pid)?;
    memory.write_all_at(&before, at)?;
    Ok(StoppedRegisters::of(pid)?.result())
}

fn clear(why: LayoutError) -> LoadedError {
    match why {
        LayoutError::Limit { hard, .. } => LoadedError::Limit { hard },
        why => LoadedError::Layout(why),
    }
}

/// Which argument of a call is a path.
fn path_argument(number: i64) -> Option<usize> {
    match number {
        libc::SYS_open
        | libc::SYS_access
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_readlink => Some(0),
        libc::SYS_openat
        | libc::SYS_newfstatat
        | libc::SYS_readlinkat
        | libc::SYS_faccessat
        | libc::SYS_statx => Some(1),
        _ => None,
    }
}

/// Where a process stops that is traced.
pub(crate) enum LoaderStop {
    /// At the begin or the end of a call.
    Call,
    /// At a trap.
    Trap,
}

/// Lets a process go on to its next stop.
pub(crate) fn next_call(pid: i32) -> Result<LoaderStop, LoadedError> {
    const CALL_STOP: i32 = libc::SIGTRAP | 0x80;
    loop {
        ptrace(libc::PTRACE_SYSCALL, pid, 0)?;
        let status = match wait_for(pid, libc::__WALL)? {
            Some((status, _)) if libc::WIFSTOPPED(status) => status,
            Some((status, _)) if libc::WIFEXITED(status) => {
                return Err(LoadedError::Ended(format!("status {}", libc::WEXITSTATUS(status))));
            }
            _ => return Err(LoadedError::Ended("a signal".into())),
        };
        match (status >> 16, libc::WSTOPSIG(status)) {
            (0, CALL_STOP) => return Ok(LoaderStop::Call),
            (0, libc::SIGTRAP) => return Ok(LoaderStop::Trap),
            (0, signal) => return Err(LoadedError::Ended(format!("signal {signal}"))),
            _ => {}
        }
    }
}

/// Has calls' stops told from traps, and the process end with this one.
pub(crate) fn options(pid: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    ptrace(libc::PTRACE_SETOPTIONS, pid, options as usize)
}

fn ptrace(request: libc::c_uint, pid: i32, data: usize) -> io::Result<()> {
    // SAFETY: these requests write no memory of this process; the address is unused.
    match unsafe { libc::ptrace(request, pid, 0usize, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The range of a line of /proc/PID/maps.
pub(crate) fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}
