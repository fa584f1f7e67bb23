//! The recordings of a node's directory made one file.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use recording::{Rank, RankRecording, RankedRecordings};
use rustix::fs::{FlockOperation, fcntl_lock};

use crate::JobError;
use crate::directory::{RUN, is_alive, lock_directory, lock_of, members, ranks_in, remove, run_of};
use crate::name::{beside, safe};

/// Joins what is in a locked directory, and removes it, with the lock: who waits for that finds the
/// directory gone.
pub(crate) fn join(
    directory: &Path,
    there: &[u32],
    target: &Path,
    rank: &Rank,
) -> Result<(), JobError> {
    let write = || match members(directory, there, rank)? {
        joined if joined.is_empty() => Ok(()),
        joined => write(directory, target, joined, rank),
    };
    write().map_err(|error: JobError| JobError::Kept {
        target: target.to_owned(),
        directory: directory.to_owned(),
        source: error.into(),
    })?;
    remove(directory).map_err(|source| JobError::Remove { directory: directory.to_owned(), source })
}

/// Where a rank failed, its launcher kills the others, mpirun without leaving them the time to
/// join anything: a process out of its reach does so when the last of them is gone.
pub(crate) fn start_joiner(directory: &Path, target: &Path) -> Result<(), JobError> {
    let mut joiner = Command::new("/proc/self/exe");
    joiner.args(["merge", "--when-done", "-o"]).arg(std::path::absolute(target)?).arg(directory);
    joiner.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    joiner.spawn().map(drop).map_err(JobError::NoJoiner)
}

/// Waits for the end of every recorder in a node's directory, then joins what they left.
///
/// # Errors
/// As [`crate::RecordingTarget::finish`].
pub fn join_when_done(directory: &Path, target: &Path) -> Result<(), JobError> {
    loop {
        let Some(lock) = lock_directory(directory)? else { return Ok(()) };
        let there = ranks_in(directory)?;
        let Some(alive) = there.iter().find(|rank| is_alive(directory, **rank)) else {
            return join(directory, &there, target, &run_of(directory)?);
        };
        drop(lock);
        if let Ok(file) = OpenOptions::new().write(true).open(lock_of(directory, *alive)) {
            fcntl_lock(&file, FlockOperation::LockExclusive).map_err(io::Error::from)?;
        }
    }
}

/// What a directory of recordings holds that was left on a node, because every recorder was killed
/// or the file could not be written.
///
/// # Errors
/// Where it is no such directory, and those of reading.
pub fn left_behind(directory: &Path) -> Result<RankedRecordings, JobError> {
    let there = ranks_in(directory)?;
    if let Some(rank) = there.iter().find(|rank| is_alive(directory, **rank)) {
        return Err(JobError::StillRecording(*rank));
    }
    Ok(RankedRecordings { members: members(directory, &there, &run_of(directory)?)?, whole: true })
}

/// Writes the node's file. Ranks that came late find one that the earlier ones wrote, and add
/// themselves to it. One that another run wrote meanwhile is not written over.
fn write(
    directory: &Path,
    target: &Path,
    joined: Vec<RankRecording>,
    rank: &Rank,
) -> Result<(), JobError> {
    let mut ranks = RankedRecordings { members: joined, whole: true };
    // Of two runs that end together, one sees the other's file; and a rank that is killed while it
    // writes leaves none.
    if !target.exists() && save::fresh(target, |out| ranks.write(out))? {
        return Ok(());
    }
    let mut target = target.to_owned();
    if let Some(earlier) = earlier(&target, rank) {
        let late: Vec<u32> = ranks.members.iter().map(|member| member.rank.rank).collect();
        let others = earlier.members.into_iter().filter(|it| !late.contains(&it.rank.rank));
        ranks.members.extend(others);
        ranks.members.sort_by_key(|member| member.rank.rank);
    } else if is_newer(&target, directory) {
        let run = safe(&rank.run);
        term::warn(&format!(
            "another run wrote {} meanwhile; {run} goes beside it",
            target.to_string_lossy()
        ));
        target = beside(&target, &run);
    }
    Ok(save::whole(&target, directory, |out| ranks.write(out))?)
}

/// What this run has already written there.
pub(crate) fn earlier(target: &Path, rank: &Rank) -> Option<RankedRecordings> {
    let ranks = RankedRecordings::open(target).ok()?;
    let same = ranks.members.first().is_some_and(|first| first.rank.run == rank.run);
    same.then_some(ranks)
}

/// Whether a file was written after the directory was made.
fn is_newer(target: &Path, directory: &Path) -> bool {
    let made = fs::metadata(directory.join(RUN)).and_then(|run| run.modified());
    let written = fs::metadata(target).and_then(|target| target.modified());
    matches!((made, written), (Ok(made), Ok(written)) if written > made)
}
