//! Running a command under the recorder, for the verbs that do.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::Path;

use anyhow::{Context, anyhow};
use job::RecordingTarget;
use launch::Command;
use recording::{Blind, LetGo, Rank, Recording, shown_name};
use schemars::JsonSchema;
use script::lines::LineFinder;
use serde::Serialize;
use watch::{Finished, Session};

use crate::exit::Failure;

/// What to run, and how.
pub struct RecordRequest {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Which system calls.
    pub calls: watch::WatchedCalls,
    /// Whether recorder and command may share a CPU.
    pub bind: bool,
    /// Whether an eBPF program may report calls, where that is allowed.
    pub tap: bool,
    /// Whether to do without what Linux 5.3 brought.
    pub old_kernel: bool,
    /// Only what starts processes; what is said above of calls then counts for nothing.
    pub starts: Option<watch::RecordedStarts>,
    /// What ends the watching; nothing but the end, where it is empty.
    pub until: Vec<watch::Until>,
}

impl RecordRequest {
    /// The command, as becalm records by default.
    pub fn of(command: &[OsString]) -> RecordRequest {
        RecordRequest {
            command: command.to_vec(),
            calls: watch::WatchedCalls::WithData,
            bind: true,
            tap: true,
            old_kernel: false,
            starts: None,
            until: Vec::new(),
        }
    }

    /// The same as the recorder says it.
    pub fn options(&self) -> watch::RecorderOptions {
        watch::RecorderOptions {
            calls: self.calls,
            page_faults: true,
            // Where opens are not stopped at, a command could read in /proc that it is bound.
            bind: self.bind && self.starts.is_none(),
            tap: self.tap,
            old_kernel: self.old_kernel,
            read_image: |path| loader::facts(path).ok(),
        }
    }
}

/// Runs the command and records it to a path. A file that is there is replaced if it is a
/// recording, and only once the command has started.
pub fn to_path(wanted: &RecordRequest, path: &Path) -> Result<Finished, Failure> {
    let existed = path.symlink_metadata().is_ok();
    let file = open(path, OpenOptions::new().write(true)).map_err(Failure::of_command)?;
    to_file(wanted, &Command::of(wanted.command.clone()), path, existed, file)
}

fn to_file(
    wanted: &RecordRequest,
    command: &Command,
    path: &Path,
    existed: bool,
    file: File,
) -> Result<Finished, Failure> {
    let session = start(wanted, command, file).inspect_err(|_| {
        // Nothing ran, and nothing is in it. Once the command has started, what was recorded
        // stays, however the recorder ends.
        if !existed {
            let _ = std::fs::remove_file(path);
        }
    })?;
    session.wait().map_err(failure)
}

/// Runs the command, records it to a file without a name, and reads that back.
pub fn and_read(wanted: &RecordRequest) -> Result<(Recording, Finished), Failure> {
    let (recording, finished, ()) = there_and_read(wanted, None, || Ok(()))?;
    Ok((recording, finished))
}

/// Runs the command, and records it to a path if one is given, else to a file without a name; in
/// other surroundings, which are entered once that file is open, and the command's is found: what is
/// looked at there, the command looks at.
pub fn there<T>(
    wanted: &RecordRequest,
    path: Option<&Path>,
    enter: impl FnOnce() -> Result<T, Failure>,
) -> Result<RecordedFile<T>, Failure> {
    let failed = |error: anyhow::Error| Failure::of_command(error);
    let command = Command::of(wanted.command.clone()).looked_up();
    let command =
        command.map_err(|why| Failure { status: why.exit_status(), error: why.into() })?;
    let (file, finished, entered) = match path {
        Some(path) if path.exists() && !path.is_file() => {
            let why = anyhow!("it could not be read back; give a regular file");
            return Err(failed(why.context(cannot_write(path))));
        }
        Some(path) => {
            let existed = path.symlink_metadata().is_ok();
            let file = open(path, OpenOptions::new().read(true).write(true)).map_err(failed)?;
            let copy = file.try_clone().map_err(Failure::of_command)?;
            let entered = enter()?;
            (file, to_file(wanted, &command, path, existed, copy)?, entered)
        }
        None => {
            let file = launch::scratch_file().context("cannot keep the recording for a moment");
            let file = file.map_err(failed)?;
            let copy = file.try_clone().map_err(Failure::of_command)?;
            let entered = enter()?;
            (file, start(wanted, &command, copy)?.wait().map_err(failure)?, entered)
        }
    };
    Ok(RecordedFile { file, finished, entered })
}

/// A recording that was just made, still open.
pub struct RecordedFile<T> {
    /// Its file.
    pub file: File,
    /// How the command ended.
    pub finished: Finished,
    /// The surroundings that were entered.
    pub entered: T,
}

impl<T> RecordedFile<T> {
    /// Reads it.
    pub fn read(&self) -> Result<Recording, Failure> {
        let recording = Recording::read_beside(&self.file).context("the recording just made");
        recording.map_err(Failure::of_command)
    }
}

/// As [`there`], and reads it back.
pub fn there_and_read<T>(
    wanted: &RecordRequest,
    path: Option<&Path>,
    enter: impl FnOnce() -> Result<T, Failure>,
) -> Result<(Recording, Finished, T), Failure> {
    let recorded = there(wanted, path, enter)?;
    Ok((recorded.read()?, recorded.finished, recorded.entered))
}

/// Records a command to its target with `record`, and then joins the recordings of its node if this
/// one is the last, whether or not the command could be started: what came of each.
pub fn to_target<T>(
    target: RecordingTarget,
    record: impl FnOnce(&Path) -> Result<T, Failure>,
    finished: impl FnOnce(&T) -> &Finished,
) -> (Result<T, Failure>, Result<(), Failure>) {
    let ran = record(&target.recording());
    let succeeded = ran.as_ref().is_ok_and(|it| finished(it).ended == launch::Ended::Exited(0));
    (ran, target.finish(!succeeded).map_err(Failure::of_command))
}

/// Starts the command, recorded to an open file.
fn start(wanted: &RecordRequest, command: &Command, file: File) -> Result<Session, Failure> {
    let (options, look) = (wanted.options(), Box::new(LineFinder::default()));
    let session = match wanted.starts {
        Some(starts) => watch::record_starts(command, file, &options, look, starts),
        None => watch::record_until(command, file, &options, look, wanted.until.clone()),
    };
    session.map_err(failure)
}

fn failure(error: watch::RecorderError) -> Failure {
    Failure { status: error.exit_status(), error: error.into() }
}

/// Opens the file to record to. Nothing but a recording, an empty file or a device is written
/// over: `-o` is easily mistyped.
pub fn open(path: &Path, options: &mut OpenOptions) -> anyhow::Result<File> {
    let what = || cannot_write(path);
    if path.is_dir() {
        return Err(anyhow!("it is a directory")).with_context(what);
    }
    crate::save::claim(path).with_context(what)?;
    let file = options.create(true).truncate(false).open(path).with_context(what)?;
    let is_written = path.is_file() && file.metadata().with_context(what)?.len() > 0;
    if is_written && !crate::load::is_recording(path) {
        let why = anyhow!("it exists and is not a recording; choose another name or remove it");
        return Err(why).with_context(what);
    }
    Ok(file)
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the recording to {}", path.display())
}

/// One line on standard error for each kind of thing that the recorder does not see, or that is otherwise under it.
pub fn say_blinds(blinds: &[Blind]) {
    explain::said(blinds).iter().for_each(|line| term::warn(line));
}

/// One line on standard error for each thing that the recording does not show.
pub fn say_what_is_missing(finished: &Finished) {
    say_blinds(&finished.blinds);
    if let Some(let_go) = &finished.let_go {
        term::warn(&explain::watched_until(let_go));
    }
    if finished.still_running > 0 {
        term::warn(&format!(
            "the command has ended, {} of its processes still {}: recording goes on in \
             the background until the last ends",
            finished.still_running,
            if finished.still_running == 1 { "runs" } else { "run" },
        ));
    }
}

/// The same of one of many ranks: what all of them would say is left to the report on them.
pub fn say_what_is_missing_of(rank: &Rank, finished: &Finished) {
    if finished.still_running > 0 {
        term::warn(&format!(
            "rank {}: the command has ended, {} of its processes still {}: what is done there \
             from now on is not recorded",
            rank.rank,
            finished.still_running,
            if finished.still_running == 1 { "runs" } else { "run" },
        ));
    }
}

/// What `becalm record --json` answers.
#[derive(Serialize, JsonSchema)]
pub struct RecordAnswer<'a> {
    /// `becalm.record/1`.
    schema: &'static str,
    /// The path given with `-o`.
    recording: String,
    /// Under srun or mpirun: which rank. `recording` is then the node's file, which has all ranks
    /// once the last of the node has ended.
    rank: Option<&'a Rank>,
    /// How the command ended.
    ended: launch::Ended,
    /// Processes of the command that still run; they are recorded further, in the background.
    still_running: usize,
    /// Whether the recording on disk was ended and holds the whole run.
    whole: bool,
    /// When and why the command was let go of, if it was when its start was over.
    let_go: Option<&'a LetGo>,
    /// Why the recording is cut, e.g. a full disk.
    failure: Option<&'a str>,
    /// What the recording does not show.
    blinds: &'a [Blind],
}

/// One JSON object about a recording that was just made (docs/schema/becalm.record.md).
pub fn print_json(path: &Path, rank: Option<&Rank>, finished: &Finished) -> Result<(), Failure> {
    let Finished { ended, still_running, let_go, failure, blinds } = finished;
    let object = RecordAnswer {
        schema: "becalm.record/1",
        recording: shown_name(path),
        rank,
        ended: *ended,
        still_running: *still_running,
        whole: failure.is_none() && *still_running == 0 && let_go.is_none(),
        let_go: let_go.as_ref(),
        failure: failure.as_deref(),
        blinds,
    };
    let line = term::json::line(&object).map_err(Failure::of_command)?;
    term::print_beside(&format!("{line}\n"));
    Ok(())
}

/// Ends as the command ended: where the recording was cut that is said, and the command is none
/// the worse for it.
pub fn pass_on(finished: &Finished) -> Result<u8, Failure> {
    if let Some(failure) = &finished.failure {
        term::warn(&format!(
            "the recording is cut, it could not be written to its end: {failure}; the command \
             itself ended ({})",
            match finished.ended {
                launch::Ended::Exited(status) => format!("status {status}"),
                launch::Ended::Signaled(signal) => format!("killed by signal {signal}"),
            }
        ));
    }
    Ok(finished.ended.pass_on())
}
