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

/// The directories that an image may be of, and why others are not in it.
#[derive(Default)]
pub(crate) struct PackableDirectories {
    /// None lies below another.
    pub directories: Vec<PathBuf>,
    /// How many directories `becalm run` looks at, whether they have changed.
    pub looked_at: u64,
    /// Why one is not in it, by its name.
    pub refused: Option<String>,
    /// Whether one lies on no shared filesystem.
    is_elsewhere: bool,
}

impl PackableDirectories {
    /// Those of these that may be packed. What lies on no shared filesystem, where it is known which is
    /// one, need not be.
    pub(crate) fn of(input: &PlanInput, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let (mut wanted, elsewhere): (Vec<PathBuf>, Vec<_>) =
            directories.into_iter().partition(|path| input.predictor.may_be_shared(path));
        wanted.sort();
        let is_elsewhere = !elsewhere.is_empty();
        let mut all = PackableDirectories { is_elsewhere, ..PackableDirectories::default() };
        for directory in wanted {
            // What is below another one is in its image.
            if all.directories.last().is_some_and(|above| directory.starts_with(above)) {
                continue;
            }
            match python::looks(input, &directory) {
                Ok(looks) => {
                    all.looked_at += looks;
                    all.directories.push(directory);
                }
                Err(why) => {
                    let name = term::plain(&directory.to_string_lossy());
                    all.refused.get_or_insert_with(|| format!("{name}: {why}"));
                }
            }
        }
        all
    }

    /// The same of those that are not the operating system's, if there are any; else why there are none.
    pub(crate) fn of_own(
        input: &PlanInput,
        directories: impl IntoIterator<Item = PathBuf>,
    ) -> Result<Self, String> {
        let is_own =
            |directory: &PathBuf| !python::is_of_system(directory.as_os_str().as_encoded_bytes());
        let all = Self::of(input, directories.into_iter().filter(is_own));
        if !all.directories.is_empty() {
            return Ok(all);
        }
        let of_system = || "they are the operating system's own, which each node has".to_owned();
        Err(all.why_none(of_system))
    }

    /// Why there is none of them, or none that is worth it.
    pub(crate) fn why_none(self, otherwise: impl FnOnce() -> String) -> String {
        let elsewhere = || "they are on no shared filesystem".to_owned();
        let of_none = self.is_elsewhere && self.directories.is_empty();
        self.refused.or(of_none.then(elsewhere)).unwrap_or_else(otherwise)
    }

    /// What is left out, behind words for what is not.
    pub(crate) fn without(&self) -> String {
        self.refused.as_ref().map_or(String::new(), |why| format!(" (not of {why})"))
    }
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
            Storm::SearchList | Storm::Loader | Storm::Dlopen => {
                ("", "what is and what is not in them is then known on the node")
            }
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
