//! Running in an image: it is mounted over the directory that it was made of, for one command and
//! what that starts, without any privilege, and once a node and job.
//!
//! | file | what it holds |
//! |---|---|
//! | `wanted` | what the command line asks for |
//! | `asked` | the same, looked at without opening anything: under which name ranks meet |
//! | `plan` | the same, opened: which images, over which paths |
//! | `fresh` | whether the image's sources have changed since: what is asked, and when |
//! | `quick` | what of them is asked before the command starts |
//! | `bytecode_dirs` | bytecode that appears in the source after it was packed |
//! | `compare` | a file or directory of the image, compared with its source |
//! | `beside` | several images in one run, each at its own place |
//! | `conflicts` | what they have in common, and what that means |
//! | `live` | directories that have changed, shown over the image |
//! | `untraced` | files that are compared when they are looked up |
//! | `door` | how ranks of a node find one another |
//! | `holder` | the process that serves them |
//! | `healed` | bytecode in the image that no source has |
//! | `replaced` | libraries that LD_LIBRARY_PATH puts in the place of bound ones |
//! | `guard` | the process that serves on, or ends the ranks, if the holder is killed |
//! | `standby` | what it knows of what is served |
//! | `spared` | whom the kernel ends first where memory is short |
//! | `handshake` | a FUSE session begun, and one gone on with |
//! | `layer` | a squashfs that is mounted: its file, and what it says of itself |
//! | `ahead` | reading an image in large pieces |
//! | `serve` | a squashfs, served through FUSE |
//! | `build` | the mounts, made by the first rank |
//! | `root` | the same where the image is a whole root |
//! | `overlay` | changes on top, and their lock |
//! | `points` | places to mount on, where there are none |
//! | `possible` | whether anything can be mounted here, tried out |
//!
//! The first rank forks the holder, makes a user and a mount namespace, mounts FUSE over the path
//! and hands the device to the holder, which serves it. Later ranks find the holder by a name that
//! all work out alike, and enter the namespaces of a rank that lives. Each then becomes its
//! command in place. Root needs no user namespace, and the kernel's squashfs serves it.
//!
//! Files shown in the place of others take the same way, with an image or without one: so ranks see
//! the same mounts, and one of them has compared what they rely on.

mod ahead;
pub(crate) mod asked;
mod beside;
mod build;
mod bytecode_dirs;
mod compare;
mod conflicts;
mod door;
pub(crate) mod error;
pub(crate) mod fresh;
mod guard;
mod handshake;
mod healed;
mod holder;
pub(crate) mod launched;
pub(crate) mod layer;
mod live;
mod overlay;
pub(crate) mod plan;
mod points;
mod possible;
mod quick;
pub(crate) mod replaced;
mod root;
mod serve;
mod spared;
mod standby;
mod untraced;
mod wanted;

use std::ffi::OsString;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::join::{NamespaceId, ProcessNamespaces};

pub use compare::ComparedSources;
pub use conflicts::{ConflictKind, ImageConflict};
pub use error::MountError;
pub use holder::BesideMounts;
pub use overlay::WritableOverlay;
pub use possible::why_impossible;
pub use wanted::{Bind, Freshness, MountCondition, MountMethod, MountRequest, PlacedImage};

use asked::SharedMountRequest;
use door::SocketState;
use fresh::UntracedLook;
use holder::HeldImage;
use launched::RankOfLaunch;
use plan::MountPlan;

/// A holder that does not answer for so long is stopped, or stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a rank comes just when the last one has gone.
const TRIES: usize = 2000;
/// How many that serve on after one another are asked.
const NEXT_ONES: usize = 20;

/// The calling process sees the image now, and so will what it becomes.
#[derive(Debug)]
pub struct Entered {
    /// The image's file, if there is one.
    pub image: Option<PathBuf>,
    /// The paths that it is mounted over; `/` where it is a whole root.
    pub over: Vec<PathBuf>,
    /// What mounts it.
    pub by: MountMethod,
    /// Whether another rank was here before, and its mount is used.
    pub joined: bool,
    /// The file in this node's memory that what the trace read is read from.
    pub hot_part: Option<String>,
    /// What is wrong with one that is here and not used; said to the first rank.
    pub refused_hot_part: Option<String>,
    /// Directories that have changed since it was made, and are shown as they are now
    /// ([`MountRequest::live`]).
    pub live: Vec<PathBuf>,
    /// How many files that the images were made of were compared before they were mounted; said to the
    /// first rank.
    pub compared: Vec<ComparedSources>,
    /// The other images, in the order in which they were asked for.
    pub beside: Vec<BesideMounts>,
    /// What the images have in common; said to the first rank.
    pub conflicts: Vec<ImageConflict>,
    /// What the command's environment gets: `BECALM_IMAGE`.
    pub variables: Vec<(OsString, OsString)>,
}

/// Has the calling process see the image: by joining another rank of its node and job, or as the
/// first. It must have one thread, and should then become the command ([`launch::replace`]).
///
/// # Errors
/// [`MountError`]. The process may have entered other namespaces by then, and should end.
pub fn enter(wanted: &MountRequest) -> Result<Entered, MountError> {
    let asked = SharedMountRequest::of(wanted)?;
    let look = || error::system("look for other ranks");
    let mut name = asked.name.clone();
    for _ in 0..TRIES {
        // Nothing is opened before somebody says that this is to be the first rank.
        let around = door::knock(&asked.name_around()).map_err(look())?;
        match around.map_or_else(|| door::knock_or_take(&name), Ok).map_err(look())? {
            SocketState::Free(door) => return first(&asked, Some(door)),
            SocketState::Holder(stream) => match join(&stream, &asked)? {
                Joined::Here(held) => return Ok(entered(&asked, *held, true)),
                Joined::Elsewhere => name = asked.name_around(),
                Joined::Otherwise => break,
                // Its last rank has just ended, and so will it.
                Joined::Nowhere => std::thread::sleep(Duration::from_millis(1)),
            },
            SocketState::Foreign => break,
        }
    }
    // Alone: what was mounted is older than what is there now, another user has taken the name, or a holder stays that nobody can join.
    first(&asked, None)
}

/// Compares an image with what it was made of, by times and sizes, and mounts nothing. Says how many
/// files of each were compared: none where the sources are not there.
///
/// # Errors
/// [`MountError::Stale`], with what has changed.
pub fn compare(wanted: &MountRequest) -> Result<Vec<ComparedSources>, MountError> {
    let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let asked = SharedMountRequest::in_directory(wanted, directory)?;
    fresh::check(&MountPlan::of(&asked)?, UntracedLook::Before)
}

fn first(
    asked: &SharedMountRequest<'_>,
    door: Option<UnixListener>,
) -> Result<Entered, MountError> {
    let mut plan = MountPlan::of(asked)?;
    let conflicts = conflicts::of(&plan)?;
    let held = build::first(&plan, door)?;
    let refused_hot_part = plan.refused.take();
    Ok(Entered { refused_hot_part, conflicts, ..entered(asked, held, false) })
}

fn entered(asked: &SharedMountRequest<'_>, held: HeldImage, joined: bool) -> Entered {
    let by = if held.by_kernel { MountMethod::Kernel } else { MountMethod::Fuse };
    if !held.by_kernel {
        spared::end_before_the_holder();
    }
    let image = asked.image.as_ref().map(|_| held.image.clone());
    let variables = image.iter().map(|image| ("BECALM_IMAGE".into(), all(image, &held.beside)));
    let variables = variables.collect();
    let hot_part = held.hot.filter(|_| by == MountMethod::Fuse);
    Entered {
        image,
        over: held.over,
        by,
        joined,
        live: held.live,
        compared: held.compared,
        beside: held.beside,
        conflicts: Vec::new(),
        hot_part,
        refused_hot_part: None,
        variables,
    }
}

/// Several images, one after the other, as in PATH.
fn all(image: &Path, beside: &[BesideMounts]) -> OsString {
    let mut all = image.as_os_str().to_owned();
    for image in beside {
        all.push(":");
        all.push(&image.image);
    }
    all
}

/// What came of a knock.
enum Joined {
    /// The process sees the image.
    Here(Box<HeldImage>),
    /// Its sources have changed since it was mounted.
    Otherwise,
    /// A whole root, with another working directory or home in it.
    Elsewhere,
    /// The holder is about to leave.
    Nowhere,
}

/// Enters where the holder says.
fn join(stream: &UnixStream, asked: &SharedMountRequest<'_>) -> Result<Joined, MountError> {
    let (pid, _) = door::peer(stream).unwrap_or_default();
    let silent = |error: std::io::Error| MountError::Holder {
        pid,
        why: format!(
            "does not answer ({error}): end it (pkill -9 -x becalm-holder), and its guard serves on"
        ),
    };
    stream.set_read_timeout(Some(PATIENCE)).map_err(silent)?;
    let Some(message) = door::receive(stream).map_err(silent)? else {
        return Ok(Joined::Nowhere);
    };
    let mut descriptors = message.descriptors.into_iter();
    let held: Option<HeldImage> = serde_json::from_str(&message.text).ok();
    let (holder::ENTER, Some(mounts), Some(held)) = (message.tag, descriptors.next(), held) else {
        return Err(MountError::Holder { pid, why: message.text });
    };
    if held.around.as_ref().is_some_and(|around| *around != asked.around) {
        return Ok(Joined::Elsewhere);
    }
    let mut compared = String::new();
    let is_too_old = held.is_too_old_for(asked.wanted.freshness);
    let is_compared = !is_too_old && !held.is_for_another_library_path(asked);
    // In the namespace that is entered, the image's file need not be seen.
    let plan = (!is_compared).then(|| MountPlan::of(asked)).transpose()?;
    if let Some(plan) = plan.as_ref().filter(|_| is_too_old) {
        let found = fresh::changes(plan, UntracedLook::AtNextLookup(&held.looked_up))?;
        if live::directories(&found, plan) != held.live {
            return Ok(Joined::Otherwise);
        }
        let by = (asked.wanted.freshness, RankOfLaunch::own());
        compared = serde_json::to_string(&by).unwrap_or_default();
    }
    ProcessNamespaces::received(mounts, descriptors.next()).enter()?;
    plan.as_ref().map_or(Ok(()), replaced::check)?;
    // If the holder was killed before, its guard has not seen this process.
    let entered = door::send(stream, holder::ENTERED, &compared, &[]);
    let answer = entered.and_then(|()| door::receive(stream));
    if !answer.is_ok_and(|answer| answer.is_some()) && !is_known_to_the_next(asked) {
        return Err(MountError::Holder { pid, why: "has been killed".to_owned() });
    }
    back_to(&asked.directory, held.around.is_some())?;
    Ok(Joined::Here(Box::new(held)))
}

/// Tells whoever serves on after a killed holder that this process has entered. False where nobody
/// does, or somebody who serves others.
fn is_known_to_the_next(asked: &SharedMountRequest<'_>) -> bool {
    let Ok([_, own, _]) = NamespaceId::all_own() else { return false };
    let names = [asked.name.clone(), asked.name_around()];
    let confirmed = |name: &String| -> Option<()> {
        let Ok(Some(SocketState::Holder(stream))) = door::knock(name) else { return None };
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mounts = door::receive(&stream).ok()??.descriptors.into_iter().next()?;
        if NamespaceId::of_descriptor(mounts).ok()? != own {
            return None;
        }
        door::send(&stream, holder::ENTERED, "", &[]).ok()?;
        door::receive(&stream).ok()?.map(drop)
    };
    // The next one may be killed, too.
    (0..NEXT_ONES).any(|_| names.iter().any(|name| confirmed(name).is_some()))
}

/// Goes to the working directory again, by its path: it may be another directory now.
fn back_to(directory: &Path, is_root: bool) -> Result<(), MountError> {
    let error = match std::env::set_current_dir(directory) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    // In somebody's whole root the directory need not be, as Singularity has it.
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_else(|| "/".into());
    let others = [home.as_path(), Path::new("/")];
    if is_root && others.iter().any(|other| std::env::set_current_dir(other).is_ok()) {
        return Ok(());
    }
    Err(error::file(directory, "go back into the working directory: it is not in the image")(error))
}
