//! A child with a layout of its own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[cfg(target_arch = "x86_64")]
use super::{CLEAR_GAP, LayoutOffset, raised_to};
use super::{LayoutError, MemoryLayout, pad, personality, raised, restore};
use crate::arch::TRAP;
use crate::lookup::{CannotStart, Command};
use crate::spawn::spawn;
use crate::timed::{Timed, awaited, own_mask};
use crate::{set_variables, signals, wait_for};

/// A child that has executed its command, with its own limits, and has run nothing of it: it is
/// stopped, and traced by this process. Killed where it is dropped.
pub struct AtExec {
    pid: i32,
    held: bool,
}

/// Starts a command up to its first instruction; `None` is the layout that it would have anyway.
/// The environment is padded by variables of this process, which must have one thread.
///
/// # Errors
/// [`LayoutError`].
pub fn start(command: &Command, layout: Option<MemoryLayout>) -> Result<AtExec, LayoutError> {
    let limit = layout.map(raised).transpose()?.flatten();
    if let Some(MemoryLayout::Moved(moved)) = layout {
        set_variables(&pad::variables(command, &command.file()?, &[], moved.stack));
    }
    start_in(command, layout, limit)
}

/// The same, without randomisation, and with all mappings below what a randomised layout takes.
///
/// # Errors
/// [`LayoutError`].
#[cfg(target_arch = "x86_64")]
pub(crate) fn start_clear(command: &Command) -> Result<AtExec, LayoutError> {
    let limit = raised_to(CLEAR_GAP)?;
    start_in(command, Some(MemoryLayout::Moved(LayoutOffset::default())), Some(limit))
}

fn start_in(
    command: &Command,
    layout: Option<MemoryLayout>,
    limit: Option<Rlimit>,
) -> Result<AtExec, LayoutError> {
    let was = getrlimit(Resource::Stack);
    let mut child = spawn(command, &own_mask(), &|| {
        layout.map_or(Ok(()), personality)?;
        let raised = limit.map_or(Ok(()), |limit| setrlimit(Resource::Stack, limit));
        raised.map_err(Errno::raw_os_error)
    })?;
    let mut stopped = AtExec { pid: child.pid, held: true };
    restore::seize(child.pid).map_err(LayoutError::Untraceable)?;
    child.open().map_err(CannotStart::System)?;
    if let Err(error) = restore::until_exec(child.pid) {
        stopped.held = error.raw_os_error() != Some(libc::ESRCH);
        return Err(child.never_began().unwrap_or(CannotStart::System(error)).into());
    }
    restore::put_back(child.pid, was).map_err(LayoutError::System)?;
    Ok(stopped)
}

impl AtExec {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets it run up to the program's own first instruction: the loader has mapped and bound its
    /// libraries by then. Returns where the stack ends there.
    ///
    /// # Errors
    /// ESRCH if it ends before that.
    pub fn to_entry(&self) -> io::Result<u64> {
        let entry = entry(self.pid)?;
        let memory = File::options().read(true).write(true).open(proc(self.pid, "mem"))?;
        let mut before = [0; TRAP.len()];
        memory.read_exact_at(&mut before, entry)?;
        memory.write_all_at(TRAP, entry)?;
        restore::until_trap(self.pid)?;
        memory.write_all_at(&before, entry)?;
        // proc(5): of a process in no system call, -1, the stack pointer and the program counter.
        let registers = std::fs::read_to_string(proc(self.pid, "syscall"))?;
        let stack = registers.split_whitespace().nth(1).and_then(|word| word.strip_prefix("0x"));
        stack
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .ok_or_else(|| io::Error::other("the kernel does not tell its stack pointer"))
    }

    /// Has it followed to its end by somebody who uses that this process traces it, and who says
    /// when it ended, and leaves it to be waited for.
    ///
    /// # Errors
    /// What `follow` fails with, upon which it is killed; or if it is gone.
    pub fn timed_by(
        mut self,
        follow: impl FnOnce(i32) -> io::Result<Instant>,
    ) -> io::Result<Timed> {
        let start = Instant::now();
        let end = follow(self.pid)?;
        self.held = false;
        Ok(Timed { wall: end - start, ..awaited(self.pid, start)? })
    }

    /// Lets it run, traced, to its end. `look` sees it when it has run its last instruction, with the
    /// memory that it has then.
    ///
    /// # Errors
    /// What `look` fails with, upon which it is killed; or if it is gone.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn looked_at_in_the_end<T>(
        mut self,
        look: impl FnOnce(i32) -> io::Result<T>,
    ) -> io::Result<(T, Timed)> {
        let start = Instant::now();
        restore::until_exit(self.pid)?;
        let looked = look(self.pid)?;
        restore::detach(self.pid)?;
        self.held = false;
        Ok((looked, awaited(self.pid, start)?))
    }

    /// Lets it run, untraced, and waits for its end.
    ///
    /// # Errors
    /// If it is gone.
    pub fn timed(mut self) -> io::Result<Timed> {
        let start = Instant::now();
        restore::detach(self.pid)?;
        self.held = false;
        awaited(self.pid, start)
    }
}

/// The program's own first instruction: AT_ENTRY of its auxiliary vector (getauxval(3)).
pub(crate) fn entry(pid: i32) -> io::Result<u64> {
    let vector = std::fs::read(proc(pid, "auxv"))?;
    let (words, _) = vector.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    let pair = pairs.iter().find(|[kind, _]| u64::from_le_bytes(*kind) == libc::AT_ENTRY);
    let value = pair.map(|[_, value]| u64::from_le_bytes(*value));
    value.ok_or_else(|| io::Error::other("the program has no entry in its auxiliary vector"))
}

fn proc(pid: i32, file: &str) -> String {
    format!("/proc/{pid}/{file}")
}

impl Drop for AtExec {
    fn drop(&mut self) {
        if self.held {
            // The child is not reaped yet.
            let _ = signals::send(self.pid, libc::SIGKILL);
            let _ = wait_for(self.pid, libc::__WALL);
        }
    }
}
