//! The directory in which all is measured: made, filled, removed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{CHECKS, DATA_BYTES, MeasureBounds, SMALL_BYTES, SMALL_FILES};

/// What it is called, before letters of its own.
const PREFIX: &str = ".becalm-calibrate-";
/// In so many threads files are made and removed.
const HANDS: usize = 8;
/// Making files of one kind takes no longer; fewer are used then.
const LASTS: Duration = Duration::from_secs(2);

/// The directory; gone with it.
#[derive(Debug)]
pub struct MeasuringTree {
    path: PathBuf,
    is_removed: bool,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The directory that was named.
    #[error("{}: {}", .path.display(), why(.error))]
    Directory {
        /// It.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Somebody asked to end.
    #[error("asked to end")]
    Interrupted,
}

fn why(error: &io::Error) -> String {
    let mib = MeasureBounds::BYTES >> 20;
    let files = MeasureBounds::FILES;
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!(
            "no room for the {mib} MiB and {files} files to measure with; make room, or name \
             another directory of this filesystem"
        ),
        io::ErrorKind::ReadOnlyFilesystem => "a read-only filesystem cannot be measured: \
             files have to be made; name a directory that you can write to"
            .to_owned(),
        io::ErrorKind::PermissionDenied => {
            "you may not make files here; name a directory of yours on this filesystem".to_owned()
        }
        io::ErrorKind::NotFound => {
            "there is no such directory; name one on the filesystem to measure".to_owned()
        }
        io::ErrorKind::NotADirectory => "it is no directory; name the one it is in".to_owned(),
        _ => format!("cannot measure here: {error}"),
    }
}

/// What is in it, for those who measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuringPlan {
    /// The node that made it.
    pub node: String,
    /// Empty files in `names`.
    pub names: usize,
    /// Small files in `small`.
    pub small: usize,
    /// Files for each check of lifetimes.
    pub quiet: usize,
    /// For how long it may all take from now on, in seconds.
    pub allowed: u64,
}

impl MeasuringPlan {
    /// For how long clients' caches can be watched, in seconds, if so much time has passed since the plan
    /// was made: what is left, but for what asking and removing files take.
    pub fn watch(&self, passed: Duration) -> u64 {
        self.allowed.saturating_sub(passed.as_secs_f64().ceil() as u64 + 3).max(2)
    }
}

/// Files for each check of lifetimes.
const QUIET: usize = 4;

impl MeasuringTree {
    /// A new directory below this one.
    ///
    /// # Errors
    /// [`TreeError`].
    pub fn make(below: &Path) -> Result<MeasuringTree, TreeError> {
        let failed = |error| TreeError::Directory { path: below.to_owned(), error };
        if !fs::metadata(below).map_err(failed)?.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        let below = fs::canonicalize(below).map_err(failed)?;
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&below);
        // The directory is there: what is not is the filesystem's wish to have others, as with /proc.
        let made = made.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => failed(io::Error::other("no directory can be made in it")),
            _ => failed(error),
        })?;
        Ok(MeasuringTree { path: made.keep(), is_removed: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file in which ranks are told what to do.
    pub fn go(&self) -> PathBuf {
        self.path.join("go")
    }

    /// Makes the files, unless somebody asks to end. All may take so many seconds, this included.
    ///
    /// # Errors
    /// [`TreeError`].
    pub fn fill(
        &self,
        node: &str,
        seconds: u64,
        is_asked: &(dyn Fn() -> bool + Sync),
    ) -> Result<MeasuringPlan, TreeError> {
        let begun = Instant::now();
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::Interrupted => TreeError::Interrupted,
            _ => TreeError::Directory {
                path: self.path.parent().unwrap_or(&self.path).to_owned(),
                error,
            },
        };
        for name in ["names", "absent", "load", "quiet", "listed", "small"] {
            fs::create_dir(self.path.join(name)).map_err(failed)?;
        }
        let make = |directory: &str, files, bytes: usize| {
            self.files(directory, files, bytes, is_asked).map_err(failed)
        };
        // The largest first: a full disk is then found at once.
        self.data(is_asked).map_err(failed)?;
        let small = make("small", SMALL_FILES, SMALL_BYTES)?;
        let names = make("names", MeasureBounds::SERIES, 0)?;
        let quiet = make("quiet", QUIET * CHECKS.len(), 0)? / CHECKS.len();
        make("listed", 4, 0)?;
        let allowed = seconds.saturating_sub(begun.elapsed().as_secs_f64().ceil() as u64);
        let plan = MeasuringPlan { node: node.to_owned(), names, small, quiet, allowed };
        let text = serde_json::to_vec(&plan).map_err(|error| failed(error.into()))?;
        let written = File::create_new(self.path.join("plan")).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.map_err(failed)?;
        Ok(plan)
    }

    /// What is in a directory that another process made.
    ///
    /// # Errors
    /// In words, where it cannot be read here.
    pub fn plan(path: &Path) -> Result<MeasuringPlan, String> {
        let said = |why: String| {
            format!(
                "{}: {why}; is the directory on a filesystem that all nodes share?",
                path.display()
            )
        };
        let text = fs::read(path.join("plan")).map_err(|error| said(error.to_string()))?;
        serde_json::from_slice(&text).map_err(|error| said(error.to_string()))
    }

    fn data(&self, is_asked: &dyn Fn() -> bool) -> io::Result<()> {
        let mut file = File::create_new(self.path.join("data"))?;
        // No zeros, which a filesystem may compress or leave out.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut part = vec![0; 1 << 20];
        for _ in 0..DATA_BYTES >> 20 {
            for bytes in part.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                bytes.copy_from_slice(&state.to_le_bytes());
            }
            asked(is_asked)?;
            file.write_all(&part)?;
        }
        file.sync_all()
    }

    /// Makes so many files, or as many as there is time for: how many, of which none is missing
    /// before the last.
    fn files(
        &self,
        directory: &str,
        most: usize,
        bytes: usize,
        is_asked: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<usize> {
        let (begun, next) = (Instant::now(), AtomicUsize::new(0));
        let content: Vec<u8> = (0..bytes).map(|byte| (byte * 31 % 251) as u8).collect();
        let hand = || -> io::Result<()> {
            loop {
                // At least four, which is what a median needs.
                let number = next.load(Ordering::Relaxed);
                if number >= most || (number >= 4 && begun.elapsed() > LASTS) {
                    return Ok(());
                }
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= most {
                    return Ok(());
                }
                asked(is_asked)?;
                let mut file = File::create_new(named(&self.path, directory, number))?;
                if !content.is_empty() {
                    file.write_all(&content)?;
                    file.sync_all()?;
                }
            }
        };
        std::thread::scope(|scope| {
            let hands: Vec<_> = (0..HANDS).map(|_| scope.spawn(hand)).collect();
            let join = |hand: std::thread::ScopedJoinHandle<'_, io::Result<()>>| {
                hand.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
            };
            hands.into_iter().map(join).collect::<Vec<_>>().into_iter().collect::<io::Result<()>>()
        })?;
        Ok(next.load(Ordering::Relaxed).min(most))
    }

    /// Removes it.
    ///
    /// # Errors
    /// What is left where that fails, and why.
    pub fn remove(mut self) -> Result<(), (PathBuf, io::Error)> {
        self.is_removed = true;
        remove(&self.path).map_err(|error| (self.path.clone(), error))
    }
}

impl Drop for MeasuringTree {
    fn drop(&mut self) {
        if !self.is_removed {
            let _ = remove(&self.path);
        }
    }
}

fn asked(is_asked: &dyn Fn() -> bool) -> io::Result<()> {
    if is_asked() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}

/// The file of that number.
pub(super) fn named(tree: &Path, directory: &str, number: usize) -> PathBuf {
    tree.join(directory).join(format!("file-{number:04}"))
}

/// Removes all that is in a directory, several names at once, and it.
fn remove(path: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files.extend(fs::read_dir(entry.path())?.flatten().map(|inner| inner.path()));
        }
    }
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..HANDS {
            scope.spawn(|| {
                while !stopped.load(Ordering::Relaxed) {
                    let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        return;
                    };
                    stopped.fetch_or(fs::remove_file(file).is_err(), Ordering::Relaxed);
                }
            });
        }
    });
    // A rank that is still at it may have left something, and what failed is tried once more.
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
