//! Many files, each looked up by itself: an image of their trees, or fewer files.
//!
//! A file that is served from an image is still looked at once by `becalm run`, to see whether it has
//! changed, but not opened, and many are looked at at once.

use explain::{FilesSource, Finding, ListName, SourcePath, Storm, StormSource};
use term::number::{count, counted};

use crate::cure::{Cure, CureActor, CureChange, RefusedCure, StormCures};
use crate::image_cure::{PackableDirectories, WantedImage};
use crate::launched_image::{IN_AN_IMAGE, launched_image};
use crate::plan::PlanInput;
use crate::prediction::CureEffect;
use crate::{git, python};

pub(crate) fn cures(input: &PlanInput, finding: &Finding) -> StormCures {
    let mut all = StormCures::default();
    let trees: Vec<(&SourcePath, u64)> = finding.sources.iter().filter_map(tree).collect();
    if let Some(program) = finding.sources.iter().find_map(of_git) {
        git::advise(input, Storm::Files, program, &mut all);
        return all;
    }
    match image(input, &trees) {
        Ok(cure) => all.cures.push(cure),
        Err(why) => all.not_chosen.push(RefusedCure {
            storm: Storm::Files,
            text: "An image of the directories that they lie in".to_owned(),
            why,
        }),
    }
    let list = finding.sources.iter().find_map(of_list);
    all.cures.extend(packed(input, &trees, list));
    all
}

fn of_list(source: &StormSource) -> Option<&ListName> {
    match source {
        StormSource::Files(FilesSource::FilesList { list, .. }) => Some(list),
        _ => None,
    }
}

fn tree(source: &StormSource) -> Option<(&SourcePath, u64)> {
    match source {
        StormSource::Files(FilesSource::FilesTree { directory, files }) => {
            Some((directory, *files))
        }
        _ => None,
    }
}

fn of_git(source: &StormSource) -> Option<&str> {
    match source {
        StormSource::Files(FilesSource::FilesReader { program, index_of_git: true, .. }) => {
            Some(program)
        }
        _ => None,
    }
}

/// The image, or why there is none.
fn image(input: &PlanInput, trees: &[(&SourcePath, u64)]) -> Result<Cure, String> {
    if launched_image(input.recording).is_some() {
        return Err(IN_AN_IMAGE.to_owned());
    }
    let wanted = trees.iter().map(|(directory, _)| directory.path().to_owned());
    let packed = PackableDirectories::of_own(input, wanted)?;
    let directories = &packed.directories;
    let of = format!("their directories{}", packed.without());
    let (file, looked_at) = ("files.sqsh", packed.looked_at);
    let image = WantedImage { storm: Storm::Files, of: &of, file, directories, looked_at };
    image.cure(input).map_err(|why| packed.refused.unwrap_or(why))
}

/// The files of the largest tree packed into one, by who writes the program that reads them.
fn packed(
    input: &PlanInput,
    trees: &[(&SourcePath, u64)],
    list: Option<&ListName>,
) -> Option<Cure> {
    let (directory, files) = trees.first()?;
    let directories = [directory.path().to_owned()];
    let taken = python::events_below(input.recording, &directories)
        .filter(|(_, event, _)| !event.is_change())
        .map(|(number, ..)| number);
    // The one file is opened.
    let effect = CureEffect { added: 1, ..CureEffect::of(taken) };
    let predicted = input.predictor.predict(&effect);
    predicted.is_worth_it().then(|| Cure {
        storm: Storm::Files,
        text: match list {
            Some(list) => format!(
                "Put what is in the {} of {} into one (of jars, one jar), and name only that: {} \
                 lookups become one",
                counted(*files, "file", "files"),
                list.words(),
                count(effect.taken.len()),
            ),
            None => format!(
                "Store the {} below {directory} as one (zip, tar, HDF5, a database), where the \
                 program can read that: {} lookups become one",
                counted(*files, "file", "files"),
                count(effect.taken.len()),
            ),
        },
        command: None,
        actor: CureActor::Author,
        owner: None,
        change: CureChange::PackFiles { directory: (*directory).clone(), files: *files },
        risk: Some("whoever else reads the files by their names finds them no more".to_owned()),
        predicted,
        effect,
    })
}
