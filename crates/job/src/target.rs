//! Where a command's recording goes.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use recording::Rank;

use crate::directory::{
    enter, is_alive, lock_directory, make_directory, ranks_in, recording_of, remove,
};
use crate::join::{earlier, join, start_joiner};
use crate::name::{beside, directory_name, holds, named, safe};
use crate::{JobError, LaunchedRank, TargetError};

/// Ranks that are known to share this node, but are not there yet, are waited for so long: then
/// one of them joins them all, instead of each adding itself to the file.
const LATECOMERS: Duration = Duration::from_millis(250);

/// Where a command's recording goes.
pub enum RecordingTarget {
    /// To this path: there is one recorder.
    File(PathBuf),
    /// To the node's directory, and from there to one file with those of the node's other ranks.
    OfNode(Box<NodeRecorder>),
}

/// This rank's place among the recorders of its node.
pub struct NodeRecorder {
    directory: PathBuf,
    target: PathBuf,
    launched: LaunchedRank,
    /// Held while this recorder runs. The kernel drops it when any descriptor of the same file is
    /// closed, so nothing else here opens it.
    alive: File,
}

/// A path with `%r` and `%n` filled in, and whether ranks that were given it get a file each.
pub fn own_name(path: &Path) -> (PathBuf, bool) {
    let launched = LaunchedRank::this_process();
    (named(path, launched.as_ref()), holds(path, "%r"))
}

impl RecordingTarget {
    /// Where a command is recorded to that was asked to be recorded to `output`. `%r` in its name is
    /// the rank, `%n` the node.
    ///
    /// # Errors
    /// Where the path cannot be written to, or the node's directory cannot be made.
    pub fn of(output: &Path, node_directory: Option<&Path>) -> Result<RecordingTarget, JobError> {
        let launched = LaunchedRank::this_process();
        let named = named(output, launched.as_ref());
        match launched.filter(LaunchedRank::is_one_of_many) {
            // A file a rank was asked for.
            Some(_) if holds(output, "%r") => Ok(RecordingTarget::File(named)),
            Some(launched) => {
                let target = if launched.is_on_one_node() || holds(output, "%n") {
                    named
                } else {
                    beside(&named, &safe(&launched.rank.node))
                };
                NodeRecorder::join(target, launched, node_directory)
                    .map(|group| RecordingTarget::OfNode(Box::new(group)))
            }
            None => Ok(RecordingTarget::File(named)),
        }
    }

    /// The file that the recorder writes.
    pub fn recording(&self) -> PathBuf {
        match self {
            RecordingTarget::File(path) => path.clone(),
            RecordingTarget::OfNode(group) => group.recording(),
        }
    }

    /// The file that there will be in the end.
    pub fn file(&self) -> &Path {
        match self {
            RecordingTarget::File(path) => path,
            RecordingTarget::OfNode(group) => &group.target,
        }
    }

    /// The rank, where it shares its file with others.
    pub fn rank(&self) -> Option<&Rank> {
        match self {
            RecordingTarget::File(_) => None,
            RecordingTarget::OfNode(group) => Some(&group.launched.rank),
        }
    }

    /// Joins the node's recordings, if this recorder is the last. To be called at the end, whether
    /// or not the command could be started; `failed` says whether its launcher will take it for
    /// a failure.
    ///
    /// # Errors
    /// Where the file cannot be written. What is in the node's directory is kept then.
    pub fn finish(self, failed: bool) -> Result<(), JobError> {
        match self {
            RecordingTarget::File(_) => Ok(()),
            RecordingTarget::OfNode(group) => group.finish(failed),
        }
    }
}

impl NodeRecorder {
    fn join(
        target: PathBuf,
        launched: LaunchedRank,
        node_directory: Option<&Path>,
    ) -> Result<NodeRecorder, JobError> {
        let full =
            check(&target).map_err(|source| JobError::Target { target: target.clone(), source })?;
        let name = directory_name(&launched.rank, &full);
        loop {
            let directory = make_directory(&name, node_directory)?;
            let failed = |source| JobError::NodeDirectory { directory: directory.clone(), source };
            let Some(lock) = lock_directory(&directory).map_err(failed)? else { continue };
            let entered = enter(&directory, &launched.rank);
            if entered.is_err() && ranks_in(&directory).is_ok_and(|there| there.is_empty()) {
                let _ = remove(&directory);
            }
            drop(lock);
            return Ok(NodeRecorder { alive: entered?, directory, target, launched });
        }
    }

    fn recording(&self) -> PathBuf {
        recording_of(&self.directory, self.launched.rank.rank)
    }

    fn finish(self, failed: bool) -> Result<(), JobError> {
        let NodeRecorder { directory, target, launched, alive } = self;
        drop(alive);
        let before = earlier(&target, &launched.rank).map_or(0, |ranks| ranks.members.len());
        let patience = Instant::now() + LATECOMERS;
        loop {
            // Where the directory is gone, another rank took this one's recording along.
            let Some(lock) = lock_directory(&directory)? else { return Ok(()) };
            let there = ranks_in(&directory)?;
            if there.iter().any(|rank| is_alive(&directory, *rank)) {
                return if failed { start_joiner(&directory, &target) } else { Ok(()) };
            }
            let missing = launched.here.is_some_and(|here| there.len() + before < here as usize);
            if missing && Instant::now() < patience {
                drop(lock);
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
            return join(&directory, &there, &target, &launched.rank);
        }
    }
}

/// Whether ranks can be joined in a file, which would be found out only after the run, too late;
/// its full path.
fn check(target: &Path) -> Result<PathBuf, TargetError> {
    let directory = target.parent().filter(|directory| *directory != Path::new(""));
    let directory = directory.unwrap_or(Path::new("."));
    if target.is_dir() {
        return Err(TargetError::Directory);
    }
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).map_err(io::Error::from)?;
    match File::open(target) {
        Ok(file) if file.metadata()?.is_file() => {
            let mut start = Vec::new();
            file.take(16).read_to_end(&mut start)?;
            if !start.is_empty() && !recording::is_recording(&start) {
                return Err(TargetError::NotRecording);
            }
        }
        Ok(_) => return Err(TargetError::NotRegular),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    Ok(std::path::absolute(target)?)
}
