//! A new cache: built by the site's own `cachebuild` elsewhere, repaired, checked, published.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use remedy::{Plan, Step};
use schemars::JsonSchema;
use serde::Serialize;
use tempfile::NamedTempFile;

use super::compare::{CacheComparison, changed_directories};
use super::elsewhere::PrivateDirectory;
use super::fault::{Fault, FaultCounts, FaultKind};
use super::readers::FileReaders;
use super::repair::repair;
use super::script::{CacheOddity, parse};
use super::view::{ViewDifference, differences};
use super::{NAME, held};
use crate::site::{ModulesSite, User, UserError};
use crate::tree::{self, ModulepathTree, WalkLimits, walk};

/// A tree that is being changed is built so often, until it stands still for one build.
const TRIES: usize = 3;

/// Why no cache was published. The one that was there is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CacheBuildError {
    /// The site's Modules has no caches.
    #[error("Modules {release} has no caches (5.3 and newer have); nothing was done")]
    TooOld {
        /// Its release.
        release: String,
    },
    /// The tree would hang or mislead `cachebuild`, or let somebody run code as root.
    #[error("{}: {what}", .path.display())]
    Tree {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A system call failed.
    #[error("{}: {operation}: {error}", .path.display())]
    Call {
        /// The file.
        path: PathBuf,
        /// The call.
        operation: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// A user's eyes could not be had.
    #[error(transparent)]
    User(#[from] UserError),
    /// Modules could not be run.
    #[error("{}: {why}", .command.display())]
    CannotRun {
        /// Its `modulecmd.tcl`.
        command: PathBuf,
        /// Why.
        why: String,
    },
    /// The site allows no extra configuration, so `cachebuild` could write in place only.
    #[error(
        "the site's configuration takes no extra_siteconfig (locked_configs?), without which \
         cachebuild writes over the cache that is in use; Modules said: {said}"
    )]
    Locked {
        /// What Modules said.
        said: String,
    },
    /// `cachebuild` made nothing.
    #[error("cachebuild made no cache: {said}")]
    NothingBuilt {
        /// What Modules said.
        said: String,
    },
    /// What `cachebuild` made is no cache.
    #[error("cachebuild made a cache that cannot be trusted: {0}")]
    Odd(#[from] CacheOddity),
    /// The new cache does not give what a walk gives.
    #[error("the new cache is not published: {}", .0.first().map_or("", |fault| &fault.what))]
    Wrong(Vec<Fault>),
    /// The tree changes faster than it is read.
    #[error("{}: the tree changed in each of {TRIES} builds; try again later", .0.display())]
    Busy(PathBuf),
    /// It could not be put in place so that it can be undone.
    #[error("the new cache is not published: {0}")]
    Unpublished(#[from] remedy::Error),
    /// Somebody would see something else.
    #[error(
        "the new cache is not published: with it, {} sees {:?} where a walk gives {:?}",
        .0.user, .0.first.1, .0.first.0
    )]
    Differs(ViewDifference),
}

impl CacheBuildError {
    pub(super) fn at(operation: &'static str, path: &Path, error: io::Error) -> CacheBuildError {
        CacheBuildError::Call { path: path.to_owned(), operation, error }
    }
}

/// How the cache that was there can be had back.
pub struct Occasion<'a> {
    /// How it is journaled: `becalm undo` brings back what was there.
    pub journal: remedy::Options<'a>,
    /// It is built as often as the tree changes: then one that becalm has put there is not kept. It
    /// was made of the tree, and is out of date.
    pub is_upkeep: bool,
    /// It is undone with what was applied under this id.
    pub under: Option<String>,
}

/// A cache that was published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PublishedCache {
    /// The modulepath.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub modulepath: PathBuf,
    /// The cache.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub cache: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// What `becalm undo` takes it back by.
    pub journal: String,
    /// What it records.
    pub entries: FaultCounts,
    /// How many entries of `cachebuild`'s had shown what not everyone may read, and show it no
    /// longer.
    pub repaired: u64,
    /// Users for whom Modules gave the same with it as without, all names and times.
    pub users: Vec<String>,
    /// What is worth knowing.
    pub notes: Vec<String>,
}

/// Builds, repairs, checks and publishes a modulepath's cache: for each of `users` the site's
/// Modules must list with it what it lists without. Tells how many of how many commands have been
/// run.
///
/// This forks: call it while the process has one thread.
///
/// # Errors
/// [`CacheBuildError`]; the cache that was there stays.
pub fn build(
    modulepath: &Path,
    site: &ModulesSite,
    users: &[User],
    occasion: &Occasion,
    progress: &dyn Fn(u64, u64),
) -> Result<PublishedCache, CacheBuildError> {
    if !super::reads_caches(site) {
        return Err(CacheBuildError::TooOld { release: site.release.text().to_owned() });
    }
    let modulepath = &std::path::absolute(modulepath)
        .map_err(|error| CacheBuildError::at("getcwd", modulepath, error))?;
    for _ in 0..TRIES {
        let tree = walk(modulepath, WalkLimits { cookies: false, ..WalkLimits::default() });
        let builder = builder(&tree)?;
        let place = CacheDraft::beside(modulepath)?;
        progress(0, 1 + 2 * users.len() as u64);
        let draft = draft(modulepath, site, &builder, place.as_of)?;
        let script = parse(&draft.text)?;
        let tree = walk(modulepath, WalkLimits { cookies: false, ..WalkLimits::default() });
        let comparison = CacheComparison {
            tree: &tree,
            release: Some(&site.release),
            as_of: place.as_of,
            changed: changed_directories(&tree, place.as_of),
            is_exact: true,
        };
        let (faults, entries) = comparison.faults(&script);
        if faults.iter().any(|fault| fault.kind == FaultKind::Stale) {
            continue;
        }
        if !faults.is_empty() {
            return Err(CacheBuildError::Wrong(faults));
        }
        let (differences, asked) = differences(site, modulepath, &draft.text, users, progress)?;
        if let Some(difference) = differences.into_iter().next() {
            return Err(CacheBuildError::Differs(difference));
        }
        let bytes = draft.text.len() as u64;
        let cache = place.cache.clone();
        let journal = place.publish(draft.text, occasion)?;
        return Ok(PublishedCache {
            modulepath: modulepath.clone(),
            cache,
            bytes,
            journal,
            entries,
            repaired: draft.disclosing,
            users: asked,
            notes: super::load::note(site).into_iter().collect(),
        });
    }
    Err(CacheBuildError::Busy(modulepath.clone()))
}

/// What `cachebuild` makes of the tree now, repaired.
fn draft(
    modulepath: &Path,
    site: &ModulesSite,
    builder: &User,
    as_of: i128,
) -> Result<super::repair::Repaired, CacheBuildError> {
    let elsewhere = PrivateDirectory::new(site, builder)?;
    elsewhere.build(site, builder, modulepath)?;
    let path = elsewhere.cache();
    let held = held::hold(&path).map_err(|fault| CacheBuildError::Wrong(vec![fault]))?;
    let script = parse(&held.bytes)?;
    Ok(repair(&held.bytes, &script, as_of, &mut FileReaders::of(modulepath)))
}

/// Who builds: the modulepath's owner, where root builds, since rc files are evaluated.
fn builder(tree: &ModulepathTree) -> Result<User, CacheBuildError> {
    let wrong = |name: &Path, what: &str| CacheBuildError::Tree {
        path: tree.root.join(name),
        what: what.to_owned(),
    };
    let Some(top) = tree.top.stamp.filter(|_| tree.is_listed()) else {
        return Err(wrong(Path::new(""), "it is no directory that can be listed"));
    };
    if top.mode & 0o002 != 0 {
        return Err(wrong(Path::new(""), "everyone may write it, and so replace its cache"));
    }
    let own = rustix::process::geteuid().as_raw();
    let builds = if own == 0 { top.user } else { own };
    for entry in &tree.entries {
        let what = match (&entry.kind, entry.stamp) {
            (tree::TreeEntryKind::Special, _) => {
                "it is no file: cachebuild, like avail, would wait for it"
            }
            (tree::TreeEntryKind::Loop { .. }, _) => {
                "it leads back to a directory above: cachebuild would walk in circles"
            }
            (tree::TreeEntryKind::Rc(..), Some(stamp))
                if own == 0 && stamp.user != 0 && stamp.user != builds =>
            {
                "it belongs to another user than the modulepath, and building as root would \
                 evaluate it: build as a user who may"
            }
            _ => continue,
        };
        return Err(wrong(&entry.name, what));
    }
    Ok(User::named(&builds.to_string())?)
}

/// A file beside the cache that will take its place. Modules passes over its name.
struct CacheDraft {
    file: NamedTempFile,
    cache: PathBuf,
    /// The filesystem's time when it was made, in nanoseconds since 1970.
    as_of: i128,
}

impl CacheDraft {
    fn beside(modulepath: &Path) -> Result<CacheDraft, CacheBuildError> {
        let at = |error| CacheBuildError::at("create a file", modulepath, error);
        let file = tempfile::Builder::new()
            .prefix(".modulecache.")
            .suffix("~")
            .tempfile_in(modulepath)
            .map_err(at)?;
        let made = file.as_file().metadata().map_err(at)?;
        let as_of = i128::from(made.mtime()) * 1_000_000_000 + i128::from(made.mtime_nsec());
        Ok(CacheDraft { file, cache: modulepath.join(NAME), as_of })
    }

    /// Has the cache put in place so that it can be undone: as what, in the journal. In upkeep, one
    /// that becalm has put there is made anew under the name that it has.
    fn publish(self, content: Vec<u8>, occasion: &Occasion<'_>) -> Result<String, CacheBuildError> {
        let path = self.cache;
        // Nothing else of becalm's is to be in the directory meanwhile.
        drop(self.file);
        let options = &occasion.journal;
        if occasion.is_upkeep
            && let Some(id) = remedy::renew(&path, &content, options)?
        {
            return Ok(id);
        }
        let word = if occasion.is_upkeep { "refresh" } else { "build" };
        let directory = path.parent().unwrap_or(Path::new("/")).display();
        let title = format!("modules cache {word} {directory}");
        let mode = 0o644;
        let step = match path.symlink_metadata().is_ok() {
            true => Step::Replace { path, mode, content },
            false => Step::Create { path, mode, content },
        };
        let plan = Plan { title, steps: vec![step], ..Plan::default() };
        Ok(match &occasion.under {
            Some(id) => remedy::extend(id, &plan, options)?.id,
            None => remedy::apply(&plan, options)?.id,
        })
    }
}
