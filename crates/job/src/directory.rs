//! The directory in which the recorders of one node meet, and who of them is still at it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use recording::{Rank, RankRecording, seal, unseal};
use rustix::fs::{FlockOperation, fcntl_lock, flock};

use crate::JobError;

/// Where nodes keep what is theirs alone: in memory, or else on the local disk.
const NODE_DIRECTORIES: [&str; 2] = ["/dev/shm", "/tmp"];

/// Held by who changes what is in the directory.
const LOCK: &str = "lock";
/// The run, for who finds the directory later.
pub(crate) const RUN: &str = "run";
/// What it begins with; another number for another form.
const RUN_MAGIC: &str = "becalm-run 1";

/// Makes a directory that only this user may enter, or finds the one that another rank has made:
/// in `within`, or else where nodes keep what is theirs alone.
pub(crate) fn make_directory(name: &str, within: Option<&Path>) -> Result<PathBuf, JobError> {
    match within {
        Some(within) => make_in(within, name),
        None => make_in_either(NODE_DIRECTORIES.map(Path::new), name),
    }
}

fn make_in_either([first, second]: [&Path; 2], name: &str) -> Result<PathBuf, JobError> {
    match make_in(first, name) {
        // Every rank of the node must come to the same directory: what may be otherwise a
        // moment later, such as a full disk, is no reason to go on to the next.
        Err(JobError::NoNodeDirectory { source, .. }) if is_lasting(&source) => {
            make_in(second, name)
        }
        // Anybody may have taken a name that can be guessed, and only he or root takes it away.
        Err(JobError::ForeignDirectory(_)) => make_in(second, name),
        made => made,
    }
}

fn is_lasting(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), NotFound | PermissionDenied | ReadOnlyFilesystem)
}

fn make_in(within: &Path, name: &str) -> Result<PathBuf, JobError> {
    let directory = within.join(name);
    match DirBuilder::new().mode(0o700).create(&directory) {
        Ok(()) => Ok(directory),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = fs::symlink_metadata(&directory)?;
            let user = rustix::process::geteuid().as_raw();
            if !there.is_dir() || there.uid() != user || there.mode() & 0o077 != 0 {
                return Err(JobError::ForeignDirectory(directory));
            }
            Ok(directory)
        }
        Err(source) => Err(JobError::NoNodeDirectory { within: within.to_owned(), source }),
    }
}

/// Locks a directory for a change of who is in it; none where it was removed meanwhile.
pub(crate) fn lock_directory(directory: &Path) -> io::Result<Option<File>> {
    let path = directory.join(LOCK);
    let file = match OpenOptions::new().write(true).create(true).truncate(false).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    flock(&file, FlockOperation::LockExclusive)?;
    let is = file.metadata()?.ino();
    Ok(fs::metadata(&path).is_ok_and(|there| there.ino() == is).then_some(file))
}

/// Removes a directory that this process has locked. It loses its name first: a rank that comes
/// meanwhile makes a new one.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    let mut gone = directory.as_os_str().to_owned();
    gone.push(format!(".done-{}", std::process::id()));
    fs::rename(directory, &gone)?;
    let mut tries = 0..100;
    loop {
        match fs::remove_dir_all(&gone) {
            // Who was on the way to the lock as the name went has made it anew in here, sees that
            // it is not the one of that name, and leaves it.
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty && tries.next().is_some() => {}
            done => return done,
        }
    }
}

/// Takes a rank's lock in the node's directory.
pub(crate) fn enter(directory: &Path, rank: &Rank) -> Result<File, JobError> {
    let open = || -> io::Result<File> {
        let run = directory.join(RUN);
        if !run.exists() {
            fs::write(&run, seal(RUN_MAGIC, &serde_json::to_vec(rank)?))?;
        }
        let lock = lock_of(directory, rank.rank);
        OpenOptions::new().write(true).create(true).truncate(false).open(lock)
    };
    let alive = open()
        .map_err(|source| JobError::NodeDirectory { directory: directory.to_owned(), source })?;
    match fcntl_lock(&alive, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(alive),
        Err(_) => Err(JobError::RankTaken { directory: directory.to_owned(), rank: rank.rank }),
    }
}

/// Any rank of the run that a node's directory is of.
pub(crate) fn run_of(directory: &Path) -> Result<Rank, JobError> {
    let run = fs::read(directory.join(RUN)).map_err(JobError::NoRun)?;
    let rank = unseal(RUN_MAGIC, &run).and_then(|rank| serde_json::from_slice(rank).ok());
    rank.ok_or(JobError::UnknownRun(RUN))
}

/// The ranks that came to a directory, by number.
pub(crate) fn ranks_in(directory: &Path) -> io::Result<Vec<u32>> {
    let mut ranks = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let rank = name.to_str().and_then(|name| name.strip_prefix("rank-")?.strip_suffix(".lock"));
        ranks.extend(rank.and_then(|rank| rank.parse::<u32>().ok()));
    }
    ranks.sort_unstable();
    Ok(ranks)
}

/// Whether a rank's recorder runs: then it holds its lock.
pub(crate) fn is_alive(directory: &Path, rank: u32) -> bool {
    let file = OpenOptions::new().write(true).open(lock_of(directory, rank));
    file.is_ok_and(|file| fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}

/// The recordings of a node's directory. One without a byte is of a command that did not start.
pub(crate) fn members(
    directory: &Path,
    there: &[u32],
    label: &Rank,
) -> io::Result<Vec<RankRecording>> {
    let mut members = Vec::new();
    for rank in there {
        let file = match File::open(recording_of(directory, *rank)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() > 0 {
            members.push(RankRecording::alone(Rank { rank: *rank, ..label.clone() }, file)?);
        }
    }
    Ok(members)
}

pub(crate) fn recording_of(directory: &Path, rank: u32) -> PathBuf {
    directory.join(format!("rank-{rank}.becalm"))
}

pub(crate) fn lock_of(directory: &Path, rank: u32) -> PathBuf {
    directory.join(format!("rank-{rank}.lock"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn where_somebody_has_taken_the_name_all_ranks_of_a_node_meet_at_the_next_place() {
        let scene = tempfile::tempdir().unwrap();
        let places = ["first", "second"].map(|name| scene.path().join(name));
        places.iter().for_each(|place| fs::create_dir(place).unwrap());
        let [first, second] = &places;
        let make = || make_in_either([first, second], "run");
        assert_eq!(make().unwrap(), first.join("run"));
        // As another's would be.
        fs::set_permissions(first.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
        for _rank in 0..2 {
            assert_eq!(make().unwrap(), second.join("run"));
        }
        fs::remove_dir(second.join("run")).unwrap();
        fs::write(second.join("run"), "").unwrap();
        let error = make().unwrap_err().to_string();
        assert!(error.ends_with("second/run is not this user's own directory; name another place on this node with --node-dir"), "{error}");
    }
}
