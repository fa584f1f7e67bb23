//! The tree: an image unpacked, and what is known of it, so that other ranks of the node need not
//! open the image.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use recording::{seal, unseal};
use serde::{Deserialize, Serialize};

use super::error::{self, ImageStageError};
use super::home::StageParent;
use super::moved::{self, MovedPaths, Over};
use super::named::Named;
use super::room::StageRoom;
use super::{gone, named};
use crate::extract::{ExtractList, ExtractRules, StandIn, unpack};
use crate::mount::launched::{HOLDS, RankOfLaunch};
use crate::mount::plan::{MountPlan, MountTarget};
use crate::mount::{Freshness, fresh};

/// The name of what the image's root is.
pub(super) const ROOT: &str = "tree";
/// The name of what is known of it. It is there when all else is.
pub(super) const ABOUT: &str = "about";
/// What it begins with; another number for another form.
const MAGIC: &str = "becalm-tree 1";
/// How many files are written at a time.
const WRITERS: usize = 16;

/// What is known of a tree.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StagedTree {
    /// The paths that it stands for.
    pub over: Vec<Over>,
    /// Other names of them.
    pub aliases: Vec<Over>,
    /// How closely its sources were compared with it,
    pub checked: Freshness,
    /// and by which rank, if by one of many.
    pub checked_by: Option<RankOfLaunch>,
    /// Bytes of its files.
    pub bytes: u64,
    /// What in it names the paths that it stands for.
    pub named: Named,
}

impl StagedTree {
    /// Whether a rank that comes now has to compare the image with its sources for itself. When
    /// that was done last is the time of the file that this was read from.
    pub fn is_too_old_for(&self, freshness: Freshness, directory: &Path) -> bool {
        let at = fs::metadata(directory.join(ABOUT)).and_then(|about| about.modified());
        let age = at.ok().and_then(|at| at.elapsed().ok());
        let mut others = RankOfLaunch::own().into_iter().zip(&self.checked_by);
        let is_by_another = others.any(|(own, other)| own.may_trust(other));
        let is_long_ago = !is_by_another || age.is_none_or(|age| age > HOLDS);
        freshness > self.checked || (is_long_ago && freshness > Freshness::No)
    }

    /// This process has compared it.
    pub fn compared_now(&mut self, directory: &Path) {
        self.checked_by = RankOfLaunch::own();
        // Otherwise the next one compares as well.
        let _ = self.keep(directory);
    }

    /// Writes what is known of the tree beside it.
    fn keep(&self, directory: &Path) -> io::Result<()> {
        // Several may at a time.
        let temporary = directory.join(format!("about.{}", std::process::id()));
        fs::write(&temporary, self.encode()?)?;
        fs::rename(&temporary, directory.join(ABOUT))
    }

    /// Of the tree in a directory, if it is complete, and what is known of it as it was written.
    pub fn of(directory: &Path) -> Option<StagedTree> {
        serde_json::from_slice(unseal(MAGIC, &fs::read(directory.join(ABOUT)).ok()?)?).ok()
    }

    /// As it is kept.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        Ok(seal(MAGIC, &serde_json::to_vec(self)?))
    }
}

/// What a tree is made by, besides the image.
pub(super) struct TreeOrigin<'a> {
    pub place: &'a StageParent,
    /// The command: it and the environment tell what else the image's paths are called.
    pub argv: &'a [OsString],
    /// Is told how many bytes are written, and of how many.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// Unpacks an image into a directory, in which there may be what is left of another try.
pub(super) fn make(
    plan: &MountPlan<'_>,
    directory: &Path,
    given: &TreeOrigin<'_>,
) -> Result<(), ImageStageError> {
    let MountTarget::Over(over) = &plan.place else {
        return Err(ImageStageError::TakesMount("a whole root"));
    };
    fresh::check(plan, fresh::UntracedLook::Before)?;
    let over = over.iter().map(|(path, inner)| Over { path: path.clone(), inner: inner.clone() });
    gone::remove(directory).map_err(error::file(directory, "remove"))?;
    let done = fill(plan, directory, over.collect(), given);
    if done.is_err() {
        gone::remove(directory).map_err(error::file(directory, "remove"))?;
    }
    done
}

fn fill(
    plan: &MountPlan<'_>,
    directory: &Path,
    over: Vec<Over>,
    given: &TreeOrigin<'_>,
) -> Result<(), ImageStageError> {
    let image = &plan.layers[0].image;
    let list = ExtractList::of(image, plan.image, &[])?;
    let room = StageRoom::of(given.place);
    room.check(plan.image, &list)?;
    fs::create_dir(directory).map_err(error::file(directory, "make"))?;
    let values = std::env::vars_os().map(|(_, value)| value).chain(given.argv.iter().cloned());
    let aliases = moved::aliases(&over, values);
    let moved = MovedPaths { over: [&over[..], &aliases].concat(), tree: directory.join(ROOT) };
    let stand_in = StandIn {
        read_only: !plan.wanted.writable_tmpfs,
        target: &|target| moved.link(target),
        room: &|bytes| room.before_writing(bytes),
    };
    let how = ExtractRules {
        writers: WRITERS,
        progress: given.progress,
        is_there: false,
        stand_in: Some(stand_in),
    };
    unpack(image, &list, &moved.tree, &how)?;
    let paths: Vec<&Path> = moved.over.iter().map(|over| over.path.as_path()).collect();
    let about = StagedTree {
        over,
        aliases,
        checked: plan.wanted.freshness,
        checked_by: RankOfLaunch::own(),
        bytes: list.bytes,
        named: named::count(&moved.tree, &list, &paths),
    };
    about.keep(directory).map_err(error::file(directory, "write to"))
}
