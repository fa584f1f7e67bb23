//! One recorder a rank: `srun -n 16 becalm record -o start.becalm -- ./app` is 16 recorders that
//! were given one path.
//!
//! Each writes to a directory of the node's own. Whoever is the last of a node to finish joins what
//! is there into one file a node beside the path that was asked for, and removes the directory. Who
//! is still at it is known by locks that the kernel drops with their holder, so that a recorder
//! that is killed keeps nobody waiting, and what it had written is joined with the rest.
//!
//! | file | what it holds |
//! |---|---|
//! | `directory` | the node's directory: who is in it, who is still at it |
//! | `launched` | which rank this process is |
//! | `name` | what the files are called |

mod directory;
mod launched;
mod name;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use recording::{Member, Rank, Ranks, save};
use rustix::fs::{FlockOperation, fcntl_lock};

use directory::{
    RUN, enter, is_alive, lock_directory, lock_of, make_directory, members, ranks_in, recording_of,
    remove, run_of,
};
pub use launched::Launched;
use name::{beside, directory_name, holds, named, safe};

/// Ranks that are known to share this node, but are not there yet, are waited for so long: then
/// one of them joins them all, instead of each adding itself to the file.
const LINGER: Duration = Duration::from_millis(250);

/// Where a command's recording goes.
pub enum Place {
    /// To this path: there is one recorder.
    Own(PathBuf),
    /// To the node's directory, and from there to one file with those of the node's other ranks.
    Shared(Box<Group>),
}

/// This rank's place among the recorders of its node.
pub struct Group {
    directory: PathBuf,
    target: PathBuf,
    launched: Launched,
    /// Held while this recorder runs. The kernel drops it when any descriptor of the same file is
    /// closed, so nothing else here opens it.
    alive: File,
}

/// A path with `%r` and `%n` filled in, and whether ranks that were given it get a file each.
pub fn own_name(path: &Path) -> (PathBuf, bool) {
    let launched = Launched::this_process();
    (named(path, launched.as_ref()), holds(path, "%r"))
}

/// Where a command is recorded to that was asked to be recorded to `output`. `%r` in its name is
/// the rank, `%n` the node.
///
/// # Errors
/// Where the path cannot be written to, or the node's directory cannot be made.
pub fn place(output: &Path, node_directory: Option<&Path>) -> anyhow::Result<Place> {
    let launched = Launched::this_process();
    let named = named(output, launched.as_ref());
    match launched.filter(Launched::is_one_of_many) {
        // A file a rank was asked for.
        Some(_) if holds(output, "%r") => Ok(Place::Own(named)),
        Some(launched) => {
            let target = if launched.is_on_one_node() || holds(output, "%n") {
                named
            } else {
                beside(&named, &safe(&launched.rank.node))
            };
            Group::join(target, launched, node_directory)
                .map(|group| Place::Shared(Box::new(group)))
        }
        None => Ok(Place::Own(named)),
    }
}

impl Place {
    /// The file that the recorder writes.
    pub fn recording(&self) -> PathBuf {
        match self {
            Place::Own(path) => path.clone(),
            Place::Shared(group) => group.recording(),
        }
    }

    /// The file that there will be in the end.
    pub fn target(&self) -> &Path {
        match self {
            Place::Own(path) => path,
            Place::Shared(group) => &group.target,
        }
    }

    /// The rank, where it shares its file with others.
    pub fn rank(&self) -> Option<&Rank> {
        match self {
            Place::Own(_) => None,
            Place::Shared(group) => Some(&group.launched.rank),
        }
    }

    /// Joins the node's recordings, if this recorder is the last. To be called at the end, whether
    /// or not the command could be started; `failed` says whether its launcher will take it for
    /// a failure.
    ///
    /// # Errors
    /// Where the file cannot be written. What is in the node's directory is kept then.
    pub fn finish(self, failed: bool) -> anyhow::Result<()> {
        match self {
            Place::Own(_) => Ok(()),
            Place::Shared(group) => group.finish(failed),
        }
    }
}

impl Group {
    fn join(
        target: PathBuf,
        launched: Launched,
        node_directory: Option<&Path>,
    ) -> anyhow::Result<Group> {
        check_target(&target).with_context(|| cannot_write(&target))?;
        let full = std::path::absolute(&target).with_context(|| cannot_write(&target))?;
        let name = directory_name(&launched.rank, &full);
        loop {
            let directory = make_directory(&name, node_directory)?;
            let what = || format!("cannot record to {}", directory.display());
            let Some(lock) = lock_directory(&directory).with_context(what)? else { continue };
            let entered = enter(&directory, &launched.rank).with_context(what);
            if entered.is_err() && ranks_in(&directory).is_ok_and(|there| there.is_empty()) {
                let _ = remove(&directory);
            }
            drop(lock);
            return Ok(Group { alive: entered?, directory, target, launched });
        }
    }

    fn recording(&self) -> PathBuf {
        recording_of(&self.directory, self.launched.rank.rank)
    }

    fn finish(self, failed: bool) -> anyhow::Result<()> {
        let Group { directory, target, launched, alive } = self;
        drop(alive);
        let before = earlier(&target, &launched.rank).map_or(0, |ranks| ranks.members.len());
        let patience = Instant::now() + LINGER;
        loop {
            // Where the directory is gone, another rank took this one's recording along.
            let Some(lock) = lock_directory(&directory)? else { return Ok(()) };
            let there = ranks_in(&directory)?;
            if there.iter().any(|rank| is_alive(&directory, *rank)) {
                return if failed { leave_an_heir(&directory, &target) } else { Ok(()) };
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

/// Joins what is in a locked directory, and removes it, with the lock: who waits for that finds the
/// directory gone.
fn join(directory: &Path, there: &[u32], target: &Path, rank: &Rank) -> anyhow::Result<()> {
    let kept = || {
        let (directory, target) = (directory.display(), target.display());
        format!(
            "cannot write {target}; the recordings are kept in {directory}: \
             becalm merge -o FILE {directory}"
        )
    };
    let joined = members(directory, there, rank).with_context(kept)?;
    if !joined.is_empty() {
        write(directory, target, joined, rank).with_context(kept)?;
    }
    remove(directory).with_context(|| format!("cannot remove {}", directory.display()))
}

/// Where a rank failed, its launcher kills the others, mpirun without leaving them the time to
/// join anything: a process out of its reach does so when the last of them is gone.
fn leave_an_heir(directory: &Path, target: &Path) -> anyhow::Result<()> {
    let mut heir = Command::new("/proc/self/exe");
    heir.args(["merge", "--when-done", "-o"]).arg(std::path::absolute(target)?).arg(directory);
    heir.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    heir.spawn().map(drop).context("cannot start what joins the recordings of killed ranks")
}

/// Waits for the end of every recorder in a node's directory, then joins what they left.
///
/// # Errors
/// As [`Place::finish`].
pub fn join_when_done(directory: &Path, target: &Path) -> anyhow::Result<()> {
    loop {
        let Some(lock) = lock_directory(directory)? else { return Ok(()) };
        let there = ranks_in(directory)?;
        let Some(alive) = there.iter().find(|rank| is_alive(directory, **rank)) else {
            return join(directory, &there, target, &run_of(directory)?);
        };
        drop(lock);
        if let Ok(file) = OpenOptions::new().write(true).open(lock_of(directory, *alive)) {
            fcntl_lock(&file, FlockOperation::LockExclusive)?;
        }
    }
}

/// What a directory of recordings holds that was left on a node, because every recorder was killed
/// or the file could not be written.
///
/// # Errors
/// Where it is no such directory, and those of reading.
pub fn left_behind(directory: &Path) -> anyhow::Result<Ranks> {
    let there = ranks_in(directory)?;
    if let Some(rank) = there.iter().find(|rank| is_alive(directory, **rank)) {
        bail!("rank {rank} is still being recorded there");
    }
    Ok(Ranks { members: members(directory, &there, &run_of(directory)?)?, whole: true })
}

/// Writes the node's file. Ranks that came late find one that the earlier ones wrote, and add
/// themselves to it. One that another run wrote meanwhile is not written over.
fn write(directory: &Path, target: &Path, joined: Vec<Member>, rank: &Rank) -> anyhow::Result<()> {
    let mut ranks = Ranks { members: joined, whole: true };
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
        eprintln!(
            "becalm: another run wrote {} meanwhile; {run} goes beside it",
            term::plain(&target.to_string_lossy())
        );
        target = beside(&target, &run);
    }
    Ok(save::whole(&target, directory, |out| ranks.write(out))?)
}

/// What this run has already written there.
fn earlier(target: &Path, rank: &Rank) -> Option<Ranks> {
    let ranks = Ranks::open(target).ok()?;
    let same = ranks.members.first().is_some_and(|first| first.rank.run == rank.run);
    same.then_some(ranks)
}

/// Whether a file was written after the directory was made.
fn is_newer(target: &Path, directory: &Path) -> bool {
    let made = fs::metadata(directory.join(RUN)).and_then(|run| run.modified());
    let written = fs::metadata(target).and_then(|target| target.modified());
    matches!((made, written), (Ok(made), Ok(written)) if written > made)
}

/// What would be found out only after the run, too late.
fn check_target(target: &Path) -> anyhow::Result<()> {
    let directory = target.parent().filter(|directory| *directory != Path::new(""));
    let directory = directory.unwrap_or(Path::new("."));
    if target.is_dir() {
        bail!("it is a directory");
    }
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).map_err(io::Error::from)?;
    match File::open(target) {
        Ok(file) if file.metadata()?.is_file() => {
            let mut start = Vec::new();
            file.take(16).read_to_end(&mut start)?;
            if !start.is_empty() && !recording::is_recording(&start) {
                bail!("it exists and is not a recording; choose another name or remove it");
            }
            Ok(())
        }
        Ok(_) => bail!("ranks are joined in a regular file; give one"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the recordings to {}", path.display())
}
