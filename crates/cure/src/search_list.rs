//! Names searched over a list of directories: another order, an image, fewer directories, one.

use explain::{Finding, FoundList, ListName, SearchListSource, Storm, StormSource, listed};
use term::number::counted;
use term::quoted;

use crate::cure::{Cure, CureActor, CureChange, RefusedCure, StormCures};
use crate::image_cure::{PackableDirectories, WantedImage};
use crate::launched_image::{IN_AN_IMAGE, launched_image};
use crate::plan::PlanInput;
use crate::prediction::CureEffect;
use crate::search_value::{
    ListContent, first_decides, is_of_plain_directories, is_used_by_search_alone, launched_value,
    reordered,
};

/// The most directories that a sentence names.
const NAMED: usize = 3;
/// Another order goes first where it brings so many of five parts of what an image brings: it needs
/// nothing that has to be built anew.
const FOUR_OF_FIVE: u64 = 4;
/// A longer line is not pasted.
const PASTED: usize = 2000;

pub(crate) fn cures(input: &PlanInput, finding: &Finding) -> StormCures {
    let mut all = StormCures::default();
    let lists: Vec<&FoundList> = finding.sources.iter().filter_map(found_list).collect();
    let Some(worst) = lists.first() else { return all };
    let order = order(input, worst);
    let image = image(input, &lists);
    let refused = |text: String, why| RefusedCure { storm: Storm::SearchList, text, why };
    let another_order = || format!("Another order of {}", worst.list.words());
    for (cure, text) in [
        (order, another_order()),
        (image, "An image of the directories that are searched".to_owned()),
        (drop_directories(input, worst), format!("A shorter {}", worst.list.words())),
        (merge(input, worst), "One directory with what is in all of them".to_owned()),
    ] {
        match cure {
            Ok(cure) => all.cures.push(cure),
            Err(why) => all.not_chosen.push(refused(text, why)),
        }
    }
    image_first(&mut all.cures);
    all
}

fn found_list(source: &StormSource) -> Option<&FoundList> {
    match source {
        StormSource::SearchList(SearchListSource::SearchList(list)) => Some(list),
        _ => None,
    }
}

/// An image goes before another order, if that brings considerably less.
fn image_first(cures: &mut [Cure]) {
    let [order, image, ..] = cures else { return };
    let is_image = matches!(image.change, CureChange::MountImage { .. });
    let cannot = !order.is_appliable() && image.is_appliable();
    let brings_less = order.predicted.spared() * 5 < image.predicted.spared() * FOUR_OF_FIVE;
    if is_image && (cannot || brings_less) {
        cures.swap(0, 1);
    }
}

/// A cure of a list, if it is predicted to help.
fn cure(
    input: &PlanInput,
    change: CureChange,
    effect: CureEffect,
    text: String,
    risk: &str,
) -> Result<Cure, String> {
    let predicted = input.predictor.predict(&effect);
    if !predicted.is_worth_it() {
        return Err(predicted.too_little());
    }
    let actor = match change {
        CureChange::OrderDirectories { .. } => CureActor::Author,
        _ => CureActor::You,
    };
    Ok(Cure {
        storm: Storm::SearchList,
        text,
        command: change.is_of_launch().then(|| input.fix_with_calm_file()),
        actor,
        owner: None,
        change,
        risk: Some(risk.to_owned()),
        predicted,
        effect,
    })
}

/// Only what is written somewhere can be written otherwise.
fn can_be_written(list: &FoundList) -> Result<(), String> {
    match &list.list {
        ListName::Variable(_) | ListName::Option(_) => Ok(()),
        ListName::Program(_) => Err("the program makes this list itself".to_owned()),
        ListName::Unknown => Err("where its directories are listed is not known".to_owned()),
    }
}

/// The directories that have most first. No file that two of them have changes which one is found.
fn order(input: &PlanInput, list: &FoundList) -> Result<Cure, String> {
    let searched = &list.searched;
    can_be_written(list)?;
    if let ListName::Variable(variable) = &list.list
        && !first_decides(variable)
    {
        return Err(format!(
            "in which order {variable} decides what is found is not known for certain"
        ));
    }
    is_used_by_search_alone(input.recording, searched)?;
    let content = ListContent::read(input.machine, searched)?;
    let order = searched.best_order(|one, other| content.have_one_name(one, other));
    let effect = CureEffect::of(searched.change_by(&order).net());
    let found = searched.found();
    let given = order.iter().filter(|at| searched.entries[**at].is_given);
    let directories: Vec<_> =
        given.clone().map(|at| searched.entries[*at].directory.clone()).collect();
    let first = given.filter(|at| found[**at] > 0).take(NAMED);
    let first: Vec<_> = first.map(|at| searched.entries[*at].directory.to_string()).collect();
    let text = format!(
        "Give {} with {} first: each name is then found earlier, and in the directory where it is \
         found now",
        list.list.words(),
        listed(&first)
    );
    let risk = "what is put into these directories later, under a name that another one has, is found \
                in that order (becalm calm check tells it); and a list that is longer by then is not seen (write the calm file \
                again)";
    let change = match &list.list {
        ListName::Variable(variable) => {
            let recorded = launched_value(input.recording, variable)?;
            is_of_plain_directories(variable, &recorded)?;
            let value = reordered(variable, &recorded, searched, &order, &[])
                .ok_or_else(|| format!("{variable} names a directory that is no full path"))?;
            CureChange::SetVariable { variable: variable.clone(), value }
        }
        _ => CureChange::OrderDirectories { directories },
    };
    cure(input, change, effect, text, risk)
}

/// An image of the directories, where they are no part of the operating system.
fn image(input: &PlanInput, lists: &[&FoundList]) -> Result<Cure, String> {
    if launched_image(input.recording).is_some() {
        return Err(IN_AN_IMAGE.to_owned());
    }
    let entries = lists.iter().flat_map(|list| &list.searched.entries);
    let given = entries.filter(|entry| entry.is_given);
    let given = given.map(|entry| entry.directory.path().to_owned());
    let packed = PackableDirectories::of_own(input, given)?;
    let directories = &packed.directories;
    let of = counted(directories.len() as u64, "directory that is", "directories that are");
    let of = format!("{of} searched{}", packed.without());
    let (file, looked_at) = ("list.sqsh", packed.looked_at);
    WantedImage { storm: Storm::SearchList, of: &of, file, directories, looked_at }.cure(input)
}

/// Without the directories in which nothing was found.
fn drop_directories(input: &PlanInput, list: &FoundList) -> Result<Cure, String> {
    can_be_written(list)?;
    let searched = &list.searched;
    let useless = searched.never_hit();
    let of = counted(useless.len() as u64, "directory", "directories");
    if useless.is_empty() {
        return Err("each of its directories had something".to_owned());
    }
    let directories =
        useless.iter().map(|at| searched.entries[*at].directory.clone()).collect::<Vec<_>>();
    let first: Vec<_> = directories.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if directories.len() > NAMED { "…" } else { "" };
    let text = format!(
        "Take out of {} the {of} in which this start found nothing: {}{more}",
        list.list.words(),
        first.join(", ")
    );
    let risk = "another run of the command may need what is in them, and would not find it, or find \
                another one";
    let effect = CureEffect::of(searched.lookups_in(&useless));
    let change = CureChange::DropDirectories { directories };
    let mut cure = cure(input, change, effect, text, risk)?;
    cure.command = shorter(input, list, &useless);
    Ok(cure)
}

/// The command with the shorter list, where that is a line to paste.
fn shorter(input: &PlanInput, list: &FoundList, useless: &[usize]) -> Option<String> {
    let ListName::Variable(variable) = &list.list else { return None };
    let value = launched_value(input.recording, variable).ok()?;
    let order: Vec<usize> = (0..list.searched.entries.len()).collect();
    let value = reordered(variable, &value, &list.searched, &order, useless)?;
    let line = format!("{variable}={} {}", quoted(&value), input.line);
    (line.len() <= PASTED).then_some(line)
}

/// All directories as one.
fn merge(input: &PlanInput, list: &FoundList) -> Result<Cure, String> {
    can_be_written(list)?;
    let given = list.searched.entries.iter().filter(|entry| entry.is_given);
    let directories: Vec<_> = given.map(|entry| entry.directory.clone()).collect();
    let text = format!(
        "Put what is in the {} of {} into one (a directory of links does), and name only that",
        counted(directories.len() as u64, "directory", "directories"),
        list.list.words()
    );
    let risk = "of two files with one name only the one of the earlier directory may be in it, and \
                what is installed in them later is not; a file that looks for others beside itself \
                may not find them";
    let effect = CureEffect::of(list.searched.spared_by_merging());
    cure(input, CureChange::MergeDirectories { directories }, effect, text, risk)
}
