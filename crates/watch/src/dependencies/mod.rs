//! What one process depended on up to its end, or up to the first call that cannot be repeated.
//!
//! The command runs in a child of this process, under a seccomp filter that stops it only at calls
//! that ask for something (`calls`). A filter cannot be taken away again. So nothing comes of the
//! child but what is kept of it: what it writes is not written, and before a call that cannot be
//! repeated it is killed. This process gives its answer, or becomes the command itself, with all
//! its rights.

mod answered;
mod asked;
mod attributes;
mod by_descriptor;
mod by_path;
mod calls;
mod children;
mod contents;
mod cpu;
mod filled;
mod fold;
mod follow;
mod held;
mod links;
mod notes;
mod policy;
mod process;
mod returned;
mod settled;
mod start;
mod temporary;
mod ways;

pub use asked::{AnswerDependency, descriptor_kind};
pub use attributes::StatAttributes;
pub use fold::folded;
pub use held::GOES_ON;
pub use notes::unescaped_note;
pub use process::StartedProgram;
pub use settled::has_times_of_an_image;
pub use start::{
    FileInPlace, FollowRefused, FollowedProgram, InPlaceOf, executes_as_itself, follow,
};

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

/// Why a command was not followed to its end.
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
    /// Why the next time it may be otherwise, though it has ended.
    pub disturbed: Option<String>,
    /// How it ended, or why it was killed before.
    pub end: Result<Ended, LeftBecause>,
}
