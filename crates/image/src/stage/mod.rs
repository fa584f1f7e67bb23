//! Running in an image where nothing can be mounted: it is unpacked into memory of the node, once
//! a node and job, and the command's surroundings lead there.
//!
//! | file | what it holds |
//! |---|---|
//! | `home` | where: a directory of this user's own in memory of the node |
//! | `room` | whether it fits, before and while it is written |
//! | `lock` | how ranks of a node find the tree, and who may remove it |
//! | `tree` | the tree: unpacked, and what is known of it |
//! | `gone` | the tree is removed after the last rank, and what killed jobs left |
//! | `moved` | paths of the image, in the tree instead |
//! | `command` | the command, started from the tree |
//! | `named` | files in it that name the path that it was made of |
//! | `error` | why it cannot be done |
//!
//! The tree lies beside a lock's file that all its users hold shared (flock(2)), through a
//! descriptor that the command and what it starts inherit. Who gets it alone may make the tree or
//! remove it: a rank that finds none, and a process that waits for the last user. A kill at any
//! time gives a lock free, and what it leaves is seen to be incomplete, or to be used by nobody.

mod command;
mod error;
mod gone;
mod home;
mod lock;
mod moved;
mod named;
pub(crate) mod room;
mod tree;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

pub use error::ImageStageError;
pub use named::Named;

use crate::mount::asked::SharedMountRequest;
use crate::mount::fresh::UntracedLook;
use crate::mount::plan::MountPlan;
use crate::mount::{Freshness, MountRequest, fresh, replaced};
use home::{Home, StageParent};
use lock::{Lock, LockState};
use moved::MovedPaths;
use tree::{StagedTree, TreeOrigin};

/// The variable that tells the tree; by it, processes that use the tree are known.
const VARIABLE: &str = "BECALM_STAGED";
/// How often a lock is gone just when it is got, or another rank holds it and is about to let go.
const TRIES: usize = 3000;
/// How long the other rank is given.
const PAUSE: Duration = Duration::from_millis(5);

/// The image is unpacked, and stays so as long as the calling process, or anything that it
/// becomes and starts, holds what it inherits.
#[derive(Debug)]
pub struct Staged {
    /// The image's file.
    pub image: PathBuf,
    /// The paths that it stands for.
    pub over: Vec<PathBuf>,
    /// The tree: what the image's root is now.
    pub tree: PathBuf,
    /// Whether another rank was here before, and its tree is used.
    pub joined: bool,
    /// Bytes of its files.
    pub bytes: u64,
    /// What in it names the paths that it stands for.
    pub named: Named,
    /// What the command's environment gets.
    pub variables: Vec<(OsString, OsString)>,
    /// Those of them that the environment had with paths of the image.
    pub changed: Vec<OsString>,
    /// The command, to be started instead.
    pub argv: Vec<OsString>,
}

/// Has the command see the image in a tree in memory of the node: that of another rank of the
/// node and job, or a new one. The process must have one thread, and should then become the
/// command ([`launch::replace`]).
///
/// `directory` is where; none: in memory. `progress` is told how many bytes are written, and of how
/// many, where this rank is the one that unpacks.
///
/// # Errors
/// [`ImageStageError`]. Nothing is left then.
pub fn enter(
    wanted: &MountRequest,
    directory: Option<&Path>,
    argv: &[OsString],
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Staged, ImageStageError> {
    error::check(wanted)?;
    let asked = SharedMountRequest::of(wanted)?;
    let image = asked.image.clone().unwrap_or_default();
    let place = home::choose(directory)?;
    let given = TreeOrigin { place: &place, argv, progress };
    let make = |directory: &Path| {
        let plan = MountPlan::of(&asked)?;
        replaced::check(&plan)?;
        tree::make(&plan, directory, &given)
    };
    let (tree, about, joined) = find_or_make(&asked, &place, make)?;
    let StagedTree { over, aliases, bytes, named, .. } = about;
    let moved = MovedPaths { over: [&over[..], &aliases].concat(), tree: tree.clone() };
    let mut variables = moved.variables(std::env::vars_os());
    let changed = variables.iter().map(|(name, _)| name.clone()).collect();
    let argv = command::moved(&moved, argv, &variables);
    variables.push(("BECALM_IMAGE".into(), image.clone().into()));
    variables.push((VARIABLE.into(), tree.clone().into()));
    let over = over.into_iter().map(|over| over.path).collect();
    Ok(Staged { image, over, tree, joined, bytes, named, variables, changed, argv })
}

/// The tree, what is known of it, and whether it was there.
fn find_or_make(
    asked: &SharedMountRequest<'_>,
    place: &StageParent,
    make: impl Fn(&Path) -> Result<(), ImageStageError>,
) -> Result<(PathBuf, StagedTree, bool), ImageStageError> {
    let name = name(asked, place)?;
    let (mut joined, mut opened) = (true, None);
    for _ in 0..TRIES {
        let home = Home::of(place)?;
        let (path, directory) = (home.lock(&name), home.directory(&name));
        let wrong = |what| error::file(&path, what);
        let lock = match opened.take().map_or_else(|| Lock::open(path.clone()), Ok) {
            // The last user of another tree has just gone, and taken the directory away.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            lock => lock.map_err(wrong("open"))?,
        };
        // Waits for one that makes the tree, or removes it.
        if !is_current(lock.share().map_err(wrong("lock"))?, asked.wanted.freshness)? {
            continue;
        }
        if let Some(mut about) = StagedTree::of(&directory) {
            let is_too_old = about.is_too_old_for(asked.wanted.freshness, &directory);
            if is_too_old {
                let plan = MountPlan::of(asked)?;
                fresh::check(&plan, UntracedLook::Before)?;
                replaced::check(&plan)?;
                about.compared_now(&directory);
            }
            lock.keep().map_err(wrong("keep"))?;
            if !joined {
                gone::after_the_last(home, &name).map_err(wrong("start who removes"))?;
            }
            return Ok((directory.join(tree::ROOT), about, joined));
        }
        // Not waited for: others may have made the tree meanwhile, and use it for as long as they
        // run.
        if !lock.own_at_once() {
            lock.let_go().map_err(wrong("unlock"))?;
            thread::sleep(PAUSE);
            opened = Some(lock);
        } else if StagedTree::of(&directory).is_none() {
            gone::left_by_others(&home, &name);
            make(&directory).inspect_err(|why| {
                // Who waits for it hears why, and does not try in vain.
                let _ = lock.fail(&refusal(asked.wanted.freshness, &why.to_string()));
                home.leave();
            })?;
            joined = false;
        }
    }
    let why = "it is taken away again and again".to_owned();
    Err(ImageStageError::Directory { path: place.directory.clone(), why })
}

/// The same for all ranks of this node and job that ask for the same. It begins with what no other
/// node has: the directory may be on a filesystem that they share.
fn name(asked: &SharedMountRequest<'_>, place: &StageParent) -> Result<String, ImageStageError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let boot = std::fs::read_to_string(path).map_err(error::file(path, "read"))?;
    let node = boot.trim().replace('-', "");
    // Links in the tree name its path; and what a rank was refused for its LD_LIBRARY_PATH is no answer
    // to one with another.
    let other = format!("{:?} {}", place.directory, asked.library_path);
    Ok(format!("{node}-{}", asked.request_with(other)))
}

/// Whether a lock is the one that all meet at. What another rank was refused, this one is too, if
/// it compares the sources as closely: all else that they ask for is alike.
fn is_current(state: LockState, own: Freshness) -> Result<bool, ImageStageError> {
    match state {
        LockState::Current => Ok(true),
        LockState::Gone { failure: None } => Ok(false),
        LockState::Gone { failure: Some(words) } => match serde_json::from_str(&words) {
            Ok((freshness, why)) if Freshness::eq(&freshness, &own) => {
                Err(ImageStageError::Other(why))
            }
            _ => Ok(false),
        },
    }
}

/// What is left for those who wait where no tree has come to be.
fn refusal(freshness: Freshness, why: &str) -> String {
    serde_json::to_string(&(freshness, why)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_rank_was_refused_is_no_answer_to_one_that_asks_for_less() {
        let gone = || LockState::Gone { failure: Some(refusal(Freshness::Full, "it has changed")) };
        assert!(is_current(gone(), Freshness::Full).unwrap_err().to_string().contains("changed"));
        assert!(!is_current(gone(), Freshness::No).unwrap());
        // Words that were cut.
        let cut = LockState::Gone { failure: Some("[\"Full".to_owned()) };
        assert!(!is_current(cut, Freshness::Full).unwrap());
    }

    #[test]
    fn a_rank_that_finds_no_tree_yet_does_not_wait_until_nobody_uses_the_one_that_comes() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        std::fs::write(&image, "").unwrap();
        let wanted = MountRequest {
            image: Some(image),
            freshness: Freshness::No,
            ..MountRequest::default()
        };
        let place = home::choose(Some(directory.path())).unwrap();
        let name = name(&SharedMountRequest::of(&wanted).unwrap(), &place).unwrap();
        let home = Home::of(&place).unwrap();
        // Another rank, which has the lock from before the tree is there until its end.
        let other = Lock::open(home.lock(&name)).unwrap();
        assert!(is_current(other.share().unwrap(), Freshness::No).unwrap());
        let (found, tree) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let asked = SharedMountRequest::of(&wanted).unwrap();
            let (tree, _, joined) = find_or_make(&asked, &place, |_| panic!("made")).unwrap();
            found.send((tree, joined)).unwrap();
        });
        thread::sleep(PAUSE * 10);
        let (over, aliases, named) = (Vec::new(), Vec::new(), Named::default());
        let about = StagedTree {
            over,
            aliases,
            checked: Freshness::Full,
            checked_by: None,
            bytes: 0,
            named,
        };
        let directory = home.directory(&name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join(tree::ABOUT), about.encode().unwrap()).unwrap();
        let (tree, joined) = tree.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!((tree, joined), (directory.join(tree::ROOT), true));
        drop(other);
    }
}
