//! The folder in which the recorders of one node meet, and who of them is still at it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use recording::{Member, Rank, seal, unseal};
use rustix::fs::{FlockOperation, fcntl_lock, flock};

/// Where nodes keep what is theirs alone: in memory, or else on the local disk.
const NODE_FOLDERS: [&str; 2] = ["/dev/shm", "/tmp"];

/// Held by who changes what is in the folder.
const LOCK: &str = "lock";
/// The run, for who finds the folder later.
pub(super) const RUN: &str = "run";
/// What it begins with; another number for another form.
const RUN_MAGIC: &str = "becalm-run 1";

/// Makes a folder that only this user may enter, or finds the one that another rank has made.
pub(super) fn make_folder(name: &str, wanted: Option<&Path>) -> anyhow::Result<PathBuf> {
    let folders = match wanted {
        Some(folder) => vec![folder],
        None => NODE_FOLDERS.map(Path::new).to_vec(),
    };
    let mut refused = None;
    for top in folders {
        let folder = top.join(name);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let there = fs::symlink_metadata(&folder)?;
                let user = rustix::process::geteuid().as_raw();
                if !there.is_dir() || there.uid() != user || there.mode() & 0o077 != 0 {
                    bail!("{} is not this user's own folder", folder.display());
                }
                return Ok(folder);
            }
            // Every rank of the node must come to the same folder: what may be otherwise a moment
            // later, such as a full disk, is no reason to go on to the next.
            Err(error) => {
                let what = format!("cannot make a folder in {}", top.display());
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
        .unwrap_or_else(|| anyhow!("there is no folder of the node's own"))
        .context("cannot record; name a folder of this node with --node-dir"))
}

/// Locks a folder for a change of who is in it; none where it was removed meanwhile.
pub(super) fn lock_folder(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join(LOCK);
    let file = match OpenOptions::new().write(true).create(true).truncate(false).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    flock(&file, FlockOperation::LockExclusive)?;
    let is = file.metadata()?.ino();
    Ok(fs::metadata(&path).is_ok_and(|there| there.ino() == is).then_some(file))
}

/// Removes a folder that this process has locked. It loses its name first: a rank that comes
/// meanwhile makes a new one.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    let mut gone = folder.as_os_str().to_owned();
    gone.push(format!(".done-{}", std::process::id()));
    fs::rename(folder, &gone)?;
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

/// Takes a rank's lock in the node's folder.
pub(super) fn enter(folder: &Path, rank: &Rank) -> anyhow::Result<File> {
    let run = folder.join(RUN);
    if !run.exists() {
        fs::write(&run, seal(RUN_MAGIC, &serde_json::to_vec(rank)?))?;
    }
    let lock = lock_of(folder, rank.rank);
    let alive = OpenOptions::new().write(true).create(true).truncate(false).open(lock)?;
    if fcntl_lock(&alive, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("rank {} is being recorded to the same file already", rank.rank);
    }
    Ok(alive)
}

/// Any rank of the run that a node's folder is of.
pub(super) fn run_of(folder: &Path) -> anyhow::Result<Rank> {
    let run = fs::read(folder.join(RUN)).context("it is no folder of recordings")?;
    let rank = unseal(RUN_MAGIC, &run).and_then(|rank| serde_json::from_slice(rank).ok());
    rank.ok_or_else(|| anyhow!("its file {RUN} is not as this becalm writes it"))
}

/// The ranks that came to a folder, by number.
pub(super) fn ranks_in(folder: &Path) -> io::Result<Vec<u32>> {
    let mut ranks = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let rank = name.to_str().and_then(|name| name.strip_prefix("rank-")?.strip_suffix(".lock"));
        ranks.extend(rank.and_then(|rank| rank.parse::<u32>().ok()));
    }
    ranks.sort_unstable();
    Ok(ranks)
}

/// Whether a rank's recorder runs: then it holds its lock.
pub(super) fn is_alive(folder: &Path, rank: u32) -> bool {
    let file = OpenOptions::new().write(true).open(lock_of(folder, rank));
    file.is_ok_and(|file| fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}

/// The recordings of a node's folder. One without a byte is of a command that did not start.
pub(super) fn members(folder: &Path, there: &[u32], label: &Rank) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    for rank in there {
        let file = match File::open(recording_of(folder, *rank)) {
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

pub(super) fn recording_of(folder: &Path, rank: u32) -> PathBuf {
    folder.join(format!("rank-{rank}.becalm"))
}

pub(super) fn lock_of(folder: &Path, rank: u32) -> PathBuf {
    folder.join(format!("rank-{rank}.lock"))
}
