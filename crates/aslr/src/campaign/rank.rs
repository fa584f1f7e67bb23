//! One rank: started with its layout, timed, and told in one line.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use launch::layout::{self, Layout, LayoutError, Untouched};
use launch::{Command, Ended};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::output::{Redirected, follow};
use crate::analyze::published;
use crate::log::Address;
use crate::verify::beginnings;

/// What begins a rank's line.
const MARK: &str = "becalm.aslr.rank/1 ";
/// How much longer the environment is where another one is asked for.
const ENVIRONMENT: usize = 1000;

/// How a rank is to be started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seat {
    /// Its layout; none where the kernel draws.
    pub layout: Option<Layout>,
    /// The only processor that it may run on.
    pub on: Option<u32>,
    /// One that it may not run on.
    pub not_on: Option<u32>,
    /// Whether its environment is another one.
    pub environment: bool,
}

/// What a rank says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Its number.
    pub rank: u32,
    /// Where it ran.
    pub node: String,
    /// Its processor time, with that of children that it waited for, in seconds.
    pub cpu: f64,
    /// From its first instruction to its end, in seconds.
    pub wall: f64,
    /// Where what began before its first instruction: the program, its loader, the stack.
    pub maps: BTreeMap<String, Address>,
}

/// Why a rank has no time.
#[derive(Debug, thiserror::Error)]
pub enum RankError {
    /// Its layout, or the command.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The kernel does not let becalm choose for such a program.
    #[error("the program changes its user, group or capabilities, for which layouts are not kept")]
    Setuid,
    /// The processor that is asked for is not this rank's, or no other one is.
    #[error("the processor cannot be changed: {0}")]
    Processor(io::Error),
    /// Pipes, /proc.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl Told {
    /// Its line, without a newline.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{MARK}{}", serde_json::to_string(self)?))
    }

    /// What a line tells; launchers put labels before it.
    pub(super) fn from_line(line: &[u8]) -> Option<Told> {
        let at = memchr::memmem::find(line, MARK.as_bytes())?;
        serde_json::from_slice(line[at + MARK.len()..].trim_ascii()).ok()
    }
}

/// Starts a rank, waits for its end, and returns the published lines that it has printed, and what
/// is to be said of it. The process must have one thread.
///
/// # Errors
/// [`RankError`]. How the command ended is none of them.
pub fn run(
    command: &Command,
    seat: &Seat,
    rank: u32,
    node: String,
) -> Result<(Vec<String>, Told, Ended), RankError> {
    if layout::untouched(&command.file().map_err(LayoutError::from)?) == Some(Untouched::Setuid) {
        return Err(RankError::Setuid);
    }
    sit(seat).map_err(RankError::Processor)?;
    if seat.environment {
        // SAFETY: there is one thread.
        unsafe { std::env::set_var("BECALM_ANOTHER_ENVIRONMENT", "-".repeat(ENVIRONMENT)) };
    }
    let (pipe, printed) = io::pipe()?;
    let redirected = Redirected::to(printed)?;
    let child = layout::start(command, seat.layout);
    drop(redirected);
    let child = child?;
    // A thread only now: starting has changed the environment.
    let lines = follow(pipe, published_line);
    let maps = beginnings(&fs::read_to_string(format!("/proc/{}/maps", child.pid()))?);
    let timed = child.timed()?;
    let told = Told {
        rank,
        node,
        cpu: (timed.user + timed.system).as_secs_f64(),
        wall: timed.wall.as_secs_f64(),
        maps,
    };
    Ok((lines.all(), told, timed.ended))
}

/// A line in the published form, as text.
fn published_line(line: &[u8]) -> Option<String> {
    published::record(line.trim_ascii())?;
    Some(String::from_utf8_lossy(line.trim_ascii()).into_owned())
}

fn sit(seat: &Seat) -> io::Result<()> {
    let may = || sched_getaffinity(None);
    if let Some(cpu) = seat.on {
        let mut only = CpuSet::new();
        only.set(inside(cpu)?);
        sched_setaffinity(None, &only)?;
    }
    if let Some(cpu) = seat.not_on {
        let mut others = may()?;
        others.unset(inside(cpu)?);
        // An empty set is EINVAL.
        sched_setaffinity(None, &others)?;
    }
    Ok(())
}

fn inside(cpu: u32) -> io::Result<usize> {
    let cpu = cpu as usize;
    (cpu < CpuSet::MAX_CPU).then_some(cpu).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// A layout as `becalm run --aslr` takes it; `on` where the kernel draws.
pub(super) fn name(layout: Option<Layout>) -> String {
    match layout {
        None => "on".to_owned(),
        Some(Layout::Off) => "off".to_owned(),
        Some(Layout::Moved(moved)) => format!("layout:{moved}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_read_back_from_behind_a_label_and_nothing_else_is_one() {
        let maps = [("[stack]".to_owned(), Address(4096))].into();
        let told = Told { rank: 7, node: "n1".into(), cpu: 0.25, wall: 0.5, maps };
        let line = format!(" 7: {}\n", told.line().unwrap());
        assert_eq!(Told::from_line(line.as_bytes()), Some(told));
        assert_eq!(Told::from_line(&line.as_bytes()[..line.len() - 3]), None);
        assert_eq!(Told::from_line(b"CT: 1 2 3 4 5"), None);
    }
}
