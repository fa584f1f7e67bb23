//! One thing that is wrong, or that costs.

use recording::Name;
use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
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

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 24] = [
        Rule::MissingModulepath,
        Rule::NoDirectory,
        Rule::OddModulepath,
        Rule::Network,
        Rule::TooLarge,
        Rule::Loop,
        Rule::Special,
        Rule::Stray,
        Rule::Lua,
        Rule::Dangling,
        Rule::Unreadable,
        Rule::NewerCookie,
        Rule::RcWithoutCookie,
        Rule::MovableRc,
        Rule::BrokenRc,
        Rule::BreakingName,
        Rule::Crowded,
        Rule::Ignored,
        Rule::UntrustedCache,
        Rule::StaleCache,
        Rule::BrokenCache,
        Rule::DisclosingCache,
        Rule::ForeignCache,
        Rule::UnusedCache,
    ];

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Rule::MissingModulepath => "missing_modulepath",
            Rule::NoDirectory => "no_directory",
            Rule::OddModulepath => "odd_modulepath",
            Rule::Network => "network",
            Rule::TooLarge => "too_large",
            Rule::Loop => "loop",
            Rule::Special => "special",
            Rule::Stray => "stray",
            Rule::Lua => "lua",
            Rule::Dangling => "dangling",
            Rule::Unreadable => "unreadable",
            Rule::NewerCookie => "newer_cookie",
            Rule::RcWithoutCookie => "rc_without_cookie",
            Rule::MovableRc => "movable_rc",
            Rule::BrokenRc => "broken_rc",
            Rule::BreakingName => "breaking_name",
            Rule::Crowded => "crowded",
            Rule::Ignored => "ignored",
            Rule::UntrustedCache => "untrusted_cache",
            Rule::StaleCache => "stale_cache",
            Rule::BrokenCache => "broken_cache",
            Rule::DisclosingCache => "disclosing_cache",
            Rule::ForeignCache => "foreign_cache",
            Rule::UnusedCache => "unused_cache",
        }
    }

    /// How bad it is.
    pub fn level(self) -> Level {
        match self {
            Rule::NoDirectory
            | Rule::TooLarge
            | Rule::Loop
            | Rule::Special
            | Rule::BrokenRc
            | Rule::BreakingName
            | Rule::UntrustedCache
            | Rule::StaleCache
            | Rule::BrokenCache
            | Rule::DisclosingCache
            | Rule::ForeignCache => Level::Error,
            Rule::MissingModulepath
            | Rule::Stray
            | Rule::Lua
            | Rule::Dangling
            | Rule::NewerCookie
            | Rule::RcWithoutCookie
            | Rule::MovableRc
            | Rule::Crowded
            | Rule::UnusedCache => Level::Warning,
            Rule::OddModulepath | Rule::Network | Rule::Unreadable | Rule::Ignored => Level::Note,
        }
    }

    /// What it is, in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Rule::MissingModulepath => "a modulepath that is not there",
            Rule::NoDirectory => "a modulepath that is no directory",
            Rule::OddModulepath => "a modulepath that is not the same everywhere",
            Rule::Network => "a modulepath on a filesystem that is served over a network",
            Rule::TooLarge => "a tree with more names than were looked at",
            Rule::Loop => "a link to a directory that it lies in: walked some 40 times over",
            Rule::Special => "a FIFO, socket or device: to open a FIFO waits for ever",
            Rule::Stray => "a file that is no modulefile: read by every avail, shown by none",
            Rule::Lua => "a modulefile of Lmod, which Environment Modules reads and ignores",
            Rule::Dangling => "a link to nothing: asked for by every avail",
            Rule::Unreadable => "a file or directory that a user may not read",
            Rule::NewerCookie => "a cookie that asks for a newer Modules: not shown, not loadable",
            Rule::RcWithoutCookie => "an rc file without a cookie: ignored by avail",
            Rule::MovableRc => "an rc file that could be lines of the modulepath's own",
            Rule::BrokenRc => "an rc file that Tcl cannot read to its end",
            Rule::BreakingName => {
                "an rc file in a directory with an open brace in its name: 5.2 fails, later ones pass over it"
            }
            Rule::Crowded => "a directory with hundreds of files: load reads them all",
            Rule::Ignored => "a name that Modules asks about and ignores",
            Rule::UntrustedCache => {
                "a cache with code in it, or that others may write: each command runs it"
            }
            Rule::StaleCache => "a cache that is older than what it describes",
            Rule::BrokenCache => "a cache that ends in the middle, or is none",
            Rule::DisclosingCache => "a cache that tells what not everyone may read",
            Rule::ForeignCache => "a cache that another release of Modules built",
            Rule::UnusedCache => "a cache that Modules does not use, or that cannot be checked",
        }
    }

    /// What to do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Rule::MissingModulepath => "take it out of MODULEPATH",
            Rule::NoDirectory => "take it out of MODULEPATH, or make it a directory",
            Rule::OddModulepath => "write it as an absolute path",
            Rule::Network => "have an index answer: becalm modules index",
            Rule::TooLarge => "name a modulepath, not a filesystem's root",
            Rule::Loop => "remove the link",
            Rule::Special => "remove it",
            Rule::Stray => "move it out of the modulepath: becalm modules tidy",
            Rule::Lua => "keep trees for Lmod and for Environment Modules apart",
            Rule::Dangling => "remove the link",
            Rule::Unreadable => "none is needed if it is meant to be private",
            Rule::NewerCookie => "ask for the Modules that the file needs, or upgrade",
            Rule::RcWithoutCookie => "begin it with #%Module",
            Rule::MovableRc => "becalm modules tidy",
            Rule::BrokenRc => "close its braces and quotes",
            Rule::BreakingName => "rename the directory",
            Rule::Crowded => "remove old versions, or give them a modulepath of their own",
            Rule::Ignored => "move it out of the modulepath: becalm modules tidy",
            Rule::UntrustedCache => "remove it, and see who wrote it; becalm modules cache build",
            Rule::StaleCache | Rule::BrokenCache | Rule::DisclosingCache | Rule::ForeignCache => {
                "becalm modules cache build"
            }
            Rule::UnusedCache => "becalm modules cache check says why",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFinding {
    /// Which rule.
    pub rule: Rule,
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
