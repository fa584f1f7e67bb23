//! Loads a recording, and shows that it is being loaded where that takes long.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use recording::{RankedRecordings, Recording, RecordingReadError};
use term::plain;

use crate::last;

/// Loading is silent for this long.
const PATIENCE: Duration = Duration::from_secs(1);

/// Loads the recording in `file`; the last one by [`last::NAME`]. If it takes over a second and standard error is a terminal,
/// a bar there says how far it is.
///
/// # Errors
/// [`LoadError`]; a recording that was cut is not one.
pub fn load(file: &Path) -> Result<Recording, LoadError> {
    let failed = |error| LoadError { file: file.to_owned(), error };
    let source = last::named(file).and_then(File::open).map_err(|error| failed(error.into()))?;
    let mut watched = Watched::new(source, &plain(&file.to_string_lossy()));
    let recording = Recording::read(BufReader::new(&mut watched)).map_err(failed);
    watched.bar.finish_and_clear();
    recording
}

/// Opens the recordings of ranks in `file`, or that of a single rank.
///
/// # Errors
/// [`LoadError`].
pub fn load_ranks(file: &Path) -> Result<RankedRecordings, LoadError> {
    let failed = |error| LoadError { file: file.to_owned(), error };
    let source = last::named(file).map_err(|error| failed(error.into()))?;
    RankedRecordings::open(&source).map_err(failed)
}

/// Loads one rank's recording from `file`.
///
/// # Errors
/// [`LoadError`], also where the file is not of ranks; none where that rank is not in it.
pub fn load_rank(file: &Path, rank: u32) -> Result<Option<Recording>, LoadError> {
    let ranks = load_ranks(file)?;
    let Some(member) = ranks.of(rank) else { return Ok(None) };
    let recording = member.recording();
    recording.map(Some).map_err(|error| LoadError { file: file.to_owned(), error })
}

/// Why a recording could not be loaded; says so in one line, with what to do about it.
#[derive(Debug)]
pub struct LoadError {
    file: PathBuf,
    error: RecordingReadError,
}

impl LoadError {
    /// Whether the file has the recordings of several ranks, and is to be asked for one of them,
    /// or as a whole.
    pub fn is_of_ranks(&self) -> bool {
        matches!(self.error, RecordingReadError::Ranks)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = plain(&self.file.to_string_lossy());
        // What a hostile file says of its version is text from a stranger.
        let wrong = plain(&self.error.to_string());
        // Rust adds a number that tells a person nothing.
        let wrong = wrong.split(" (os error ").next().unwrap_or(&wrong);
        let is_last = self.file.as_os_str() == last::NAME;
        match (is_last, &self.error) {
            (true, RecordingReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                write!(f, "no recording was kept yet; make one with: becalm check -- COMMAND")
            }
            _ => write!(f, "{file}: {wrong}; {}", remedy(&self.error)),
        }
    }
}

impl std::error::Error for LoadError {}

fn remedy(error: &RecordingReadError) -> &'static str {
    const RECORD: &str = "make one with: becalm record -o FILE -- COMMAND";
    match error {
        RecordingReadError::Io(error) => match error.kind() {
            io::ErrorKind::NotFound => RECORD,
            io::ErrorKind::PermissionDenied => "ask its owner to let you read it",
            io::ErrorKind::IsADirectory => "give the recording's own file",
            _ => "nothing was read",
        },
        RecordingReadError::Foreign => RECORD,
        RecordingReadError::Version { .. } => "read it with the becalm that made it",
        RecordingReadError::Ranks => "take one out with: becalm merge --rank N -o ONE FILE",
        RecordingReadError::NoRank => "give what `becalm record` made under srun or mpirun",
        RecordingReadError::NoHeader => "record the command again",
        RecordingReadError::Damaged(_) => "copy it again from where it was made, or record again",
    }
}

/// A source whose reader moves a bar, once it has taken longer than [`PATIENCE`].
struct Watched {
    source: File,
    bar: ProgressBar,
    since: Instant,
}

/// Whether a file that can be read begins as a recording does.
pub fn is_recording(file: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(file).and_then(|file| file.take(14).read_to_end(&mut start));
    read.is_ok() && recording::is_recording(&start)
}

impl Watched {
    fn new(source: File, name: &str) -> Watched {
        // A pipe does not say how much is to come.
        let bytes = source.metadata().ok().filter(Metadata::is_file).map(|file| file.len());
        let template = match bytes {
            Some(_) => "{msg} {wide_bar} {percent} %",
            None => "{msg}: {binary_bytes} so far",
        };
        let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(format!("reading {name}"));
        Watched { source, bar, since: Instant::now() }
    }
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.source.read(buffer)?;
        self.bar.inc(got as u64);
        if self.bar.is_hidden() && self.since.elapsed() > PATIENCE {
            // Stays hidden where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.tick();
        }
        Ok(got)
    }
}
