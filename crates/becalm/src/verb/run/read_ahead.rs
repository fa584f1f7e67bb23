//! `becalm run --read-ahead`: what a start is known to read is read while the command starts.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ahead::{ReadAheadLimits, ReadAheadList};
use anyhow::{Context, anyhow};
use cure::CalmFile;
use job::LaunchedRank;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use schemars::JsonSchema;
use serde::Serialize;

use super::calm::CalmLaunch;
use crate::exit::Failure;

/// Requests at a time of one node: a server that a thousand nodes share is to have few of each.
const THREADS: usize = 4;

/// What is read ahead.
#[derive(Clone, clap::Args)]
#[group(skip)]
pub struct RunReadAheadArgs {
    /// While the command starts, read what this recording or calm file says that it reads, in that
    /// order; of the ranks of a node one does. See docs/run.md
    #[arg(long, value_name = "REC|CALM", group = "means")]
    read_ahead: Option<PathBuf>,

    /// Read at most so much ahead: 300M, 2G [default: a quarter of the memory that is free]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    read_ahead_most: Option<u64>,
}

/// What is read while the command starts.
#[derive(Serialize, JsonSchema)]
pub struct BegunReadAhead {
    /// Of so many files.
    files: usize,
    /// So many parts.
    parts: usize,
    /// With so many bytes.
    bytes: u64,
    /// But no more than so many.
    most_bytes: u64,
    /// Whether another rank of this node reads them.
    by_another_rank: bool,
}

/// Begins to read ahead, if that is asked for, and says what docs/schema/becalm.run.md describes.
pub fn begin(
    args: &RunReadAheadArgs,
    calm: Option<&CalmLaunch>,
) -> Result<Option<BegunReadAhead>, Failure> {
    let of_calm = calm.map(|calm| &calm.file.read_ahead).filter(|list| !list.parts.is_empty());
    let list = match (&args.read_ahead, of_calm) {
        (Some(file), _) => list(file).map_err(Failure::of_command)?,
        (None, Some(list)) => list.clone(),
        (None, None) => return Ok(None),
    };
    let is_first = LaunchedRank::this_process().is_none_or(|launched| launched.is_first_here());
    let most = args.read_ahead_most.unwrap_or_else(ahead::quarter_of_free_memory);
    let about = BegunReadAhead {
        files: list.files.len(),
        parts: list.parts.len(),
        bytes: list.bytes(),
        most_bytes: most,
        by_another_rank: !is_first,
    };
    if is_first && !list.parts.is_empty() {
        in_background(list, most).context("reading ahead").map_err(Failure::of_command)?;
    }
    Ok(Some(about))
}

/// What is to be read, from a recording or a calm file.
fn list(file: &Path) -> anyhow::Result<ReadAheadList> {
    let mut start = Vec::new();
    let opened = crate::last::named(file).and_then(File::open);
    // What cannot be read says so below.
    let _ = opened.and_then(|opened| opened.take(16).read_to_end(&mut start));
    let name = term::plain(&file.to_string_lossy());
    let (list, tells) = if recording::is_recording(&start) {
        let recording = crate::load::load(file)?;
        let tells = !recording::query::data::runs(&recording).is_empty();
        (ReadAheadList::of(&recording, |_| true), tells)
    } else {
        let list = CalmFile::read(file)?.read_ahead;
        let tells = !list.parts.is_empty();
        (list, tells)
    };
    match tells {
        false => {
            Err(anyhow!("{name}: it does not say what is read (record it with --all-syscalls)"))
        }
        // It may read little of each file, and then the list is empty.
        true => Ok(list),
    }
}

/// Reads in a process of its own, until all is read or this process, which becomes the command, has
/// ended.
fn in_background(list: ReadAheadList, bytes: u64) -> std::io::Result<()> {
    let command = pidfd_open(getpid(), PidfdFlags::empty())?;
    let limits = ReadAheadLimits { bytes, threads: THREADS };
    launch::orphan("becalm-ahead", &[command.as_fd()], || {
        ahead::read(&list, &limits, &|| !has_ended(&command));
        Ok(())
    })
}

/// Whether a process has ended (pidfd_open(2): it can then be read).
fn has_ended(process: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(process, PollFlags::IN)];
    matches!(poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
}

/// A number of bytes, with K, M, G or T for powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.trim_end_matches(['B', 'b', 'i']) {
        number if number.ends_with(['K', 'k']) => (number, 10),
        number if number.ends_with(['M', 'm']) => (number, 20),
        number if number.ends_with(['G', 'g']) => (number, 30),
        number if number.ends_with(['T', 't']) => (number, 40),
        number => (number, 0),
    };
    let digits = number.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let parsed = digits.parse::<u64>().ok();
    let bytes = parsed.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "a number of bytes: 300M, 2G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_powers_of_1024() {
        assert_eq!(size("300M"), Ok(300 << 20));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("17"), Ok(17));
        assert!(size("a lot").is_err() && size("99999999T").is_err());
    }
}
