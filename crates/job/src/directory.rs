//! The directory in which the recorders of one node meet, and who of them is still at it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use recording::{Member, Rank, seal, unseal};
use rustix::fs::{FlockOperation, fcntl_lock, flock};

/// Where nodes keep what is theirs alone: in memory, or else on the local disk.
const NODE_DIRECTORIES: [&str; 2] = ["/dev/shm", "/tmp"];

/// Held by who changes what is in the directory.
const LOCK: &str = "lock";
/// The run, for who finds the directory later.
pub(super) const RUN: &str = "run";
/// What it begins with; another number for another form.
const RUN_MAGIC: &str = "becalm-run 1";

/// Makes a directory that only this user may enter, or finds the one that another rank has made.
pub(super) fn make_directory(name: &str, wanted: Option<&Path>) -> anyhow::Result<PathBuf> {
    let directories = match wanted {
        Some(directory) => vec![directory],
        None => NODE_DIRECTORIES.map(Path::new).to_vec(),
    };
    let mut refused = None;
    for top in directories {
        let directory = top.join(name);
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let there = fs::symlink_metadata(&directory)?;
                let user = rustix::process::geteuid().as_raw();
                if !there.is_dir() || there.uid() != user || there.mode() & 0o077 != 0 {
                    bail!("{} is not this user's own directory", directory.display());
                }
                return Ok(directory);
            }
            // Every rank of the node must come to the same directory: what may be otherwise a
            // moment later, such as a full disk, is no reason to go on to the next.
            Err(error) => {
                let what = format!("cannot make a directory in {}", top.display());
                let lasting = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
                let go_on = lasting.contains(&error.kind())
                    || error.kind() == io::ErrorKind::ReadOnlyFilesystem;
                refused = Some(anyhow!(error).context(what));
                if !go_on {
                    break;
                }
            }
        }
    }
    Err(refused
        .unwrap_or_else(|| anyhow!("there is no directory of the node's own"))
        .context("cannot record; name a directory of this node with --node-dir"))
}

/// Locks a directory for a change of who is in it; none where it was removed meanwhile.
pub(super) fn lock_directory(directory: &Path) -> io::Result<Option<File>> {
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
pub(super) fn remove(directory: &Path) -> io::Result<()> {
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
pub(super) fn enter(directory: &Path, rank: &Rank) -> anyhow::Result<File> {
    let run = directory.join(RUN);
    if !run.exists() {
        fs::write(&run, seal(RUN_MAGIC, &serde_json::to_vec(rank)?))?;
    }
    let lock = lock_of(directory, rank.rank);
    let alive = OpenOptions::new().write(true).create(true).truncate(false).open(lock)?;
    if fcntl_lock(&alive, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("rank {} is being recorded to the same file already", rank.rank);
    }
    Ok(alive)
}

/// Any rank of the run that a node's directory is of.
pub(super) fn run_of(directory: &Path) -> anyhow::Result<Rank> {
    let run = fs::read(directory.join(RUN)).context("it is no directory of recordings")?;
    let rank = unseal(RUN_MAGIC, &run).and_then(|rank| serde_json::from_slice(rank).ok());
    rank.ok_or_else(|| anyhow!("its file {RUN} is not as this becalm writes it"))
}

/// The ranks that came to a directory, by number.
pub(super) fn ranks_in(directory: &Path) -> io::Result<Vec<u32>> {
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
pub(super) fn is_alive(directory: &Path, rank: u32) -> bool {
    let file = OpenOptions::new().write(true).open(lock_of(directory, rank));
    file.is_ok_and(|file| fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}

/// The recordings of a node's directory. One without a byte is of a command that did not start.
pub(super) fn members(directory: &Path, there: &[u32], label: &Rank) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    for rank in there {
        let file = match File::open(recording_of(directory, *rank)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() > 0 {
            members.push(Member::alone(Rank { rank: *rank, ..label.clone() }, file)?);
        }
    }
    Ok(members)
}

pub(super) fn recording_of(directory: &Path, rank: u32) -> PathBuf {
    directory.join(format!("rank-{rank}.becalm"))
}

pub(super) fn lock_of(directory: &Path, rank: u32) -> PathBuf {
    directory.join(format!("rank-{rank}.lock"))
}
