//! One of the two: its command, and all that was measured of it.

use std::ffi::{OsStr, OsString};

use cost::PredictedWait;
use launch::{Captured, CommandLine, Ended, LineError, Timed};
use recording::{Blind, ByteUnits, Micros, Nanos, shown_name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::behaviour::{Output, STATUS, STDERR, STDOUT};
use crate::counts::RecordedCounts;
use crate::elsewhere::ServerCounts;
use crate::place::TestedFilesystem;

/// A command to measure, and what to run before each of its runs.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The command, as it was written.
    pub text: String,
    /// The same, split.
    pub line: CommandLine,
    /// Commands that are run before each run, not measured: each must end with status 0.
    pub prepare: Vec<CommandLine>,
}

impl Subject {
    /// A command written as one line, which nothing prepares.
    ///
    /// # Errors
    /// [`LineError`]: it is empty, or only a shell could run it.
    pub fn parse(text: &OsStr) -> Result<Subject, LineError> {
        let line = CommandLine::parse(text)?;
        Ok(Subject { text: text.to_string_lossy().into_owned(), line, prepare: Vec::new() })
    }
}

/// What was measured of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The command, as it was written.
    pub command: String,
    /// Its words, as text.
    pub argv: Vec<String>,
    /// The variables that were set for it, as text.
    pub environment: Vec<(String, String)>,
    /// How it ended, the first time.
    pub ended: Ended,
    /// What came out of standard output, the first time.
    pub stdout: Output,
    /// What came out of standard error, the first time.
    pub stderr: Output,
    /// What was not the same in all runs: `standard output`, `standard error`, `status`.
    pub varying: Vec<String>,
    /// Whether it left processes behind.
    pub left_processes: bool,
    /// The filesystem that it asked most.
    pub place: Option<TestedFilesystem>,
    /// What the first recording says that it waits for the shared filesystem, where it is emulated.
    #[serde(default)]
    pub predicted_wait: Option<PredictedWait>,
    /// What each recording counted.
    pub counted: Vec<RecordedCounts>,
    /// What the recordings do not show.
    pub blinds: Vec<Blind>,
    /// The timed runs, in their order.
    pub runs: Vec<TimedRun>,
}

/// One timed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimedRun {
    /// From just before its exec to its end.
    pub wall_ns: Nanos,
    /// CPU time in the program and its children.
    pub user_us: Micros,
    /// CPU time in the kernel.
    pub system_us: Micros,
    /// The largest resident set of any of its processes.
    pub max_rss_bytes: ByteUnits,
    /// What it asked of the server, where it was made elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<ServerCounts>,
}

impl From<Timed> for TimedRun {
    fn from(timed: Timed) -> TimedRun {
        let micros = |time: std::time::Duration| Micros(time.as_micros() as u64);
        TimedRun {
            wall_ns: Nanos(timed.wall.as_nanos() as u64),
            user_us: micros(timed.user),
            system_us: micros(timed.system),
            max_rss_bytes: ByteUnits(timed.max_rss),
            served: None,
        }
    }
}

/// What any run shows, recorded, timed or warming up.
pub(crate) struct ObservedRun {
    pub ended: Ended,
    pub stdout: Output,
    pub stderr: Output,
    pub left_processes: bool,
}

impl ObservedRun {
    pub(crate) fn of(
        ended: Ended,
        stdout: Captured,
        stderr: Captured,
        left_processes: bool,
    ) -> ObservedRun {
        ObservedRun { ended, stdout: stdout.into(), stderr: stderr.into(), left_processes }
    }
}

impl Side {
    /// A side of whose command one run was seen.
    pub(crate) fn of(subject: &Subject, seen: ObservedRun) -> Side {
        let text = |word: &OsString| shown_name(word);
        let variables = subject.line.environment.iter();
        Side {
            command: subject.text.clone(),
            argv: subject.line.argv.iter().map(text).collect(),
            environment: variables.map(|(name, value)| (text(name), text(value))).collect(),
            ended: seen.ended,
            stdout: seen.stdout,
            stderr: seen.stderr,
            varying: Vec::new(),
            left_processes: seen.left_processes,
            place: None,
            predicted_wait: None,
            counted: Vec::new(),
            blinds: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Takes in one more run, and notes in what it was not like the first.
    pub(crate) fn see(&mut self, seen: &ObservedRun) {
        let same = [
            (STDOUT, self.stdout.is(&seen.stdout)),
            (STDERR, self.stderr.is(&seen.stderr)),
            (STATUS, self.ended == seen.ended),
        ];
        for (what, same) in same {
            if !same && !self.varying.iter().any(|known| known == what) {
                self.varying.push(what.to_owned());
            }
        }
        self.left_processes |= seen.left_processes;
    }

    /// The first recording's counts; zeros if there is none.
    pub fn first_counted(&self) -> RecordedCounts {
        self.counted.first().cloned().unwrap_or_default()
    }

    /// What its runs asked of the server, each number the median; none where they were made on
    /// this machine.
    pub fn served(&self) -> Option<ServerCounts> {
        let served: Vec<ServerCounts> = self.runs.iter().filter_map(|run| run.served).collect();
        let median = |get: fn(&ServerCounts) -> u64| {
            let mut numbers: Vec<u64> = served.iter().map(get).collect();
            numbers.sort_unstable();
            numbers.get(numbers.len() / 2).copied()
        };
        Some(ServerCounts {
            rpcs: median(|served| served.rpcs)?,
            enoent: median(|served| served.enoent)?,
            waited_ns: Nanos(median(|served| served.waited_ns.0)?),
            queued_ns: Nanos(median(|served| served.queued_ns.0)?),
            bytes: ByteUnits(median(|served| served.bytes.0)?),
        })
    }

    /// The fewest and the most metadata operations that its runs asked of the server.
    pub(crate) fn served_range(&self) -> Option<(u64, u64)> {
        let rpcs = || self.runs.iter().filter_map(|run| Some(run.served?.rpcs));
        Some((rpcs().min()?, rpcs().max()?))
    }

    /// The times of its runs, in seconds.
    pub fn wall_seconds(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.wall_ns.seconds()).collect()
    }
}
