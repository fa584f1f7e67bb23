//! The directory in which the recorders of one node meet, and who of them is still at it.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

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
        Ok(()) => {
            remove_left(within);
            Ok(directory)
        }
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

/// How long what a node's recorders left is kept for `becalm merge`, when all were killed at once.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Removes what recorders of this user left here long ago: nobody else would, and it is the node's memory.
fn remove_left(within: &Path) {
    let user = rustix::process::geteuid().as_raw();
    let ours = format!("becalm-{user}-");
    for entry in fs::read_dir(within).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(&ours));
        if !is_named || !fs::symlink_metadata(&path).is_ok_and(|there| is_old(&path, &there, user))
        {
            continue;
        }
        if let (Ok(Some(_lock)), Ok(ranks)) = (lock_directory(&path), ranks_in(&path))
            && !ranks.iter().any(|rank| is_alive(&path, *rank))
        {
            let _ = remove(&path);
        }
    }
}

/// Whether it is a directory of recorders, to which none has come for so long.
fn is_old(path: &Path, there: &Metadata, user: u32) -> bool {
    let is_own = there.is_dir() && there.uid() == user && there.mode() & 0o077 == 0;
    let age = there.modified().ok().and_then(|changed| changed.elapsed().ok());
    is_own && age.is_some_and(|age| age > KEPT) && path.join(RUN).exists()
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
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_recorders_left_is_removed_by_the_next_one_after_a_week_and_no_sooner() {
        let node = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let made = |name: &str, days: u64| {
            let directory = make_in(node.path(), &format!("becalm-{user}-{name}")).unwrap();
            fs::write(directory.join(RUN), "").unwrap();
            fs::write(recording_of(&directory, 3), "kept").unwrap();
            let lock = File::create(lock_of(&directory, 3)).unwrap();
            let then = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
            File::open(&directory).unwrap().set_modified(then).unwrap();
            (directory, lock)
        };
        let (old, _) = made("old", 8);
        let (recent, _) = made("recent", 6);
        let (running, _) = made("running", 8);
        // A process's own locks do not hinder it.
        let child = launch::forked(|| {
            let lock = OpenOptions::new().write(true).open(lock_of(&running, 3)).unwrap();
            fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
            fs::write(node.path().join("locked"), "").unwrap();
            std::thread::sleep(Duration::from_secs(600));
            0
        });
        while !node.path().join("locked").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let then = SystemTime::now() - 2 * KEPT;
        File::open(&running).unwrap().set_modified(then).unwrap();
        let others = node.path().join(format!("becalm-{user}-others"));
        fs::create_dir(&others).unwrap();
        fs::write(others.join("file"), "").unwrap();
        File::open(&others).unwrap().set_modified(then).unwrap();

        make_in(node.path(), &format!("becalm-{user}-next")).unwrap();
        let child = rustix::process::Pid::from_raw(child.unwrap()).unwrap();
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
        assert!(!old.exists() && recent.exists() && running.exists() && others.exists());
    }

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
