//! Binding: each object is made to load what it loads today, without a search.
//!
//! | file | what it holds |
//! |---|---|
//! | `collect` | the ELF files below some paths, by inode |
//! | `stores` | stores of package managers, and what they demand |
//! | `leave` | names that are left to the search |
//! | `resolve` | one start: what it loads, and how it finds it |
//! | `today` | which files may be edited, and what all loads today |
//! | `bars` | who may not open a file that root finds |
//! | `trust` | whether a `.becalm` that is there may be relied on |
//! | `own` | what a library's own list finds |
//! | `variants` | variants of libraries for some hardware |
//! | `places` | files that find others from where they lie |
//! | `copies` | libraries of which there are several |
//! | `movable` | trees that were seen in use, and can be moved |
//! | `through` | which kind of directory a list leads through |
//! | `names` | the one path by which each file is known |
//! | `known_by` | whether a bound library is still found by its name |
//! | `openers` | what programs find for what they open by name |
//! | `pins` | which file each DT_NEEDED shall name |
//! | `reasons` | why names are left to the search, in words |
//! | `farm` | directories of links that stand for long lists |
//! | `packed` | files that are bound while they are packed into an image |
//! | `union` | the links that stand for all farmed files' lists |
//! | `way` | where a path leads, link by link |
//! | `wanted` | the edits that each mode asks for |
//! | `closure` | the mode that edits the program only |
//! | `dlopen` | which files may open libraries by name |
//! | `attempt` | edits made, and made anew with more caution |
//! | `lessons` | what attempts teach, and what `remedy` would not do |
//! | `compare` | starts with the edits in them, compared with today's |
//! | `differing` | because of which edits a start would load something else |
//! | `outcome` | what planning came to |
//! | `steered` | what the environment of a start decides |
//! | `spared` | the lookups that a program is spared |
//! | `steps` | the plan for `remedy` |
//! | `threads` | how many threads it is made on |
//!
//! Nothing here writes: [`plan`] reads, and returns what is to be done as data.

mod attempt;
mod bars;
mod closure;
mod collect;
mod compare;
mod copies;
mod differing;
mod dlopen;
mod farm;
mod inherited;
mod known_by;
mod leave;
mod lessons;
mod movable;
mod names;
mod openers;
mod outcome;
mod own;
mod packed;
mod pins;
mod places;
mod reasons;
mod resolve;
mod spared;
mod steered;
mod steps;
mod stores;
mod threads;
mod through;
mod today;
mod trust;
mod union;
mod variants;
mod wanted;
mod way;
mod working;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub use leave::{Leave, UnboundFile};
pub use outcome::WHILE_PROGRAMS_RUN;
pub use reasons::{ASKED_BEFORE, INHERITED};
pub use remedy::Counts;
pub use spared::SparedLookups;
pub use steered::StartEnvironment;
pub use stores::{Manager, PackageStore, store_of};

use crate::edit::Tier;
use crate::{ElfObject, World};

/// How objects are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BindMode {
    /// Each DT_NEEDED becomes an absolute path, in every object.
    Needed,
    /// The program alone is edited: it needs all it comes to load, in the same order.
    Closure,
    /// One directory of links takes the place of all lists. The way for musl, whose loader opens
    /// a path once for each object that names it.
    Farm,
}

/// What stays of DT_RPATH and DT_RUNPATH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeepRpath {
    /// A farm, where something may call dlopen with a name; else nothing.
    #[default]
    Farm,
    /// Nothing, where every name is bound.
    None,
    /// All of it.
    All,
}

/// What to bind, and how.
#[derive(Clone, Debug, Default)]
pub struct BindOptions {
    /// By default, [`BindMode::Needed`] for glibc's programs and [`BindMode::Farm`] for musl's.
    pub mode: Option<BindMode>,
    /// What stays of the lists.
    pub keep_rpath: KeepRpath,
    /// With [`BindMode::Farm`]: a DT_RUNPATH, which LD_LIBRARY_PATH comes before.
    pub overridable: bool,
    /// Whether a file may grow by a segment where it has no room.
    pub grow: bool,
    /// Names that stay unbound, besides the built-in list; `*` stands for any text.
    pub leave: Vec<String>,
    /// Whether to bind to where they are trees that find themselves by `$ORIGIN`.
    pub absolute: bool,
    /// Whether to name what running programs opened though there are several copies of it, of which
    /// another order of opens loads another first.
    pub name_copies: bool,
    /// Whether to change stores that promise to be immutable (Nix, Guix).
    pub immutable: bool,
    /// Whether to list the lookups that each program is spared.
    pub list_spared: bool,
    /// Whether copies are to be bound, and shown in place of the files, which stay as they are: who
    /// may write to these is not asked, and nothing is added beside them.
    pub for_copies: bool,
    /// The paths that are packed into an image, where the copies are shown in one: nothing else is
    /// named, and nothing is added beside them.
    pub packed: Vec<PathBuf>,
    /// Whether programs that are not among the paths may load these libraries, too. A name that a
    /// library finds by a program's list alone then stays: another's may lead elsewhere.
    pub others_load: bool,
    /// The environments in which programs were seen to start. What they load there stays as it is,
    /// and so does what everyone else's starts load.
    pub environments: Vec<StartEnvironment>,
}

/// How far planning is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindProgress {
    /// Looking for ELF files.
    Looking,
    /// Simulating today's starts: how many of how many are done.
    Simulating {
        /// Starts done.
        done: usize,
        /// Starts in all.
        of: usize,
    },
    /// Making edits.
    Editing,
    /// Simulating starts after the edits.
    Checking,
}

/// Why nothing can be planned.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A path that was named cannot be read.
    #[error("{path}: {error}", path = .path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A store whose files must not change; [`BindOptions::immutable`] has it changed all the same.
    #[error(
        "{path}: {manager} takes the files of its store to be unchanged for ever and checks \
         their hashes; bind at build time instead",
        path = .path.display(), manager = .manager.name()
    )]
    Immutable {
        /// The path.
        path: PathBuf,
        /// Whose store.
        manager: Manager,
    },
}

/// What is to be done.
#[derive(Debug, Default)]
pub struct Binding {
    /// The files to change, sorted by path.
    pub changes: Vec<BindChange>,
    /// New directories, each after the one it lies in.
    pub directories: Vec<PathBuf>,
    /// New symbolic links: the link, and what it says.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// New files: closure libraries.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// Files that are named and not changed, links and files of an earlier binding that are used again among them;
    /// and what was seen of each when it was read.
    pub named: Vec<(PathBuf, remedy::Seen)>,
    /// Programs whose start was simulated, before and after.
    pub programs: Vec<Effect>,
    /// Libraries that no program loads, each loaded alone, before and after.
    pub libraries: Vec<Effect>,
    /// ELF files that are bound already, or whose start searches for nothing.
    pub calm: usize,
    /// How many files would be bound, and cannot be changed: they are among those left out.
    pub barred: usize,
    /// How many of those left out have no room for the paths, which [`BindOptions::grow`] may make.
    pub cramped: usize,
    /// What stays as it is, and why.
    pub left_out: Vec<UnboundFile>,
    /// Names that two programs find in two places.
    pub conflicts: Vec<Conflict>,
    /// Names that are still searched, and why, in files whose start searches in vain.
    pub names_left: Vec<NameLeft>,
    /// The stores that the paths lie in.
    pub stores: Vec<PackageStore>,
    /// What may go wrong once it is applied, one sentence each.
    pub risks: Vec<String>,
    /// What was found out about the files to change, for `remedy::Options`.
    pub checked: remedy::CheckedFiles,
}

/// One file's change.
#[derive(Debug)]
pub struct BindChange {
    /// The file.
    pub path: PathBuf,
    /// Its other names (hard links).
    pub also: Vec<PathBuf>,
    /// What was seen of it when it was read.
    pub seen: remedy::Seen,
    /// Names that become others: the old and the new one, in the file's order.
    pub needed: Vec<(OsString, OsString)>,
    /// The list of directories before and after, where it changes: DT_RPATH or DT_RUNPATH.
    pub search: Option<BoundSearchPath>,
    /// Whether LD_LIBRARY_PATH is searched before its list: before a DT_RUNPATH, and by musl's loader
    /// before any.
    pub gives_way: bool,
    /// Where the new names go.
    pub tier: Tier,
    /// What is written.
    pub patches: Arc<[crate::edit::BytePatch]>,
}

/// A list of directories that becomes another. In a store it is most of a file, and there are as many
/// as files: the old one is shared with what was read.
#[derive(Debug)]
pub struct BoundSearchPath {
    before: Arc<ElfObject>,
    after: Arc<ElfObject>,
}

impl BoundSearchPath {
    /// DT_RPATH or DT_RUNPATH today.
    pub fn before(&self) -> &OsStr {
        self.before.search_path()
    }

    /// The same once bound: empty, where it is removed.
    pub fn after(&self) -> &OsStr {
        self.after.search_path()
    }
}

/// What binding does to one start.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct Effect {
    /// The program, or the library.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub path: PathBuf,
    /// Objects that it loads, itself included.
    pub objects: usize,
    /// Calls that search, today.
    pub before: Counts,
    /// Calls that search, once bound.
    pub after: Counts,
    /// Names that are not found today, nor afterwards.
    pub not_found: Vec<String>,
    /// Of a program: what its loader is spared. None where that was not asked for, and where a farm is searched
    /// in vain before a list that stays.
    #[serde(skip)]
    pub spared: Option<SparedLookups>,
}

/// A name that is left to the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameLeft {
    /// The file that needs it.
    pub file: PathBuf,
    /// The name.
    pub name: OsString,
    /// Why, in words.
    pub reason: &'static str,
}

/// A name in a file that two programs find in two places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The file that needs it.
    pub file: PathBuf,
    /// The name.
    pub name: OsString,
    /// Two programs, and what each finds; none if it finds nothing.
    pub sides: [(PathBuf, Option<PathBuf>); 2],
}

/// Plans how to bind the ELF files at and below `paths`.
///
/// # Errors
/// [`BindError`]. A file that cannot be bound is no error: it is left out, with the reason.
pub fn plan(
    world: &dyn World,
    paths: &[PathBuf],
    options: &BindOptions,
    progress: &(dyn Fn(BindProgress) + Sync),
) -> Result<Binding, BindError> {
    let checked = remedy::CheckedFiles::of_many();
    threads::on_threads(|| attempt::plan(world, checked, paths, options, progress))
}
