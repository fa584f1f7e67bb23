//! A running process's memory, put into huge pages by the kernel: `MADV_COLLAPSE`.
//!
//! fork(2) copies a page table of eight bytes for every page of 4 KiB; for a huge page of 2 MiB it
//! copies nothing but one such entry. madvise(2) works on the caller's own memory only
//! (process_madvise(2) needs CAP_SYS_NICE), so that the process has to make the call itself. It
//! gets a second thread for that, for a moment, by ptrace(2).
//!
//! | file | what it holds |
//! |---|---|
//! | `process` | what /proc says: whether the process may be touched, its memory, its threads |
//! | `blocks` | which memory huge pages fit |
//! | `instructions` | where the process has the instructions that are borrowed |
//! | `borrowed` | a thread stopped, made to make a second one, and put back |
//! | `restart` | system calls that the kernel does not restart by itself after that |
//! | `helper` | the second thread: its calls, its way out should becalm die, its end |
//! | `held` | signals to becalm meanwhile |
//! | `stops`, `memory` | the kernel's interfaces |
//! | `error` | why a process was left as it was |

mod blocks;
mod borrowed;
mod error;
mod held;
mod helper;
mod instructions;
mod memory;
mod process;
mod restart;
mod stops;

use std::time::{Duration, Instant};

use blocks::{BLOCK, Blocks, Range};
use borrowed::Lent;
pub use error::Error;
use held::Held;
use helper::Helper;
pub use process::Memory;
use process::Process;

/// What was done to a process, and what it brought.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Collapsed {
    /// Its process id.
    pub pid: i32,
    /// Its name, as `ps` shows it.
    pub name: String,
    /// Its memory before.
    pub before: Memory,
    /// And after.
    pub after: Memory,
    /// How long a fork of it took before, in nanoseconds: copied, and taken apart again. Empty
    /// where the kernel made no process.
    pub fork_before_ns: Vec<u64>,
    /// And after.
    pub fork_after_ns: Vec<u64>,
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
    /// How long one of its threads was stopped, in nanoseconds.
    pub stopped_ns: u64,
    /// Whether a signal to becalm cut it short.
    pub cut_short: bool,
}

/// How often a fork is timed, before and after.
const FORKS: usize = 5;

/// After so many blocks in a row for which the kernel has found no huge page, it is not asked for
/// more: each time it tries to move memory together, which takes it some ten milliseconds.
const MOST_IN_VAIN: u32 = 16;

/// The most that one call asks for: in between becalm sees whether it is to end.
const MOST: u64 = 16 * BLOCK;

/// Puts a running process's private anonymous memory into huge pages, block by block, and times
/// forks of it before and after. Tells how many bytes of how many have been asked for.
///
/// One of its threads is stopped for about 0.1 ms, and is then as it was: registers,
/// signal mask, pending signals, the system call that it was in. No instruction is written into
/// the process. Meant to be called in a process with one thread.
///
/// # Errors
/// [`Error`]: the process is as it was, or gone.
pub fn collapse(pid: i32, progress: &dyn Fn(u64, u64)) -> Result<Collapsed, Error> {
    let process = Process { pid };
    process.check()?;
    let (name, before) = (process.name()?, process.memory()?);
    let blocks = blocks::find(&process)?;
    if blocks.ranges.is_empty() {
        return Err(Error::Small(pid, small(&before, &blocks)));
    }
    let instructions = instructions::find(&process)?;
    let held = Held::back();
    let Lent { mut helper, stopped } = borrowed::lend(&process, instructions)?;
    let fork_before_ns = time_forks(&mut helper)?;
    let mut work = Work {
        refused: Vec::new(),
        why: None,
        in_vain: 0,
        held: &held,
        cut_short: false,
        progress,
    };
    let since = Instant::now();
    work.collapse(&mut helper, &blocks.ranges)?;
    // What the kernel has no huge pages for, or is busy with, may do a moment later: the attempt
    // itself has it move memory together.
    let again = std::mem::take(&mut work.refused);
    work.collapse(&mut helper, &again)?;
    let took = since.elapsed();
    let fork_after_ns = if work.cut_short { Vec::new() } else { time_forks(&mut helper)? };
    drop(helper);
    let why = work
        .why
        .filter(|_| !work.refused.is_empty())
        .map(|error| std::io::Error::from_raw_os_error(error).to_string());
    Ok(Collapsed {
        pid,
        name,
        before,
        after: process.memory()?,
        fork_before_ns,
        fork_after_ns,
        asked_bytes: blocks.bytes(),
        filled_bytes: blocks.filled_bytes,
        sparse_bytes: blocks.sparse_bytes,
        refused_bytes: work.refused.iter().map(|range| range.bytes).sum(),
        refused_why: why,
        took_ns: nanos(took),
        stopped_ns: nanos(stopped),
        cut_short: work.cut_short,
    })
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

fn time_forks(helper: &mut Helper) -> Result<Vec<u64>, Error> {
    let mut times = Vec::new();
    for _ in 0..FORKS {
        match helper.fork()? {
            Some(time) => times.push(nanos(time)),
            None => break,
        }
    }
    Ok(times)
}

/// Collapsing, as far as it has come.
struct Work<'a> {
    refused: Vec<Range>,
    why: Option<i32>,
    in_vain: u32,
    held: &'a Held,
    cut_short: bool,
    progress: &'a dyn Fn(u64, u64),
}

impl Work<'_> {
    fn collapse(&mut self, helper: &mut Helper, ranges: &[Range]) -> Result<(), Error> {
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
                    false => self.ask(helper, range)?,
                }
            }
        }
        Ok(())
    }

    /// Asks for a range. One block that cannot be done may keep the kernel from trying those
    /// behind it, so that a range that fails is asked for again in halves.
    fn ask(&mut self, helper: &mut Helper, range: Range) -> Result<(), Error> {
        let Err(error) = helper.collapse(range.start, range.bytes)? else {
            self.in_vain = 0;
            return Ok(());
        };
        if range.bytes <= BLOCK {
            self.refused.push(range);
            self.why = Some(error);
            self.in_vain += u32::from(error == libc::ENOMEM);
            return Ok(());
        }
        let first = range.bytes / BLOCK / 2 * BLOCK;
        self.ask(helper, Range { start: range.start, bytes: first })?;
        self.ask(helper, Range { start: range.start + first, bytes: range.bytes - first })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
