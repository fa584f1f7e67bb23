//! Libraries searched over long lists, at the start or later: bind the files.
//!
//! Only what one file's list causes has a cure here: writing into the files where their libraries
//! are. Which entries of LD_LIBRARY_PATH another start needs, no recording of this one tells.

use std::path::Path;

use explain::{Finding, LoaderSource, SourcePath, Storm, StormSource};
use recording::Recording;

use crate::cure::{Cure, CureActor, CureChange, StormCures};
use crate::machine::Machine;

pub(crate) fn cures(recording: &Recording, finding: &Finding, machine: &Machine) -> StormCures {
    let list = finding.sources.iter().find_map(|source| match source {
        StormSource::Loader(LoaderSource::Rpath(list) | LoaderSource::Runpath(list)) => Some(list),
        _ => None,
    });
    let can_change = |file: &SourcePath| {
        !belongs_to_the_system(file.path()) && (machine.can_change)(file.path())
    };
    let file = list.map(|list| &list.file).filter(|file| can_change(file));
    let cure = file.and_then(|_| bind(recording, finding.storm));
    StormCures { cures: cure.into_iter().collect(), looks: Vec::new() }
}

/// Binding what the command was seen to load.
pub(crate) fn bind(recording: &Recording, storm: Storm) -> Option<Cure> {
    let line = recording.header.command_line()?;
    Some(Cure {
        storm,
        text: "Bind the files: each then names its libraries by full path, and nothing is \
               searched; becalm undo takes it back"
            .to_owned(),
        command: Some(format!("becalm fix --apply -- {line}")),
        actor: CureActor::Owner,
        change: CureChange::BindFiles {
            files: loaded(recording, |path| !belongs_to_the_system(path)),
        },
        predicted: None,
    })
}

/// The programs and libraries that the command was seen to load.
pub(crate) fn loaded(recording: &Recording, wanted: impl Fn(&Path) -> bool) -> Vec<SourcePath> {
    let files = recording.images.keys().map(|id| SourcePath::of(recording, *id));
    let mut files: Vec<_> = files.filter(|file| wanted(file.path())).collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// Whether a file is one of the distribution's: its package manager would put it back.
pub fn belongs_to_the_system(path: &Path) -> bool {
    let systems = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr"];
    let local = ["/usr/local"];
    systems.iter().any(|directory| path.starts_with(directory))
        && !local.iter().any(|directory| path.starts_with(directory))
}
