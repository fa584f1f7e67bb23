//! A cure, as data. docs/schema/becalm.check.md describes the JSON.

use explain::{SourcePath, Storm};
use recording::Name;
use schemars::JsonSchema;
use serde::Serialize;

use crate::prediction::{CureEffect, CurePrediction};

/// One change that calms a storm.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cure {
    /// The storm.
    pub storm: Storm,
    /// What to do, and what to expect of it.
    pub text: String,
    /// The command to paste; none where it is an edit.
    pub command: Option<String>,
    /// Who must do it.
    pub actor: CureActor,
    /// The user name of the files' owner, where it is the owner who must do it.
    pub owner: Option<String>,
    /// What it changes.
    pub change: CureChange,
    /// What could go wrong; none where nothing can that is not seen and taken back.
    pub risk: Option<String>,
    /// What this start does before and after it. What has none is no cure.
    pub predicted: CurePrediction,
    /// What it takes from the recorded start, for predictions of several cures together.
    #[serde(skip)]
    pub(crate) effect: CureEffect,
}

impl Cure {
    /// Whether `becalm fix --apply` does it for this user.
    pub fn is_appliable(&self) -> bool {
        self.actor == CureActor::You && self.change.is_appliable()
    }

    /// Whether it is the cure that another one is, and more: `becalm fix` does it where it is told to.
    pub fn goes_further(&self) -> bool {
        matches!(self.change, CureChange::GrowFiles { .. })
    }
}

/// What a cure changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CureChange {
    /// Files name their libraries by full path; it can be undone.
    BindFiles {
        /// The files that change.
        files: Vec<SourcePath>,
    },
    /// The same, where files that have no room for the paths grow by a segment.
    GrowFiles {
        /// The files that change.
        files: Vec<SourcePath>,
    },
    /// The command is launched with copies of files shown in their place, which name their libraries
    /// by full path: the files stay as they are.
    ShowBoundCopies {
        /// The files that are copied.
        files: Vec<SourcePath>,
    },
    /// An image is built of directories, and the command launched with it mounted there.
    MountImage {
        /// The directories.
        directories: Vec<SourcePath>,
    },
    /// The command is launched with builtins for bash.
    RunBuiltins {
        /// Processes that bash then does without.
        processes: u64,
    },
    /// The command is launched with an environment variable.
    SetVariable {
        /// Its name.
        variable: String,
        /// Its value.
        value: String,
    },
    /// The module tool's own caches are built in modulepaths.
    BuildModuleCache {
        /// The modulepaths.
        modulepaths: Vec<SourcePath>,
    },
    /// becalm's index of modulepaths is made, and this shell asks it first.
    IndexModules {
        /// The modulepaths.
        modulepaths: Vec<SourcePath>,
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
    /// What the start touches is read while the command starts.
    ReadAhead {
        /// How many files.
        files: u64,
        /// How many bytes of them.
        bytes: u64,
    },
    /// The program is started from one file, which holds its loader's work.
    StartFromPack {
        /// The program.
        program: SourcePath,
        /// How many libraries its loader then neither searches nor maps.
        libraries: u64,
    },
    /// Files are stored as one.
    PackFiles {
        /// The directory that they lie below.
        directory: SourcePath,
        /// How many.
        files: u64,
    },
    /// git is told otherwise, in its repository.
    SetGit {
        /// The setting, which becomes true.
        setting: String,
    },
    /// Directories of a list are given in another order, by who writes the list.
    OrderDirectories {
        /// All that the list gives, in the order that takes least.
        directories: Vec<SourcePath>,
    },
    /// Directories are taken out of a list.
    DropDirectories {
        /// Those in which nothing was found.
        directories: Vec<SourcePath>,
    },
    /// What is in the directories of a list is put into one.
    MergeDirectories {
        /// All that the list gives.
        directories: Vec<SourcePath>,
    },
    /// Programs are named by their full path.
    NameFullPaths {
        /// The programs.
        programs: Vec<CommandPath>,
    },
}

impl CureChange {
    /// Whether `becalm fix --apply` knows how.
    pub fn is_appliable(&self) -> bool {
        matches!(self, CureChange::BindFiles { .. }) || self.is_of_launch()
    }

    /// Whether it is done each time the command is launched: what a calm file holds.
    pub fn is_of_launch(&self) -> bool {
        matches!(
            self,
            CureChange::ShowBoundCopies { .. }
                | CureChange::MountImage { .. }
                | CureChange::RunBuiltins { .. }
                | CureChange::SetVariable { .. }
        )
    }
}

/// A program and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CommandPath {
    /// The name that is searched for.
    pub command: Name,
    /// The file.
    pub path: SourcePath,
}

/// Who must do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CureActor {
    /// Who reads it.
    You,
    /// Who may write to the files: [`Cure::owner`].
    Owner,
    /// The administrator.
    Root,
    /// Who writes the script or the program.
    Author,
}

/// Where to look before anything is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CloserLook {
    /// The storm.
    pub storm: Storm,
    /// What there is to see.
    pub text: String,
    /// The command to paste, if it takes one.
    pub command: Option<String>,
}

/// What one might do about a storm, and should not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusedCure {
    /// The storm.
    pub storm: Storm,
    /// What one might do.
    pub text: String,
    /// Why not.
    pub why: String,
}

/// What can be done about one storm.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StormCures {
    /// What would calm it, the best for this user on this machine first. Empty: nothing that is
    /// certain to.
    pub cures: Vec<Cure>,
    /// What shows more of it.
    pub looks: Vec<CloserLook>,
    /// What a reader may think of, and why it is no cure here.
    pub not_chosen: Vec<RefusedCure>,
}

impl StormCures {
    /// Sentences and commands in the order in which a person tries them: cures, then looks.
    pub fn steps(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let cures = self.cures.iter().map(|cure| (&*cure.text, cure.command.as_deref()));
        cures.chain(self.looks.iter().map(|look| (&*look.text, look.command.as_deref())))
    }
}
