//! One rank: started with its layout, timed, and told in one line.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use launch::layout::{self, AtExec, LayoutError, MemoryLayout, Untouched};
use launch::{Command, Ended, Timed};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::control;
use super::output::{Redirected, follow};
use crate::aslr::analyze::published;
use crate::aslr::log::Address;
use crate::aslr::measured::MeasuredProgram;
use crate::aslr::verify::beginnings;

/// What begins a rank's line.
const MARK: &str = "becalm.aslr.rank/1 ";
/// How much longer the environment is where another one is asked for.
const ENVIRONMENT: usize = 1000;

/// How a rank is to be started.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankStart {
    /// Its layout; none where the kernel draws.
    pub layout: Option<MemoryLayout>,
    /// The only processor that it may run on.
    pub on: Option<u32>,
    /// One that it may not run on.
    pub not_on: Option<u32>,
    /// Whether its environment is another one.
    pub environment: bool,
    /// What is looked at beside its times.
    pub beside: RankDetails,
}

/// What is looked at beside a rank's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankDetails {
    /// Nothing: the command tells it itself, as the built-in kernel does.
    #[default]
    Nothing,
    /// Its processors, and what a control loop takes there.
    Machine,
    /// These, and its vector registers at its end, for which it is traced all the time.
    MachineAndVectors,
}

/// What a rank says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankMeasures {
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
    /// The processor on which it executed its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cpu: Option<u32>,
    /// The one on which its first thread ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_cpu: Option<u32>,
    /// What the control loop took there, right before its first instruction and right after its
    /// end, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<f64>,
    /// How long its first thread was ready to run, and did not, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
    /// Whether the upper halves of vector registers were in use at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_upper: Option<bool>,
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
    /// It is not the program that it is without becalm.
    #[error(
        "the command executed a program that gets privileges, which a traced process does not: give \
         --untraced"
    )]
    LostRights,
    /// The processor that is asked for is not this rank's, or no other one is.
    #[error("the processor cannot be changed: {0}")]
    Processor(io::Error),
    /// It was moved, and is not what was measured.
    #[error(
        "{0} only starts the program that takes the time, and that one does not have its layout: \
         give the program itself, without a wrapper, or leave out the arm `job` (--arms on,off)"
    )]
    Wrapper(String),
    /// Pipes, /proc.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl RankMeasures {
    /// Its line, without a newline.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{MARK}{}", serde_json::to_string(self)?))
    }

    /// What a line tells; launchers put labels before it.
    pub(super) fn from_line(line: &[u8]) -> Option<RankMeasures> {
        let at = memchr::memmem::find(line, MARK.as_bytes())?;
        serde_json::from_slice(line[at + MARK.len()..].trim_ascii()).ok()
    }

    /// Lets a rank run to its end, and notes what is looked at beside its times.
    fn beside(
        &mut self,
        child: AtExec,
        vectors: bool,
    ) -> Result<(Timed, MeasuredProgram), RankError> {
        self.first_cpu = watch::processor(child.pid());
        let before = control::on(self.first_cpu);
        let waited = watch::waited(child.pid());
        let mut at_end = None;
        let timed = child.timed_by(|pid| {
            let end = at_end.insert(watch::to_end(pid, vectors)?);
            self.last_cpu = end.processor;
            let waited = end.waited.zip(waited).and_then(|(end, start)| end.checked_sub(start));
            self.waited = waited.map(|waited| waited.as_secs_f64());
            self.dirty_upper = end.upper_in_use;
            Ok(end.at)
        })?;
        if at_end.as_ref().is_some_and(|end| end.executed.iter().any(|one| one.lost_rights)) {
            return Err(RankError::LostRights);
        }
        self.control = Some((before + control::on(self.last_cpu)) / 2.0);
        let measured = at_end.map(|end| MeasuredProgram::of(&end, &timed));
        Ok((timed, measured.unwrap_or(MeasuredProgram::Started)))
    }
}

/// Starts a rank, waits for its end, and returns the published lines that it has printed, and what
/// is to be said of it. The process must have one thread.
///
/// # Errors
/// [`RankError`]. How the command ended is none of them.
pub fn run(
    command: &Command,
    seat: &RankStart,
    rank: u32,
    node: String,
) -> Result<(Vec<String>, RankMeasures, Ended), RankError> {
    if layout::untouched(&command.file().map_err(LayoutError::from)?) == Some(Untouched::Setuid) {
        return Err(RankError::Setuid);
    }
    sit(seat).map_err(RankError::Processor)?;
    if seat.environment {
        let variable = ("BECALM_ANOTHER_ENVIRONMENT".into(), "-".repeat(ENVIRONMENT).into());
        launch::set_variables(&[variable]);
    }
    let (pipe, printed) = io::pipe()?;
    let redirected = Redirected::to(printed)?;
    let child = layout::start(command, seat.layout);
    drop(redirected);
    let child = child?;
    // A thread only now: starting has changed the environment.
    let lines = follow(pipe, published_line);
    let maps = beginnings(&fs::read_to_string(format!("/proc/{}/maps", child.pid()))?);
    let mut told = RankMeasures { rank, node, maps, ..RankMeasures::default() };
    let (timed, measured) = match seat.beside {
        RankDetails::Nothing => (child.timed()?, MeasuredProgram::Started),
        RankDetails::Machine => told.beside(child, false)?,
        RankDetails::MachineAndVectors => told.beside(child, true)?,
    };
    if let (Some(MemoryLayout::Moved(_)), true, Ended::Exited(0)) =
        (seat.layout, measured != MeasuredProgram::Started, timed.ended)
    {
        return Err(RankError::Wrapper(command.argv[0].to_string_lossy().into_owned()));
    }
    match measured {
        MeasuredProgram::Started => {}
        MeasuredProgram::Executed(maps) => told.maps = maps,
        MeasuredProgram::Children => told.maps.clear(),
    }
    told.cpu = (timed.user + timed.system).as_secs_f64();
    told.wall = timed.wall.as_secs_f64();
    Ok((lines.all(), told, timed.ended))
}

/// A line in the published form, as text.
fn published_line(line: &[u8]) -> Option<String> {
    published::record(line.trim_ascii())?;
    Some(String::from_utf8_lossy(line.trim_ascii()).into_owned())
}

fn sit(seat: &RankStart) -> io::Result<()> {
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
        // One other, as it was one before: threads of its own must make no difference.
        let mut only = CpuSet::new();
        only.set(sched_getcpu());
        sched_setaffinity(None, &only)?;
    }
    Ok(())
}

fn inside(cpu: u32) -> io::Result<usize> {
    let cpu = cpu as usize;
    (cpu < CpuSet::MAX_CPU).then_some(cpu).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// A layout as `becalm run --aslr` takes it; `on` where the kernel draws.
pub(super) fn name(layout: Option<MemoryLayout>) -> String {
    match layout {
        None => "on".to_owned(),
        Some(MemoryLayout::Off) => "off".to_owned(),
        Some(MemoryLayout::Moved(moved)) => format!("layout:{moved}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_read_back_from_behind_a_label_and_nothing_else_is_one() {
        let maps = [("[stack]".to_owned(), Address(4096))].into();
        let told = RankMeasures {
            rank: 7,
            node: "n1".into(),
            cpu: 0.25,
            wall: 0.5,
            maps,
            ..RankMeasures::default()
        };
        let line = format!(" 7: {}\n", told.line().unwrap());
        assert_eq!(RankMeasures::from_line(line.as_bytes()), Some(told));
        assert_eq!(RankMeasures::from_line(&line.as_bytes()[..line.len() - 3]), None);
        assert_eq!(RankMeasures::from_line(b"CT: 1 2 3 4 5"), None);
    }

    #[test]
    fn a_rank_that_tells_of_nothing_beside_its_times_is_read_as_before() {
        let line = br#"becalm.aslr.rank/1 {"rank":1,"node":"n","cpu":0.5,"wall":0.5,"maps":{}}"#;
        let told = RankMeasures::from_line(line).unwrap();
        assert_eq!((told.first_cpu, told.control, told.dirty_upper), (None, None, None));
        let whole = RankMeasures { control: Some(4e-5), dirty_upper: Some(false), ..told };
        assert_eq!(RankMeasures::from_line(whole.line().unwrap().as_bytes()), Some(whole));
    }
}
