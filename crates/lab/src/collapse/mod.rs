//! A running process's memory, put into huge pages by the kernel: `MADV_COLLAPSE`.
//!
//! fork(2) copies a page table of eight bytes for every page of 4 KiB; for a huge page of 2 MiB it
//! copies nothing but one such entry.
//!
//! | file | what it holds |
//! |---|---|
//! | `process` | what /proc says: its memory, and whether it allows huge pages |
//! | `blocks` | which memory huge pages fit |
//! | `advise` | the call that has the kernel do it, from outside |
//! | `lent/` | the same call by a thread of the process, where becalm may not; `not_lent` on other processors |
//! | `held_signals` | signals to becalm meanwhile |
//! | `error` | why a process was left as it was |

mod advise;
mod blocks;
mod error;
mod held_signals;
#[cfg(target_arch = "x86_64")]
mod lent;
#[cfg(not(target_arch = "x86_64"))]
mod not_lent;
mod process;

use std::io;
use std::time::{Duration, Instant};

use advise::Advised;
use blocks::{Blocks, Range, block_size};
pub use error::{CollapseError, LendRefusal};
use held_signals::SignalsHeldBack;
#[cfg(target_arch = "x86_64")]
use lent::LentThread;
#[cfg(not(target_arch = "x86_64"))]
use not_lent::NoLentThread as LentThread;
pub use process::Memory;
use process::TargetProcess;

/// What was done to a process, and what it brought.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct Collapsed {
    /// Its process id.
    pub pid: i32,
    /// Its name, as `ps` shows it.
    pub name: String,
    /// Its memory before.
    pub before: Memory,
    /// And after.
    pub after: Memory,
    /// What the kernel was asked to put into huge pages, in bytes.
    pub asked_bytes: u64,
    /// What was filled with zeros for that.
    pub filled_bytes: u64,
    /// What lies in blocks of 2 MiB that are mostly empty, and was left as it is.
    pub sparse_bytes: u64,
    /// Of what was asked for: what the kernel did not do, in bytes.
    pub refused_bytes: u64,
    /// The kernel's last reason for that.
    pub refused_why: Option<String>,
    /// How long collapsing took, in nanoseconds. The process ran meanwhile, but for a thread that
    /// was lent.
    pub took_ns: u64,
    /// Who asked the kernel for it.
    pub by: CollapseCaller,
    /// For how long one thread of the process was stopped for that, in nanoseconds; 0 from outside.
    pub stopped_ns: u64,
    /// Whether a signal to becalm cut it short.
    pub cut_short: bool,
}

/// Who asks the kernel to collapse memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CollapseCaller {
    /// becalm, from outside: nothing of the process is touched.
    Becalm,
    /// One thread of the process, which is stopped and lent for it.
    Thread,
}

/// After so many blocks in a row for which the kernel has found no huge page, it is not asked for
/// more: each time it tries to move memory together, which takes it some ten milliseconds.
const MOST_IN_VAIN: u32 = 16;

/// The most blocks that one call asks for: in between becalm sees whether it is to end.
const MOST: u64 = 16;

/// Puts a running process's private anonymous memory into huge pages, block by block. Tells how
/// many bytes of how many have been asked for.
///
/// The process is not stopped, and runs no instruction for it; where the kernel does not let this
/// process ask from outside, one thread of it does ([`CollapseCaller::Thread`]). Meant to be called
/// in a process with one thread.
///
/// # Errors
/// [`CollapseError`]: the process is as it was, or gone.
pub fn collapse(pid: i32, progress: &dyn Fn(u64, u64)) -> Result<Collapsed, CollapseError> {
    collapse_by(None, pid, progress)
}

/// The same, by this caller only.
///
/// # Errors
/// [`CollapseError`]: the process is as it was, or gone.
pub fn collapse_by(
    caller: Option<CollapseCaller>,
    pid: i32,
    progress: &dyn Fn(u64, u64),
) -> Result<Collapsed, CollapseError> {
    let process = TargetProcess { pid };
    let advised = Advised::open(pid).map_err(|_| CollapseError::Gone(pid))?;
    process.check()?;
    let outside = match caller {
        Some(CollapseCaller::Thread) => Err(io::Error::from_raw_os_error(libc::EPERM)),
        _ => advised.may_collapse(),
    };
    let (name, before) = (process.name()?, process.memory()?);
    let blocks = blocks::find(&process)?;
    if blocks.ranges.is_empty() {
        return Err(CollapseError::Small(pid, small(&before, &blocks)));
    }
    let held = SignalsHeldBack::all();
    let caller = match outside {
        Ok(()) => CollapseAsking::FromOutside(advised),
        Err(error) => CollapseAsking::ByThread(Box::new(lent(&process, caller, error)?)),
    };
    let mut work = CollapseWork {
        caller,
        pid,
        refused: Vec::new(),
        why: None,
        in_vain: 0,
        held: &held,
        cut_short: false,
        progress,
    };
    let since = Instant::now();
    work.collapse(&blocks.ranges)?;
    // What the kernel has no huge pages for, or is busy with, may do a moment later: the attempt
    // itself has it move memory together.
    let again = std::mem::take(&mut work.refused);
    work.collapse(&again)?;
    let (by, stopped) = work.caller.end();
    let took = since.elapsed();
    let why = work.why.filter(|_| !work.refused.is_empty()).map(|error| error.to_string());
    Ok(Collapsed {
        pid,
        name,
        before,
        after: process.memory()?,
        asked_bytes: blocks.bytes(),
        filled_bytes: blocks.filled_bytes,
        sparse_bytes: blocks.sparse_bytes,
        refused_bytes: work.refused.iter().map(|range| range.bytes).sum(),
        refused_why: why,
        took_ns: nanos(took),
        by,
        stopped_ns: nanos(stopped),
        cut_short: work.cut_short,
    })
}

/// A thread of the process, since the kernel does not let becalm collapse anything of it.
fn lent(
    process: &TargetProcess,
    caller: Option<CollapseCaller>,
    error: io::Error,
) -> Result<LentThread, CollapseError> {
    let pid = process.pid;
    match error.raw_os_error() {
        Some(libc::ESRCH) => Err(CollapseError::Gone(pid)),
        Some(libc::EINVAL | libc::ENOSYS) => {
            let release = rustix::system::uname().release().to_string_lossy().into_owned();
            Err(CollapseError::OldKernel { release })
        }
        _ if caller == Some(CollapseCaller::Becalm) => {
            Err(CollapseError::Unprivileged { pid, error, why: None })
        }
        _ => LentThread::of(process).map_err(|why| CollapseError::Unprivileged {
            pid,
            error,
            why: Some(why),
        }),
    }
}

/// How the kernel is asked.
enum CollapseAsking {
    FromOutside(Advised),
    ByThread(Box<LentThread>),
}

impl CollapseAsking {
    fn collapse(&mut self, range: Range) -> io::Result<()> {
        match self {
            CollapseAsking::FromOutside(advised) => advised.collapse(range.start, range.bytes),
            CollapseAsking::ByThread(thread) => {
                let advice = libc::MADV_COLLAPSE as u64;
                thread.call(libc::SYS_madvise, [range.start, range.bytes, advice])
            }
        }
    }

    /// Leaves the process alone; for how long a thread of it was stopped.
    fn end(&mut self) -> (CollapseCaller, Duration) {
        match self {
            CollapseAsking::FromOutside(_) => (CollapseCaller::Becalm, Duration::ZERO),
            CollapseAsking::ByThread(thread) => {
                // One that has gone needs nothing.
                let _ = thread.end();
                (CollapseCaller::Thread, thread.lent())
            }
        }
    }
}

/// Why there is nothing to do.
fn small(memory: &Memory, blocks: &Blocks) -> String {
    let mebibytes = |bytes: u64| bytes >> 20;
    format!(
        "{} MiB of {} MiB are in huge pages already, {} MiB are too scattered",
        mebibytes(memory.huge_bytes),
        mebibytes(memory.anonymous_bytes),
        mebibytes(blocks.sparse_bytes)
    )
}

/// Collapsing, as far as it has come.
struct CollapseWork<'a> {
    caller: CollapseAsking,
    pid: i32,
    refused: Vec<Range>,
    why: Option<io::Error>,
    in_vain: u32,
    held: &'a SignalsHeldBack,
    cut_short: bool,
    progress: &'a dyn Fn(u64, u64),
}

impl CollapseWork<'_> {
    fn collapse(&mut self, ranges: &[Range]) -> Result<(), CollapseError> {
        self.in_vain = 0;
        let (mut done, of) = (0, ranges.iter().map(|range| range.bytes).sum());
        for range in ranges {
            let most = MOST * block_size();
            for start in (range.start..range.start + range.bytes).step_by(most as usize) {
                let range = Range { start, bytes: most.min(range.start + range.bytes - start) };
                (self.progress)(done, of);
                done += range.bytes;
                self.cut_short |= self.held.asked_to_end();
                match self.cut_short || self.in_vain >= MOST_IN_VAIN {
                    true => self.refused.push(range),
                    false => self.ask(range)?,
                }
            }
        }
        Ok(())
    }

    /// Asks for a range. One block that cannot be done may keep the kernel from trying those
    /// behind it, so that a range that fails is asked for again in halves.
    fn ask(&mut self, range: Range) -> Result<(), CollapseError> {
        let Err(error) = self.caller.collapse(range) else {
            self.in_vain = 0;
            return Ok(());
        };
        if error.raw_os_error() == Some(libc::ESRCH) {
            return Err(CollapseError::Gone(self.pid));
        }
        // Somebody has stopped the process, which ends the lending.
        if error.raw_os_error() == Some(libc::EINTR) {
            (self.cut_short, self.why) = (true, Some(error));
            self.refused.push(range);
            return Ok(());
        }
        let block = block_size();
        if range.bytes <= block {
            self.refused.push(range);
            self.in_vain += u32::from(error.raw_os_error() == Some(libc::ENOMEM));
            self.why = Some(error);
            return Ok(());
        }
        let first = range.bytes / block / 2 * block;
        self.ask(Range { start: range.start, bytes: first })?;
        self.ask(Range { start: range.start + first, bytes: range.bytes - first })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
