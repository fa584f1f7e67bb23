//! Runs a side's command: recorded, timed, with a time limit.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use cost::CostModel;
use launch::{CommandLine, Ended, Stage, StageError, StageOutcome, Timed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::behaviour::ending;
use crate::elsewhere::{RunSurroundings, ServerCounts};
use crate::interleaved::ProofProgress;
use crate::recorded;
use crate::side::{ObservedRun, Side, Subject, TimedRun};

/// How commands are run.
#[derive(Clone)]
pub struct ProofBench {
    /// The file that each run reads from its start; `/dev/null` for nothing.
    pub input: PathBuf,
    /// After how long a run, recorded or timed, is ended and the proof given up.
    pub timeout: Option<Duration>,
    /// How to record.
    pub recorder: watch::RecorderOptions,
    /// How often each side is recorded: more than once shows whether its counts vary.
    pub recordings: usize,
    /// Where runs are made, if not simply on this machine.
    pub elsewhere: Option<Rc<dyn RunSurroundings>>,
    /// For which shared filesystem and job the wait is predicted.
    pub cost: Option<CostModel>,
}

impl Default for ProofBench {
    /// Nothing to read, no time limit, one recording, on this machine.
    fn default() -> ProofBench {
        ProofBench {
            input: "/dev/null".into(),
            timeout: None,
            recorder: watch::RecorderOptions::default(),
            recordings: 1,
            elsewhere: None,
            cost: None,
        }
    }
}

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The command did not start, or could not be recorded.
    #[error("{}", cannot_run(.command, .why))]
    CannotRun {
        /// The command, as it was written.
        command: String,
        /// The status that env(1) gives for it.
        status: u8,
        /// What is wrong.
        why: String,
    },
    /// What prepares a run failed.
    #[error("{command}: it was to prepare a run and failed ({})", ending(*.ended))]
    Prepare {
        /// The command's words.
        command: String,
        /// How it ended.
        ended: Ended,
    },
    /// It took too long, becalm was interrupted, or its own process failed.
    #[error("{command}: {error}")]
    Stage {
        /// The command, as it was written.
        command: String,
        /// What it was.
        error: StageError,
    },
    /// A recording's file.
    #[error("cannot keep a recording{}: {error}", place(.path.as_deref()))]
    Keep {
        /// The file, if it has a name.
        path: Option<PathBuf>,
        /// What went wrong.
        error: std::io::Error,
    },
}

fn place(path: Option<&Path>) -> String {
    path.map(|path| format!(" in {}", path.display())).unwrap_or_default()
}

/// Of a command that is one word, what is wrong says its name.
fn cannot_run(command: &str, why: &str) -> String {
    let is_named = why.strip_prefix(command).is_some_and(|rest| rest.starts_with(':'));
    if is_named { why.to_owned() } else { format!("{command}: {why}") }
}

impl ProofError {
    /// The exit status of becalm for it.
    pub fn exit_status(&self) -> u8 {
        match self {
            ProofError::CannotRun { status, .. } => *status,
            ProofError::Stage { error: StageError::TimedOut(_), .. } => 124,
            ProofError::Stage { error: StageError::Interrupted(signal), .. } => {
                128u8.wrapping_add(*signal as u8)
            }
            _ => 125,
        }
    }
}

impl ProofBench {
    /// Measures a command alone: a warm-up, the recordings, then `runs` timed runs; `keep` is
    /// the file for the first recording.
    ///
    /// # Errors
    /// [`ProofError`].
    pub fn measure(
        &self,
        subject: &Subject,
        runs: usize,
        keep: Option<&Path>,
        progress: &mut dyn FnMut(ProofProgress),
    ) -> Result<Side, ProofError> {
        let of = 1 + self.recordings + runs;
        let mut side = self.first(subject)?.0;
        for time in 0..self.recordings {
            progress(ProofProgress { done: 1 + time, of });
            self.record(subject, &mut side, keep.filter(|_| time == 0))?;
        }
        self.time(subject, &mut side, runs, &mut |step| {
            progress(ProofProgress { done: 1 + self.recordings + step.done, of });
        })?;
        Ok(side)
    }

    /// Measures a command that was measured before once more: its timed runs are these now.
    ///
    /// # Errors
    /// [`ProofError`].
    pub fn time(
        &self,
        subject: &Subject,
        side: &mut Side,
        runs: usize,
        progress: &mut dyn FnMut(ProofProgress),
    ) -> Result<(), ProofError> {
        side.runs.clear();
        for done in 0..runs {
            progress(ProofProgress { done, of: runs });
            let run = self.run(subject, side)?;
            side.runs.push(run);
        }
        Ok(())
    }

    /// The first run, which warms caches up: not timed for the proof.
    pub(crate) fn first(&self, subject: &Subject) -> Result<(Side, TimedRun), ProofError> {
        let (seen, run) = self.timed(subject)?;
        Ok((Side::of(subject, seen), run))
    }

    /// A further run of a side that is known: its behaviour is compared with the first's.
    pub(crate) fn run(&self, subject: &Subject, side: &mut Side) -> Result<TimedRun, ProofError> {
        let (seen, run) = self.timed(subject)?;
        side.see(&seen);
        Ok(run)
    }

    fn timed(&self, subject: &Subject) -> Result<(ObservedRun, TimedRun), ProofError> {
        self.prepare(subject)?;
        let command = subject.line.command();
        let act = || self.there(command, time);
        let played = self.play(&subject.text, &subject.line, act)?;
        let (timed, served) = played.result;
        Ok((
            ObservedRun::of(timed.ended, played.stdout, played.stderr, played.left_open),
            TimedRun { served, ..timed.into() },
        ))
    }

    /// Records one run, to this file or to one without a name.
    pub(crate) fn record(
        &self,
        subject: &Subject,
        side: &mut Side,
        keep: Option<&Path>,
    ) -> Result<(), ProofError> {
        self.prepare(subject)?;
        let failed = |error| ProofError::Keep { path: keep.map(Path::to_owned), error };
        let file = match keep {
            Some(path) => {
                let mut options = File::options();
                options.read(true).write(true).create(true).truncate(false);
                options.open(path).map_err(failed)?
            }
            None => launch::scratch_file().map_err(failed)?,
        };
        let command = subject.line.command();
        let record = |command: &_| recorded::of(command, file, &self.recorder, self.cost.as_ref());
        let act = || self.there(command, record);
        let played = self.play(&subject.text, &subject.line, act)?;
        let (recorded, _) = played.result;
        let left = played.left_open || recorded.left_processes;
        side.see(&ObservedRun::of(recorded.ended, played.stdout, played.stderr, left));
        side.place = side.place.take().or(recorded.place);
        side.predicted_wait = side.predicted_wait.or(recorded.predicted_wait);
        side.counted.push(recorded.counted);
        for blind in recorded.blinds {
            if !side.blinds.contains(&blind) {
                side.blinds.push(blind);
            }
        }
        Ok(())
    }

    /// On the stage: acts where runs are made, and says what that asked. The command's file is looked
    /// for here: there it would be asked for by the command alone.
    fn there<T>(
        &self,
        command: launch::Command,
        act: impl FnOnce(&launch::Command) -> Result<T, CannotRun>,
    ) -> Result<(T, Option<ServerCounts>), CannotRun> {
        let command = command.looked_up().map_err(CannotRun::of)?;
        let failed = |why| CannotRun { status: 125, why };
        let Some(elsewhere) = &self.elsewhere else { return Ok((act(&command)?, None)) };
        let stay = elsewhere.enter().map_err(failed)?;
        let result = act(&command)?;
        Ok((result, Some(stay.leave().map_err(failed)?)))
    }

    /// Runs what prepares a run.
    fn prepare(&self, subject: &Subject) -> Result<(), ProofError> {
        for line in &subject.prepare {
            let words: Vec<_> = line.argv.iter().map(|word| word.to_string_lossy()).collect();
            let (name, command) = (words.join(" "), line.command());
            match self.play(&name, line, || time(&command))?.result.ended {
                Ended::Exited(0) => {}
                ended => return Err(ProofError::Prepare { command: name, ended }),
            }
        }
        Ok(())
    }

    /// Acts on a stage with a line's environment.
    fn play<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        line: &CommandLine,
        act: impl FnOnce() -> Result<T, CannotRun>,
    ) -> Result<StageOutcome<T>, ProofError> {
        let (input, timeout) = (self.input.clone(), self.timeout);
        let environment = line.environment.clone();
        let stage = Stage { environment, input, timeout, ..Stage::new() };
        let command = || name.to_owned();
        let played =
            stage.play(act).map_err(|error| ProofError::Stage { command: command(), error })?;
        let StageOutcome { result, stdout, stderr, left_open } = played;
        match result {
            Ok(result) => Ok(StageOutcome { result, stdout, stderr, left_open }),
            Err(CannotRun { status, why }) => {
                Err(ProofError::CannotRun { command: command(), status, why })
            }
        }
    }
}

/// What an act on the stage sends back where it failed.
#[derive(Serialize, Deserialize)]
pub(crate) struct CannotRun {
    /// The status that env(1) gives for it.
    pub status: u8,
    /// What is wrong.
    pub why: String,
}

impl CannotRun {
    fn of(why: launch::CannotStart) -> CannotRun {
        CannotRun { status: why.exit_status(), why: why.to_string() }
    }
}

/// On the stage: runs the command and times it.
fn time(command: &launch::Command) -> Result<Timed, CannotRun> {
    launch::timed(command).map_err(CannotRun::of)
}
