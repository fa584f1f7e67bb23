//! The last recording, which `last` names: so that what `check` saw can be looked at again without
//! a second run.
//!
//! It is one file of the state directory, `last.becalm`, which only its owner can read. A recording
//! is copied beside it and renamed, so that of two at once one is there, and whole.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow, bail};
use recording::ByteUnits;
use term::number::bytes;

/// The name that stands for it.
pub const NAME: &str = "last";

/// A larger recording is not kept: about ten million calls.
const LARGEST: u64 = 64 << 20;

/// What a copy is called while it is made; one that is left behind for so long is nobody's.
const UNFINISHED: &str = ".last-";
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// Keeps a copy of the recording in an open file as the last one.
///
/// # Errors
/// Where it is too large, or there is no room for it: the last one is then still that of before.
pub fn keep(recording: &File) -> anyhow::Result<()> {
    let size = recording.metadata().context("the recording just made")?.len();
    if size > LARGEST {
        let (size, most) = (bytes(ByteUnits(size)), bytes(ByteUnits(LARGEST)));
        bail!("it has {size}, and {most} is the most; keep it with -o REC");
    }
    let state = remedy::made_state_directory()?;
    let said = || state.display().to_string();
    forget_unfinished(&state);
    // Its mode is 0600.
    let copy = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&state);
    let mut copy = copy.with_context(said)?;
    io::copy(&mut FromStart { file: recording, at: 0 }.take(size), copy.as_file_mut())
        .and_then(|_| copy.as_file_mut().flush())
        .with_context(said)?;
    copy.persist(state.join("last.becalm"))
        .map_err(|error| anyhow!(error.error))
        .with_context(said)?;
    Ok(())
}

/// The file that is meant by what was given for a recording: the last one by [`NAME`], whatever is
/// in the working directory; any other path, `./last` among them, is itself.
///
/// # Errors
/// Where nothing says where the last one is kept.
pub fn named(given: &Path) -> io::Result<PathBuf> {
    if given.as_os_str() != OsStr::new(NAME) {
        return Ok(given.to_owned());
    }
    let state = remedy::state_directory().map_err(io::Error::other)?;
    Ok(state.join("last.becalm"))
}

/// Takes away what a becalm that was killed left half copied.
fn forget_unfinished(state: &Path) {
    let now = SystemTime::now();
    for entry in state.read_dir().into_iter().flatten().flatten() {
        let is_copy = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        let modified = entry.metadata().and_then(|found| found.modified());
        let is_old = |since| now.duration_since(since).is_ok_and(|age| age > FORGOTTEN);
        if is_copy && modified.is_ok_and(is_old) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Reads by offsets of its own: a recorder that goes on in the background shares the file's.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buffer, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}
