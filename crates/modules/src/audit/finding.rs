//! One thing that is wrong, or that costs.

use recording::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know; nothing is wrong.
    Note,
    /// It costs, or does not do what its author meant.
    Warning,
    /// Commands hang, give wrong answers, or run what somebody else wrote.
    Error,
}

/// What is looked for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AuditRule {
    /// A modulepath that is not there.
    MissingModulepath,
    /// A modulepath that is no directory.
    NoDirectory,
    /// A modulepath that depends on the working directory or on variables.
    OddModulepath,
    /// A modulepath on a filesystem that is served over a network.
    Network,
    /// A tree with more names than were looked at.
    TooLarge,
    /// A link to a directory that it lies in.
    Loop,
    /// A FIFO, socket or device.
    Special,
    /// A file without a cookie.
    Stray,
    /// A modulefile of Lmod, in a tree that Environment Modules reads.
    Lua,
    /// A link to nothing.
    Dangling,
    /// A file or directory that a user may not read.
    Unreadable,
    /// A cookie that asks for a newer Modules.
    NewerCookie,
    /// An rc file without a cookie: Modules ignores it in `avail`.
    RcWithoutCookie,
    /// An rc file that could be lines of the modulepath's own.
    MovableRc,
    /// An rc file that is no Tcl.
    BrokenRc,
    /// An rc file whose path has a brace in it that is not closed: it ends every `avail` of 5.2
    /// with an error.
    BreakingName,
    /// A directory with hundreds of files.
    Crowded,
    /// A name that Modules asks about and ignores: a backup, `.git`.
    Ignored,
    /// A cache with more in it than a cache has, or that somebody else may write.
    UntrustedCache,
    /// A cache that is older than what it describes.
    StaleCache,
    /// A cache that ends in the middle, or is none.
    BrokenCache,
    /// A cache that tells what not everyone may read.
    DisclosingCache,
    /// A cache that another release built, and that this one reads differently.
    ForeignCache,
    /// A cache that Modules does not use, or that cannot be checked.
    UnusedCache,
}

impl AuditRule {
    /// All of them.
    pub const ALL: [AuditRule; 24] = [
        AuditRule::MissingModulepath,
        AuditRule::NoDirectory,
        AuditRule::OddModulepath,
        AuditRule::Network,
        AuditRule::TooLarge,
        AuditRule::Loop,
        AuditRule::Special,
        AuditRule::Stray,
        AuditRule::Lua,
        AuditRule::Dangling,
        AuditRule::Unreadable,
        AuditRule::NewerCookie,
        AuditRule::RcWithoutCookie,
        AuditRule::MovableRc,
        AuditRule::BrokenRc,
        AuditRule::BreakingName,
        AuditRule::Crowded,
        AuditRule::Ignored,
        AuditRule::UntrustedCache,
        AuditRule::StaleCache,
        AuditRule::BrokenCache,
        AuditRule::DisclosingCache,
        AuditRule::ForeignCache,
        AuditRule::UnusedCache,
    ];

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            AuditRule::MissingModulepath => "missing_modulepath",
            AuditRule::NoDirectory => "no_directory",
            AuditRule::OddModulepath => "odd_modulepath",
            AuditRule::Network => "network",
            AuditRule::TooLarge => "too_large",
            AuditRule::Loop => "loop",
            AuditRule::Special => "special",
            AuditRule::Stray => "stray",
            AuditRule::Lua => "lua",
            AuditRule::Dangling => "dangling",
            AuditRule::Unreadable => "unreadable",
            AuditRule::NewerCookie => "newer_cookie",
            AuditRule::RcWithoutCookie => "rc_without_cookie",
            AuditRule::MovableRc => "movable_rc",
            AuditRule::BrokenRc => "broken_rc",
            AuditRule::BreakingName => "breaking_name",
            AuditRule::Crowded => "crowded",
            AuditRule::Ignored => "ignored",
            AuditRule::UntrustedCache => "untrusted_cache",
            AuditRule::StaleCache => "stale_cache",
            AuditRule::BrokenCache => "broken_cache",
            AuditRule::DisclosingCache => "disclosing_cache",
            AuditRule::ForeignCache => "foreign_cache",
            AuditRule::UnusedCache => "unused_cache",
        }
    }

    /// How bad it is.
    pub fn level(self) -> Level {
        match self {
            AuditRule::NoDirectory
            | AuditRule::TooLarge
            | AuditRule::Loop
            | AuditRule::Special
            | AuditRule::BrokenRc
            | AuditRule::BreakingName
            | AuditRule::UntrustedCache
            | AuditRule::StaleCache
            | AuditRule::BrokenCache
            | AuditRule::DisclosingCache
            | AuditRule::ForeignCache => Level::Error,
            AuditRule::MissingModulepath
            | AuditRule::Stray
            | AuditRule::Lua
            | AuditRule::Dangling
            | AuditRule::NewerCookie
            | AuditRule::RcWithoutCookie
            | AuditRule::MovableRc
            | AuditRule::Crowded
            | AuditRule::UnusedCache => Level::Warning,
            AuditRule::OddModulepath
            | AuditRule::Network
            | AuditRule::Unreadable
            | AuditRule::Ignored => Level::Note,
        }
    }

    /// What it is, in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            AuditRule::MissingModulepath => "a modulepath that is not there",
            AuditRule::NoDirectory => "a modulepath that is no directory",
            AuditRule::OddModulepath => "a modulepath that is not the same everywhere",
            AuditRule::Network => "a modulepath on a filesystem that is served over a network",
            AuditRule::TooLarge => "a tree with more names than were looked at",
            AuditRule::Loop => "a link to a directory that it lies in: walked some 40 times over",
            AuditRule::Special => "a FIFO, socket or device: to open a FIFO waits for ever",
            AuditRule::Stray => "a file that is no modulefile: read by every avail, shown by none",
            AuditRule::Lua => "a modulefile of Lmod, which Environment Modules reads and ignores",
            AuditRule::Dangling => "a link to nothing: asked for by every avail",
            AuditRule::Unreadable => "a file or directory that a user may not read",
            AuditRule::NewerCookie => {
                "a cookie that asks for a newer Modules: not shown, not loadable"
            }
            AuditRule::RcWithoutCookie => "an rc file without a cookie: ignored by avail",
            AuditRule::MovableRc => "an rc file that could be lines of the modulepath's own",
            AuditRule::BrokenRc => "an rc file that Tcl cannot read to its end",
            AuditRule::BreakingName => {
                "an rc file in a directory with an open brace in its name: 5.2 fails, later ones pass over it"
            }
            AuditRule::Crowded => "a directory with hundreds of files: load reads them all",
            AuditRule::Ignored => "a name that Modules asks about and ignores",
            AuditRule::UntrustedCache => {
                "a cache with code in it, or that others may write: each command runs it"
            }
            AuditRule::StaleCache => "a cache that is older than what it describes",
            AuditRule::BrokenCache => "a cache that ends in the middle, or is none",
            AuditRule::DisclosingCache => "a cache that tells what not everyone may read",
            AuditRule::ForeignCache => "a cache that another release of Modules built",
            AuditRule::UnusedCache => {
                "a cache that Modules does not use, or that cannot be checked"
            }
        }
    }

    /// What to do about it. What ends with a command of becalm's goes on with the modulepaths.
    pub fn advice(self) -> &'static str {
        match self {
            AuditRule::MissingModulepath => "take it out of MODULEPATH",
            AuditRule::NoDirectory => "take it out of MODULEPATH, or make it a directory",
            AuditRule::OddModulepath => "write it as an absolute path",
            AuditRule::Network => "have an index answer: becalm modules index",
            AuditRule::TooLarge => "name a modulepath, not a filesystem's root",
            AuditRule::Loop => "remove the link",
            AuditRule::Special => "remove it",
            AuditRule::Stray => "move it out of the modulepath: becalm modules tidy",
            AuditRule::Lua => "keep trees for Lmod and for Environment Modules apart",
            AuditRule::Dangling => "remove the link",
            AuditRule::Unreadable => "none is needed if it is meant to be private",
            AuditRule::NewerCookie => "ask for the Modules that the file needs, or upgrade",
            AuditRule::RcWithoutCookie => "begin it with #%Module",
            AuditRule::MovableRc => "becalm modules tidy",
            AuditRule::BrokenRc => "close its braces and quotes",
            AuditRule::BreakingName => "rename the directory",
            AuditRule::Crowded => "remove old versions, or give them a modulepath of their own",
            AuditRule::Ignored => "move it out of the modulepath: becalm modules tidy",
            AuditRule::UntrustedCache => {
                "remove it, and see who wrote it; becalm modules cache build"
            }
            AuditRule::StaleCache
            | AuditRule::BrokenCache
            | AuditRule::DisclosingCache
            | AuditRule::ForeignCache => "becalm modules cache build",
            AuditRule::UnusedCache => "see why: becalm modules cache check",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditFinding {
    /// Which rule.
    pub rule: AuditRule,
    /// How bad it is.
    pub level: Level,
    /// The modulepath.
    pub modulepath: Name,
    /// The file or directory.
    pub path: Name,
    /// The line in it, from 1, if it is about one.
    pub line: Option<usize>,
    /// What there is to say of this one.
    pub text: String,
    /// What every `avail` pays for it: system calls on the tree.
    pub calls: u64,
    /// The users whom it concerns, if it does not concern all.
    pub users: Vec<String>,
}
