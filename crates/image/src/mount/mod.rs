//! Running in an image: it is mounted over the folder that it was made of, for one command and
//! what that starts, without any privilege, and once a node and job.
//!
//! | file | what it holds |
//! |---|---|
//! | `wanted` | what the command line asks for |
//! | `plan` | the same, looked at: which images, over which paths, under which name |
//! | `fresh` | whether the image's sources have changed since |
//! | `door` | how ranks of a node find one another |
//! | `holder` | the process that serves them |
//! | `layer` | a squashfs that is mounted: its file, and what it says of itself |
//! | `ahead` | reading an image in large pieces |
//! | `serve` | a squashfs, served through FUSE |
//! | `build` | the mounts, made by the first rank |
//! | `root` | the same where the image is a whole root |
//! | `overlay` | changes on top, and their lock |
//! | `points` | places to mount on, where there are none |
//!
//! The first rank forks the holder, makes a user and a mount namespace, mounts FUSE over the path
//! and hands the device to the holder, which serves it. Later ranks find the holder by a name that
//! all work out alike, and enter the namespaces of a rank that lives. Each then becomes its
//! command in place. Root needs no user namespace, and the kernel's squashfs serves it.

mod ahead;
mod build;
mod door;
mod error;
mod fresh;
mod holder;
mod layer;
mod overlay;
mod plan;
mod points;
mod root;
mod serve;
mod wanted;

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use launch::join::Surroundings;

pub use error::MountError;
pub use overlay::Overlay;
pub use wanted::{Bind, By, Freshness, Wanted};

use door::Found;
use plan::{Plan, Where};

/// A holder that does not answer for so long is stopped, or stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a rank comes just when the last one has gone.
const TRIES: usize = 2000;

/// The calling process sees the image now, and so will what it becomes.
#[derive(Debug)]
pub struct Entered {
    /// The image's file.
    pub image: PathBuf,
    /// The paths that it is mounted over; `/` where it is a whole root.
    pub over: Vec<PathBuf>,
    /// What mounts it.
    pub by: By,
    /// Whether another rank was here before, and its mount is used.
    pub joined: bool,
    /// What the command's environment gets: `BECALM_IMAGE`.
    pub variables: Vec<(OsString, OsString)>,
}

/// Has the calling process see the image: by joining another rank of its node and job, or as the
/// first. It must have one thread, and should then become the command ([`launch::replace`]).
///
/// # Errors
/// [`MountError`]. The process may have entered other namespaces by then, and should end.
pub fn enter(wanted: &Wanted) -> Result<Entered, MountError> {
    let plan = Plan::of(wanted)?;
    for _ in 0..TRIES {
        match door::knock_or_take(&plan.name).map_err(error::system("look for other ranks"))? {
            Found::Free(door) => {
                return Ok(entered(&plan, build::first(&plan, Some(door))?, false));
            }
            Found::Holder(stream) => {
                if let Some(by) = join(&stream)? {
                    back_to(&plan.folder, plan.is_root())?;
                    return Ok(entered(&plan, by, true));
                }
                // Its last rank has just ended, and so will it.
                std::thread::sleep(Duration::from_millis(1));
            }
            Found::Foreign => break,
        }
    }
    // Alone: another user has taken the name, or a holder stays that nobody can join.
    Ok(entered(&plan, build::first(&plan, None)?, false))
}

fn entered(plan: &Plan<'_>, by: By, joined: bool) -> Entered {
    let over = match &plan.place {
        Where::Over(paths) => paths.iter().map(|(path, _)| path.clone()).collect(),
        Where::Root => vec!["/".into()],
    };
    let variables = vec![("BECALM_IMAGE".into(), plan.image.clone().into())];
    Entered { image: plan.image.clone(), over, by, joined, variables }
}

/// Enters where the holder says, and says what mounts the image there. None if it is about to
/// leave.
fn join(stream: &UnixStream) -> Result<Option<By>, MountError> {
    let (pid, _) = door::peer(stream).unwrap_or_default();
    let silent = |error: std::io::Error| MountError::Holder {
        pid,
        why: format!("does not answer ({error}): end it (kill {pid}) and start again"),
    };
    stream.set_read_timeout(Some(PATIENCE)).map_err(silent)?;
    let Some(message) = door::receive(stream).map_err(silent)? else { return Ok(None) };
    let mut descriptors = message.descriptors.into_iter();
    let (holder::ENTER, Some(mounts)) = (message.tag, descriptors.next()) else {
        return Err(MountError::Holder { pid, why: message.text });
    };
    Surroundings::received(mounts, descriptors.next()).enter()?;
    Ok(Some(if message.text == holder::BY_KERNEL { By::Kernel } else { By::Fuse }))
}

/// Goes to the working folder again, by its path: it may be another folder now.
fn back_to(folder: &Path, is_root: bool) -> Result<(), MountError> {
    let error = match std::env::set_current_dir(folder) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    // In somebody's whole root the folder need not be, as Singularity has it.
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_else(|| "/".into());
    let others = [home.as_path(), Path::new("/")];
    if is_root && others.iter().any(|other| std::env::set_current_dir(other).is_ok()) {
        return Ok(());
    }
    Err(error::file(folder, "go back into the working folder: it is not in the image")(error))
}
