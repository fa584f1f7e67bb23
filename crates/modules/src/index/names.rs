//! What one modulepath holds.

use std::borrow::Cow;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use crate::tree::{ChangeStamp, Cookie};

/// All that `avail` shows of a modulepath, for any release and any user. Names are from the
/// modulepath on, plain ASCII.
///
/// Of 20,000 names, copies would be the most of the time: those that are read borrow from what
/// they are read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexNames<'a> {
    /// The modulepath, absolute.
    pub root: String,
    /// Its directories, itself first, with an empty name.
    #[serde(borrow)]
    pub directories: Vec<IndexDirectory<'a>>,
    /// Its rc files.
    pub rcs: Vec<RcFile>,
    /// What files begin with.
    pub cookies: Vec<Cookie>,
    /// Files that everyone may read, be they modulefiles or not, in the order of
    /// [`crate::tcl::dictionary`].
    #[serde(borrow)]
    pub files: Vec<FileName<'a>>,
    /// What not everyone may read, or is behind a link: each user has to look.
    pub limited: Vec<Limited>,
    /// `.modulecache`, which said the same as the tree when the index was made. None if there is
    /// none.
    pub cache: Option<PathState>,
    /// For how many seconds after it was written the index is taken without a look at the tree.
    pub lease: u32,
}

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDirectory<'a> {
    /// Its name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// Its state: another one once a name in it came or went.
    pub seen: PathState,
}

/// An rc file, as what it defines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RcFile {
    /// Its name, `gcc/.modulerc`.
    pub name: String,
    /// Its state: another one once it was written.
    pub seen: PathState,
    /// What it begins with: a release that is too old for it evaluates nothing of it.
    pub cookie: Cookie,
    /// What it defines, in its order.
    pub rules: Vec<RcDefinition>,
}

/// A definition of an rc file, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RcDefinition {
    /// `set ModulesVersion VERSION` of a `.version`.
    Default(String),
    /// `module-version MODULE SYMBOL…`
    Symbols {
        /// The module.
        module: String,
        /// Its symbols.
        symbols: Vec<String>,
    },
    /// `module-virtual NAME FILE`
    Virtual {
        /// The module's name.
        name: String,
        /// Its file, absolute; everyone may read it.
        file: String,
        /// What it begins with.
        cookie: Cookie,
        /// Its state.
        seen: PathState,
    },
    /// `module-alias NAME MODULE`
    Alias {
        /// The alias.
        name: String,
        /// What it means.
        module: String,
    },
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileName<'a> {
    /// Its name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// What it begins with: which of [`IndexNames::cookies`].
    pub cookie: u32,
    /// When anything of it changed, in nanoseconds since 1970.
    pub changed: i64,
}

/// A file or directory that each user has to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limited {
    /// Its name.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// The state of a file or directory, as far as a change of it shows. Times are in nanoseconds since
/// 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathState {
    /// The device.
    pub device: u64,
    /// The inode's number.
    pub inode: u64,
    /// When its content changed.
    pub modified: i64,
    /// When anything of it changed.
    pub changed: i64,
}

impl From<&ChangeStamp> for PathState {
    fn from(stamp: &ChangeStamp) -> PathState {
        // Until the year 2262.
        let nanos = |time: i128| i64::try_from(time).unwrap_or(i64::MAX);
        PathState {
            device: stamp.device,
            inode: stamp.inode,
            modified: nanos(stamp.modified),
            changed: nanos(stamp.changed),
        }
    }
}

impl From<&std::fs::Metadata> for PathState {
    fn from(about: &std::fs::Metadata) -> PathState {
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000) + nanos;
        PathState {
            device: about.dev(),
            inode: about.ino(),
            modified: nanos(about.mtime(), about.mtime_nsec()),
            changed: nanos(about.ctime(), about.ctime_nsec()),
        }
    }
}

impl IndexNames<'_> {
    /// The place of a cookie among [`IndexNames::cookies`].
    pub(crate) fn cookie(&mut self, cookie: Cookie) -> u32 {
        let known = self.cookies.iter().position(|known| *known == cookie);
        let at = known.unwrap_or_else(|| {
            self.cookies.push(cookie);
            self.cookies.len() - 1
        });
        at as u32
    }
}
