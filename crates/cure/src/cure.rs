//! A cure, as data. docs/schema/becalm.check.md describes the JSON.

use explain::{SourcePath, Storm};
use recording::Name;
use serde::Serialize;

/// One change that calms a storm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cure {
    /// The storm.
    pub storm: Storm,
    /// What to do, and what to expect of it.
    pub text: String,
    /// The command to paste; none where it is an edit.
    pub command: Option<String>,
    /// Who must do it.
    pub actor: CureActor,
    /// What it changes.
    pub change: CureChange,
    /// What it takes away, where the recording tells.
    pub predicted: Option<TakenAway>,
}

/// What a cure changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CureChange {
    /// Files name their libraries by full path; it can be undone.
    BindFiles {
        /// The files.
        files: Vec<SourcePath>,
    },
    /// An image is built of a directory, and the command launched with it mounted there.
    MountImage {
        /// The directory.
        directory: SourcePath,
    },
    /// The command is launched with builtins for bash.
    RunBuiltins {
        /// Processes that bash then does without.
        processes: u64,
    },
    /// A line of a script.
    EditLine {
        /// The script; none of text that came from no file.
        file: Option<SourcePath>,
        /// The line, from 1.
        line: u32,
        /// What stands there.
        instead_of: String,
        /// What to write in its place.
        write: String,
    },
    /// Programs are named by their full path.
    NameFullPaths {
        /// The programs.
        programs: Vec<CommandPath>,
    },
    /// The command is launched with an environment variable.
    SetVariable {
        /// Its name.
        variable: String,
        /// Its value.
        value: String,
    },
}

/// A program and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandPath {
    /// The name that is searched for.
    pub command: Name,
    /// The file.
    pub path: SourcePath,
}

/// Who must do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CureActor {
    /// Who may write to the files.
    Owner,
    /// Who launches the command.
    Launcher,
    /// Who writes the script or the program.
    Author,
}

/// What a cure takes away from this start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TakenAway {
    /// Metadata operations.
    pub metadata_ops: u64,
    /// Of those, failed lookups, where that is known.
    pub enoent: Option<u64>,
}

/// Where to look before anything is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CloserLook {
    /// The storm.
    pub storm: Storm,
    /// What there is to see.
    pub text: String,
    /// The command to paste, if it takes one.
    pub command: Option<String>,
}

/// What can be done about one storm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StormCures {
    /// What would calm it, the best first. Empty: nothing that is certain to.
    pub cures: Vec<Cure>,
    /// What shows more of it.
    pub looks: Vec<CloserLook>,
}

impl StormCures {
    /// Sentences and commands in the order in which a person tries them: cures, then looks.
    pub fn steps(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let cures = self.cures.iter().map(|cure| (&*cure.text, cure.command.as_deref()));
        cures.chain(self.looks.iter().map(|look| (&*look.text, look.command.as_deref())))
    }
}
