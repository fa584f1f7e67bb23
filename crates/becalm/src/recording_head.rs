//! What was recorded, and whether all of it was seen.

use std::path::{Path, PathBuf};

use explain::{RunWarning, WarningKind};
use recording::{LetGo, Name, Nanos, Recording, shown_name};
use schemars::JsonSchema;
use serde::Serialize;
use term::{plain, quoted_path, shell_line, width};

/// What every verb says of a recording before it says anything else.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RecordingHead {
    /// The recording's file, as given.
    #[serde(skip)]
    pub file: PathBuf,
    /// The same, as text.
    pub recording: String,
    /// Which rank's recording of the file it is, where that has to be said.
    #[serde(skip)]
    pub rank: Option<u32>,
    /// The command that was recorded.
    pub command: Vec<Name>,
    /// The directory it was started in.
    pub cwd: String,
    /// The machine.
    pub host: String,
    /// Its kernel's release.
    pub kernel: String,
    /// Seconds since 1970 at the start.
    pub started_unix: u64,
    /// From the start to the last thing recorded, in nanoseconds.
    pub duration_ns: u64,
    /// How many processes it had.
    pub processes: u64,
    /// How many system calls the recording holds.
    pub calls: u64,
    /// Whether every system call was recorded, or `%file,%desc,%process` only.
    pub all_syscalls: bool,
    /// Whether calls on open descriptors (reads, writes, closes) were not watched.
    pub metadata_only: bool,
    /// Whether the recording shows all of the run.
    pub whole: bool,
    /// Why it does not, where it was cut.
    pub cut: Option<String>,
    /// When and why the command was watched no longer, where that was before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub let_go: Option<LetGo>,
    /// What it cannot show.
    pub blind: Vec<RunWarning>,
}

/// The warnings that say that a recording ended too early.
const CUT: [WarningKind; 3] = [WarningKind::Cut, WarningKind::Running, WarningKind::LetGo];

impl RecordingHead {
    /// What is to be said of the recording that was loaded from `file`.
    pub fn of(file: &Path, recording: &Recording) -> RecordingHead {
        let header = &recording.header;
        // How the command itself ended is no flaw of the recording.
        let warnings =
            explain::warnings(recording).into_iter().filter(|it| it.kind != WarningKind::Failed);
        let (cut, blind): (Vec<_>, Vec<_>) = warnings.partition(|it| CUT.contains(&it.kind));
        RecordingHead {
            file: file.to_owned(),
            rank: None,
            recording: shown_name(file),
            command: header.command(),
            cwd: header.cwd.clone(),
            host: header.host.clone(),
            kernel: header.kernel.clone(),
            started_unix: header.started_unix,
            duration_ns: duration(recording).0,
            processes: recording.processes.len() as u64,
            calls: recording.events.len() as u64,
            all_syscalls: header.all_syscalls,
            metadata_only: header.metadata_only,
            whole: recording.is_whole(),
            let_go: recording.let_go().cloned(),
            cut: cut.into_iter().map(|warning| warning.text).next(),
            blind,
        }
    }

    /// The recording's file as a shell takes it, with the rank that is meant.
    pub fn quoted_file(&self) -> String {
        let file = quoted_path(&self.file);
        self.rank.map_or(file.clone(), |rank| format!("{file} --rank {rank}"))
    }

    /// The command as a shell takes it; safe to show.
    pub fn command_line(&self) -> String {
        shell_line(&self.command)
    }

    /// The command to be run once more by a verb, as a line to paste: from elsewhere, where it was
    /// recorded.
    pub fn repeated(&self, verb: &str) -> String {
        let line = format!("{verb} -- {}", self.command_line());
        let is_here = std::env::current_dir().is_ok_and(|here| here == Path::new(&self.cwd));
        match is_here || self.cwd.is_empty() {
            true => line,
            false => format!("(cd {} && {line})", term::quoted(Path::new(&self.cwd))),
        }
    }

    /// The command for a line of prose on a terminal of so many columns: cut in the middle where
    /// it would fill more than two lines.
    pub fn command_in(&self, columns: usize) -> String {
        width::shorten(&self.command_line(), columns.saturating_mul(2))
    }

    /// What a reader must be told before trusting a number: one line each, for standard error.
    pub fn warnings(&self) -> Vec<String> {
        let file = plain(&self.recording);
        let blind = self.blind.iter().map(|warning| &warning.text);
        let unwatched = self.metadata_only.then(|| {
            format!("{file}: reads, writes and closes were not watched: they are not counted")
        });
        let flaws = self.cut.iter().chain(blind).map(|text| format!("{file}: {text}"));
        flaws.chain(unwatched).collect()
    }
}

/// Until when the recording knows anything.
fn duration(recording: &Recording) -> Nanos {
    let ended = recording.summary.as_ref().map(|summary| summary.ended);
    let last_call = recording.events.last().map(|event| event.start + event.took);
    ended.or(last_call).unwrap_or_default()
}
