//! Tidying modulepaths: the steps of Modules' cookbook 'Reduce I/O load', where they change
//! nobody's view and make no `load` slower, as a plan for `remedy`; and the proof that they did.
//!
//! | file | what it holds |
//! |---|---|
//! | `users` | whose view must stay the same |
//! | `plan` | from trees, as several users see them, to a [`Tidying`] |
//! | `shelf` | one modulepath while it is planned for: its names, and what it has at its root |
//! | `everyone` | whether a file is for everyone |
//! | `merge` | rc files whose definitions may stand in the modulepath's root as well |
//! | `elsewhere` | what rc files that are not read may be about |
//! | `budget` | what merging saves `avail`, and what it costs `load` |
//! | `reads` | what modulefiles may read of a modulepath: files that must stay |
//! | `script` | the text of a modulefile: words, commands, paths |
//! | `strays` | files that are no modulefiles, moved out |
//! | `hide` | what must be hidden where Modules no longer looks for cookies |
//! | `virtual_path` | a modulepath of virtual modules |
//! | `steps` | a [`Tidying`] as steps for `remedy` |
//! | `question` | what users are to be answered as before |
//! | `survey` | the answers, and what they cost, as several users get them |
//! | `verdict` | two surveys: whether anybody sees or waits otherwise |

mod budget;
mod elsewhere;
mod everyone;
mod hide;
mod merge;
mod plan;
mod question;
mod reads;
mod script;
mod shelf;
mod spelled;
mod steps;
mod strays;
mod survey;
mod users;
mod verdict;
mod virtual_path;

use std::ffi::OsString;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use crate::site::User;
use crate::tree::{ModulepathTree, WalkLimits, walk};

pub use plan::{Ground, plan};
pub use question::CheckedCommand;
pub use survey::{Asking, CommandOutput, CommandSurvey, Effort, MeasuredCommand, SurveyError};
pub use users::{caller, whom_to_ask};
pub use verdict::{CostChange, OutputDifference, TidyVerdict};

/// What to do.
#[derive(Clone, Debug, Default)]
pub struct TidyOptions {
    /// Leave strays where they are.
    pub keep_strays: bool,
    /// The directory that strays are moved to; without one, `PATH.strays` beside each modulepath.
    pub strays: Option<PathBuf>,
    /// Plan for `mcookie_check` set to `eval`: what then must be hidden is.
    pub no_cookie_checks: bool,
    /// Make virtual modulepaths in this directory, and leave the modulepaths as they are.
    pub virtual_in: Option<PathBuf>,
    /// Go on even where a `load` takes more calls or time from then on.
    pub slower_load: bool,
    /// Modulepaths that are looked at with the others, and in which nothing is changed.
    pub left_alone: Vec<PathBuf>,
}

/// Modulepaths as a user sees them.
#[derive(Clone, Debug)]
pub struct TidyView {
    /// Who.
    pub user: User,
    /// The modulepaths, in their order.
    pub trees: Vec<ModulepathTree>,
}

impl TidyView {
    /// What the user sees of the modulepaths.
    ///
    /// This forks: call it while the process has one thread.
    ///
    /// # Errors
    /// If the user cannot be asked.
    pub fn of(user: &User, roots: &[PathBuf]) -> Result<TidyView, crate::site::UserError> {
        let walk_all = || roots.iter().map(|root| walk(root, WalkLimits::default())).collect();
        let trees: Vec<ModulepathTree> = user.play(&launch::Stage::new(), walk_all)?;
        Ok(TidyView { user: user.clone(), trees })
    }
}

/// What is to be done, why so, and what is left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Tidying {
    /// Rc files whose definitions move to the root of their modulepath.
    pub merged: Vec<MergedRcFile>,
    /// Strays that move out.
    pub moved: Vec<MovedStray>,
    /// Files that are hidden, because Modules would show them to whom it does not today.
    pub hidden: Vec<Hidden>,
    /// Modulepaths of virtual modules, to be used instead.
    pub virtuals: Vec<Virtual>,
    /// Root rc files that are made, or get lines at their end.
    #[serde(skip)]
    pub roots: Vec<RootRc>,
    /// What stays as it is, and why.
    pub kept: Vec<Kept>,
    /// Variables that a site must set to have the gain: also what the proof runs with.
    pub environment: Vec<(String, String)>,
    /// The modulepath to use from then on, in its order.
    #[serde(serialize_with = "recording::serialize_all_shown")]
    #[schemars(with = "Vec<recording::Name>")]
    pub modulepath: Vec<PathBuf>,
    /// The calls on the tree that a plain `avail` is expected to save.
    pub saved_calls: u64,
    /// The same of each modulepath.
    #[serde(skip)]
    pub saved_in: Vec<(PathBuf, u64)>,
    /// What may go wrong, one sentence each.
    pub risks: Vec<String>,
}

/// An rc file whose definitions move to the root of its modulepath.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MergedRcFile {
    /// The file; it is removed.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub path: PathBuf,
    /// The rc file at the root.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub into: PathBuf,
    /// The lines that stand there instead.
    pub lines: Vec<String>,
}

/// A stray that moves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MovedStray {
    /// From where.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub from: PathBuf,
    /// To where.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub to: PathBuf,
    /// Its permissions.
    #[serde(skip)]
    pub mode: u32,
    /// Its content.
    #[serde(skip)]
    pub content: Vec<u8>,
}

/// A file that is hidden.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hidden {
    /// The file.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub path: PathBuf,
    /// The line that hides it.
    pub line: String,
    /// Why nobody misses it.
    pub why: &'static str,
}

/// A modulepath of virtual modules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Virtual {
    /// The directory; it holds nothing but an rc file.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub path: PathBuf,
    /// The modulepath that it stands for.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub instead_of: PathBuf,
    /// How many modules it has.
    pub modules: usize,
    /// Its rc file.
    #[serde(skip)]
    pub content: Vec<u8>,
}

/// The rc file at a modulepath's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootRc {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes, if it is there.
    pub there: Option<u64>,
    /// What it gets: the whole content of a new file, else what is added at its end.
    pub text: Vec<u8>,
}

/// What stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Kept {
    /// Which file, or which modulepath.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub path: PathBuf,
    /// What it is.
    pub what: TidySubject,
    /// Why it stays.
    pub reason: String,
}

/// What a tidying is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TidySubject {
    /// An rc file.
    Rc,
    /// A file that is no modulefile.
    Stray,
    /// The check of cookies.
    CookieCheck,
    /// A virtual modulepath.
    Virtual,
}

impl Tidying {
    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
            && self.moved.is_empty()
            && self.virtuals.is_empty()
            && self.environment.is_empty()
    }

    /// The modulepath to use from then on, as `$MODULEPATH` has it.
    pub fn modulepath_text(&self) -> OsString {
        let paths: Vec<_> = self.modulepath.iter().map(|path| path.as_os_str()).collect();
        paths.join(std::ffi::OsStr::new(":"))
    }
}
