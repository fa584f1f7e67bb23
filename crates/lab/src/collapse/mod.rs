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
//! | `held_signals` | signals to becalm meanwhile |
//! | `error` | why a process was left as it was |

mod advise;
mod blocks;
mod error;
mod held_signals;
mod process;

use std::io;
use std::time::{Duration, Instant};

use advise::Advised;
use blocks::{BLOCK, Blocks, Range};
pub use error::CollapseError;
use held_signals::SignalsHeldBack;
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
    /// How long collapsing took, in nanoseconds. The process ran meanwhile.
    pub took_ns: u64,
    /// Whether a signal to becalm cut it short.
    pub cut_short: bool,
}

/// After so many blocks in a row for which the kernel has found no huge page, it is not asked for
/// more: each time it tries to move memory together, which takes it some ten milliseconds.
const MOST_IN_VAIN: u32 = 16;

/// The most that one call asks for: in between becalm sees whether it is to end.
const MOST: u64 = 16 * BLOCK;

/// Puts a running process's private anonymous memory into huge pages, block by block. Tells how
/// many bytes of how many have been asked for.
///
/// The process is not stopped, and runs no instruction for it. Meant to be called in a process
/// with one thread.
///
/// # Errors
/// [`CollapseError`]: the process is as it was, or gone.
pub fn collapse(pid: i32, progress: &dyn Fn(u64, u64)) -> Result<Collapsed, CollapseError> {
    let process = TargetProcess { pid };
    let advised = Advised::open(pid).map_err(|_| CollapseError::Gone(pid))?;
    process.check()?;
    advised.may_collapse().map_err(|error| refusal(pid, error))?;
    let (name, before) = (process.name()?, process.memory()?);
    let blocks = blocks::find(&process)?;
    if blocks.ranges.is_empty() {
        return Err(CollapseError::Small(pid, small(&before, &blocks)));
    }
    let held = SignalsHeldBack::all();
    let mut work = CollapseWork {
        advised,
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
        cut_short: work.cut_short,
    })
}

/// What it means that the kernel does not let becalm collapse anything of a process.
fn refusal(pid: i32, error: io::Error) -> CollapseError {
    match error.raw_os_error() {
        Some(libc::ESRCH) => CollapseError::Gone(pid),
        Some(libc::EINVAL | libc::ENOSYS) => {
            let release = rustix::system::uname().release().to_string_lossy().into_owned();
            CollapseError::OldKernel { release }
        }
        _ => CollapseError::Unprivileged { pid, error },
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
    advised: Advised,
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
            for start in (range.start..range.start + range.bytes).step_by(MOST as usize) {
                let range = Range { start, bytes: MOST.min(range.start + range.bytes - start) };
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
        let Err(error) = self.advised.collapse(range.start, range.bytes) else {
            self.in_vain = 0;
            return Ok(());
        };
        if error.raw_os_error() == Some(libc::ESRCH) {
            return Err(CollapseError::Gone(self.pid));
        }
        if range.bytes <= BLOCK {
            self.refused.push(range);
            self.in_vain += u32::from(error.raw_os_error() == Some(libc::ENOMEM));
            self.why = Some(error);
            return Ok(());
        }
        let first = range.bytes / BLOCK / 2 * BLOCK;
        self.ask(Range { start: range.start, bytes: first })?;
        self.ask(Range { start: range.start + first, bytes: range.bytes - first })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
