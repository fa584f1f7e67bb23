//! What one process depended on up to its end, or up to the first call that cannot be repeated.
//!
//! The command stays the process that it would be without becalm: this process forks a tracer
//! beside itself, which follows it call by call, and then becomes the command. So nobody passes
//! signals, stops or exit statuses on. There is no seccomp filter, which could not be taken away
//! again: before a call that cannot be repeated, the tracer lets go, and the command runs on with
//! all its rights.

mod asked;
mod attributes;
mod by_descriptor;
mod by_path;
mod children;
mod contents;
mod filled;
mod fold;
mod follow;
mod notes;
mod policy;
mod process;
mod returned;
mod settled;
mod start;
mod temporary;

pub use asked::{AnswerDependency, descriptor_kind};
pub use attributes::StatAttributes;
pub use fold::folded;
pub use notes::unescaped_note;
pub use process::StartedProgram;
pub use settled::has_times_of_an_image;
pub use start::{FollowRefused, FollowedProgram, executes_as_itself, follow_this_process};

use launch::Ended;

/// Which stream of the command something was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum WrittenTo {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2.
    Stderr,
    /// A pipe to a program that shows it to the user.
    Pager,
    /// Nowhere: that program has ended, and was waited for.
    PagerEnded,
}

/// Why a command was let go of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftBecause {
    /// It was about to do what cannot be repeated. It would again, as long as what it depended on
    /// up to there stays as it is.
    Unrepeatable(String),
    /// It was disturbed: the next time, it may be otherwise.
    Disturbed(String),
}

/// What was seen of a command.
#[derive(Clone, Debug)]
pub struct DependencyTrace {
    /// What it asked for, and what it was told, in order, each once.
    pub dependencies: Vec<AnswerDependency>,
    /// The notes that it left: what came after [`TOLD`](crate::TOLD) in paths that it looked up.
    pub notes: Vec<Vec<u8>>,
    /// The programs that it has started.
    pub programs: Vec<StartedProgram>,
    /// What it wrote, in order.
    pub output: Vec<(WrittenTo, Vec<u8>)>,
    /// How it ended, or why it was let go of before.
    pub end: Result<Ended, LeftBecause>,
}
