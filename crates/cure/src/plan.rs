//! The cures that `becalm fix` applies.

use explain::{Findings, SourcePath, Storm};
use recording::Recording;

use crate::cure::{Cure, CureChange, TakenAway};
use crate::{loader, python};

/// The cures chosen for one command, and what is left out of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurePlan {
    /// The cures, in the order in which they are applied.
    pub cures: Vec<Cure>,
    /// Files of the operating system: its package manager would put them back.
    pub of_the_system: Vec<SourcePath>,
}

impl CurePlan {
    /// What would calm the start that was recorded: its files bound, storm or not, for that costs
    /// nothing and is verified before it is written; and an image of the environment that an import
    /// storm comes from.
    pub fn of(recording: &Recording, findings: &Findings) -> CurePlan {
        let line = recording.header.command_line();
        let storm = findings.storms.iter().find(|finding| finding.storm == Storm::Python);
        let environment = storm.and_then(python::environment);
        let image = environment.map(|(directory, _)| {
            python::mount_image(recording, directory, line.as_deref().unwrap_or("CMD"))
        });
        CurePlan {
            cures: loader::bind(recording, Storm::Loader).into_iter().chain(image).collect(),
            of_the_system: loader::loaded(recording, loader::belongs_to_the_system),
        }
    }

    /// The files to bind.
    pub fn files_to_bind(&self) -> &[SourcePath] {
        let files = self.cures.iter().find_map(|cure| match &cure.change {
            CureChange::BindFiles { files } => Some(&files[..]),
            _ => None,
        });
        files.unwrap_or_default()
    }

    /// The directory to build an image of, and what that takes away.
    pub fn image(&self) -> Option<(&SourcePath, TakenAway)> {
        self.cures.iter().find_map(|cure| match (&cure.change, cure.predicted) {
            (CureChange::MountImage { directory }, Some(taken)) => Some((directory, taken)),
            _ => None,
        })
    }
}
