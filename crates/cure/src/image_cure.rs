//! One image of directories, mounted for the command alone: the words and the numbers of that cure,
//! whichever storm it is of.

use std::path::PathBuf;

use explain::{SourcePath, Storm};
use recording::Name;
use term::shell_line;

use crate::cure::{Cure, CureActor, CureChange};
use crate::plan::PlanInput;
use crate::python;

/// The most directories that a command to paste names.
const NAMED: usize = 3;

/// An image that would calm a storm.
pub(crate) struct WantedImage<'w> {
    pub storm: Storm,
    /// What it is of, in words: `the environment`.
    pub of: &'w str,
    /// What its file is called, where a command to paste builds it.
    pub file: &'static str,
    pub directories: &'w [PathBuf],
    /// How many directories `becalm run` looks at, whether they have changed.
    pub looked_at: u64,
}

impl WantedImage<'_> {
    /// The cure, where it is predicted to help; else why not.
    pub(crate) fn cure(self, input: &PlanInput) -> Result<Cure, String> {
        let WantedImage { storm, of, file, directories, looked_at } = self;
        if !(input.machine.can_mount)() {
            return Err("nothing can be mounted for a command here (becalm doctor)".to_owned());
        }
        let effect = python::effect(input.recording, directories, looked_at);
        let predicted = input.predictor.predict(&effect);
        if !predicted.is_worth_it() {
            return Err(predicted.too_little());
        }
        let line = &input.line;
        let build = || {
            let directories = shell_line(directories);
            format!(
                "becalm image build -o {file} {directories} -- {line} && becalm run --image {file} \
                 -- {line}"
            )
        };
        let is_short = directories.len() <= NAMED && storm != Storm::SearchList;
        let (order, known) = match storm {
            Storm::SearchList => ("", "what is and what is not in them is then known on the node"),
            _ => (", in the order of this start", "that is then one file to the server"),
        };
        let named = |directory: &PathBuf| SourcePath { id: None, name: Name::of(directory) };
        Ok(Cure {
            storm,
            text: format!(
                "Build one image of {of}{order}, and run the command with it mounted there: {known}"
            ),
            command: Some(if is_short { build() } else { input.fix_with_calm_file() }),
            actor: CureActor::You,
            owner: None,
            change: CureChange::MountImage { directories: directories.iter().map(named).collect() },
            risk: Some(format!(
                "what is {} there later is not in the image: becalm run says so, and then build it \
                 anew",
                if storm == Storm::Files { "changed" } else { "installed" }
            )),
            predicted,
            effect,
        })
    }
}
