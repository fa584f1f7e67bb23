//! Libraries searched at program start.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recording::{PathId, Phase};

use super::{Case, command, culprit};
use crate::findings::{Culprit, Step, Storm};
use crate::library::{List, Search, Searched, search};
use crate::survey::Survey;
use crate::tally::Count;
use crate::threshold::is_storm;
use crate::words::{count, counted, percent, questions, were};

pub(super) fn detect(survey: &Survey) -> Option<Case> {
    let search = search(survey, Phase::Loading);
    let avoidable = search.claim.len() as u64 - search.found;
    if !is_storm(avoidable, survey.total()) {
        return None;
    }
    let blame = Blame::of(&search);
    Some(Case {
        storm: Storm::Loader,
        title: format!("{} searched over {}", searched(&search), blame.list_name()),
        cause:
            "before the program starts, the loader tries each library in every directory of its \
                search lists until one has it"
                .to_owned(),
        observed: "calls made by the dynamic loader before the program's first instruction"
            .to_owned(),
        avoidable,
        guessed: None,
        time: None,
        culprits: culprits(survey, &search, &blame),
        next: next(survey, &blame),
        evidence: "library".to_owned(),
        claim: search.claim,
    })
}

/// `121 libraries were`
pub(super) fn searched(search: &Search) -> String {
    let libraries = search.libraries.len() as u64;
    format!("{} {}", counted(libraries, "library", "libraries"), were(libraries))
}

/// The kind of list that had most 'no'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Rpath,
    Runpath,
    LibraryPath,
    Other,
}

/// All lists of the kind that is most to blame.
pub(super) struct Blame {
    sort: Sort,
    total: Searched,
    /// How many files have one.
    files: u64,
    /// The one with most 'no'.
    worst: Option<(PathId, Searched)>,
}

impl Blame {
    pub fn of(search: &Search) -> Blame {
        [Sort::Rpath, Sort::Runpath, Sort::LibraryPath, Sort::Other]
            .map(|sort| Blame::of_sort(search, sort))
            .into_iter()
            .max_by_key(|blame| (blame.total.missing, blame.total.asks))
            .unwrap_or_else(|| Blame::of_sort(search, Sort::Other))
    }

    fn of_sort(search: &Search, sort: Sort) -> Blame {
        let mut blame = Blame { sort, total: Searched::default(), files: 0, worst: None };
        for (list, searched) in &search.lists {
            let (own, file) = match list {
                List::Rpath(file) => (Sort::Rpath, Some(*file)),
                List::Runpath(file) => (Sort::Runpath, Some(*file)),
                List::LibraryPath => (Sort::LibraryPath, None),
                List::Other => (Sort::Other, None),
            };
            if own != sort {
                continue;
            }
            blame.files += 1;
            blame.total.directories = blame.total.directories.max(searched.directories);
            blame.total.asks += searched.asks;
            blame.total.missing += searched.missing;
            let worse = blame.worst.is_none_or(|(_, worst)| searched.missing > worst.missing);
            if let (Some(file), true) = (file, worse) {
                blame.worst = Some((file, *searched));
            }
        }
        blame
    }

    /// As it reads after 'searched … over'.
    pub fn list_name(&self) -> String {
        let directories = counted(self.total.directories, "directory", "directories");
        match self.sort {
            Sort::Rpath => format!("RPATHs of up to {directories}"),
            Sort::Runpath => format!("RUNPATHs of up to {directories}"),
            Sort::LibraryPath => format!("an LD_LIBRARY_PATH of {directories}"),
            Sort::Other => "the system's directories".to_owned(),
        }
    }
}

pub(super) fn culprits(survey: &Survey, search: &Search, blame: &Blame) -> Vec<Culprit> {
    let mut culprits = Vec::new();
    let total = &blame.total;
    let all = search.claim.len() as u64;
    let share = percent(total.asks, all);
    let kind = match blame.sort {
        Sort::Rpath => "rpath",
        Sort::Runpath => "runpath",
        Sort::LibraryPath => "ld_library_path",
        Sort::Other => "system",
    };
    let numbers = |searched: &Searched| {
        [
            ("directories", searched.directories),
            ("operations", searched.asks),
            ("missing", searched.missing),
        ]
    };
    let upper = kind.to_uppercase();
    match blame.worst {
        Some((file, worst)) => {
            let name = survey.recording.shown(file);
            let text = format!(
                "{upper} of {name}: {}, {}, {} answered no",
                counted(worst.directories, "directory", "directories"),
                questions(worst.asks),
                count(worst.missing)
            );
            culprits.push(culprit(kind, name, text, &numbers(&worst)));
            if blame.files > 1 {
                let text = format!(
                    "{} files have one, of up to {} directories: {share} of these \
                     questions",
                    count(blame.files),
                    count(total.directories),
                );
                let with_files = [&numbers(total)[..], &[("files", blame.files)]].concat();
                culprits.push(culprit(kind, format!("all {upper}s"), text, &with_files));
            }
        }
        None if blame.sort == Sort::LibraryPath => {
            let directories = search.library_path.iter();
            let useless = directories.filter(|(_, count)| is_useless(count)).count() as u64;
            let had = match useless {
                0 => "each with something this program needed".to_owned(),
                none => format!("{} with nothing this program needed", count(none)),
            };
            let directories = counted(total.directories, "directory", "directories");
            let text =
                format!("LD_LIBRARY_PATH has {directories}, {had}: {share} of these questions");
            let with_useless = [&numbers(total)[..], &[("useless", useless)]].concat();
            culprits.push(culprit(kind, "LD_LIBRARY_PATH", text, &with_useless));
        }
        None => {
            let text = format!("the system's own directories: {share} of these questions");
            culprits.push(culprit(kind, "system", text, &numbers(total)));
        }
    }
    culprits.extend(worst_library(survey, search));
    if search.hwcaps * 4 >= all {
        let text = format!(
            "{} of these questions are for sub-directories for processor types (glibc-hwcaps \
             and older), which the loader tries in each directory once",
            percent(search.hwcaps, all)
        );
        culprits.push(culprit("hwcaps", "glibc-hwcaps", text, &[("operations", search.hwcaps)]));
    }
    culprits
}

fn worst_library(survey: &Survey, search: &Search) -> Option<Culprit> {
    let (name, wanted) = search.worst_library()?;
    let name = survey.shown(name);
    let by = match wanted.needed_by {
        Some(file) => format!(", needed by {}", survey.recording.shown(file)),
        None => String::new(),
    };
    let directories = wanted.directories.len() as u64;
    let text = format!(
        "{name} was looked for in {} ({}){by}",
        counted(directories, "directory", "directories"),
        questions(wanted.asks)
    );
    let numbers =
        [("directories", directories), ("operations", wanted.asks), ("missing", wanted.missing)];
    Some(culprit("library", name, text, &numbers))
}

/// Whether a directory was asked and had nothing.
fn is_useless(directory: &Count) -> bool {
    directory.asks > 0 && directory.missing == directory.asks
}

/// Only what one file's list is to blame for has a cure here: writing into the files where their
/// libraries are. Which entries of LD_LIBRARY_PATH another start needs, no recording of this one
/// tells.
pub(super) fn next(survey: &Survey, blame: &Blame) -> Vec<Step> {
    let bind = |file: PathId| {
        let path = Path::new(OsStr::from_bytes(survey.recording.path(file)));
        let line = survey.command_line().filter(|_| (survey.machine.can_change)(path))?;
        Some(command(
            "Bind the files: each then names its libraries by full path, and nothing is searched; \
             becalm undo takes it back",
            format!("becalm fix --apply -- {line}"),
        ))
    };
    blame.worst.and_then(|(file, _)| bind(file)).into_iter().collect()
}
