//! Libraries searched at program start.

use recording::{Name, PathId, Phase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DetectedStorm, Storm, StormSource};
use crate::library::{ListSearch, LoaderSearch, SearchList, search};
use crate::source_path::SourcePath;
use crate::survey::OpSurvey;
use crate::tally::OpCount;
use crate::words::{count, counted, operations, percent, were};

/// What makes the loader search, at program start or later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LoaderSource {
    /// DT_RPATH of one file.
    Rpath(OneList),
    /// DT_RUNPATH of one file.
    Runpath(OneList),
    /// The DT_RPATHs of all files together.
    AllRpaths(AllLists),
    /// The DT_RUNPATHs of all files together.
    AllRunpaths(AllLists),
    /// LD_LIBRARY_PATH.
    LdLibraryPath {
        /// Its directories.
        directories: u64,
        /// Of those, how many had nothing that this program needed.
        useless: u64,
        /// Metadata operations in them.
        metadata_ops: u64,
        /// Of those, failed lookups.
        enoent: u64,
    },
    /// The system's own directories.
    SystemDirectories {
        /// Metadata operations in them.
        metadata_ops: u64,
        /// Of those, failed lookups.
        enoent: u64,
    },
    /// The library that was looked for longest.
    Library {
        /// Its name.
        library: Name,
        /// The directories it was looked for in.
        directories: u64,
        /// Metadata operations for it.
        metadata_ops: u64,
        /// Of those, failed lookups.
        enoent: u64,
        /// The file that needed it first, where that is known.
        needed_by: Option<SourcePath>,
    },
    /// Sub-directories for processor types.
    GlibcHwcaps {
        /// Metadata operations in them.
        metadata_ops: u64,
    },
    /// The program that opened the libraries while it ran.
    OpenedBy {
        /// The program.
        program: String,
        /// Metadata operations in it.
        metadata_ops: u64,
        /// Of those, failed lookups.
        enoent: u64,
    },
}

/// One file's list of directories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OneList {
    /// The file.
    pub file: SourcePath,
    /// The directories in the list.
    pub directories: u64,
    /// Metadata operations in them.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
}

/// Lists of the same kind, of several files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllLists {
    /// Files that have one.
    pub files: u64,
    /// The directories in the longest.
    pub directories: u64,
    /// Metadata operations in all of them.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
}

impl LoaderSource {
    pub(super) fn sentence(&self, of: u64) -> String {
        match self {
            LoaderSource::Rpath(list) => list.sentence("RPATH"),
            LoaderSource::Runpath(list) => list.sentence("RUNPATH"),
            LoaderSource::AllRpaths(lists) | LoaderSource::AllRunpaths(lists) => format!(
                "{} files have one, of up to {} directories: {} of these metadata operations",
                count(lists.files),
                count(lists.directories),
                percent(lists.metadata_ops, of)
            ),
            LoaderSource::LdLibraryPath { directories, useless, metadata_ops, .. } => {
                let had = match useless {
                    0 => "each with something this program needed".to_owned(),
                    none => format!("{} with nothing this program needed", count(*none)),
                };
                format!(
                    "LD_LIBRARY_PATH has {}, {had}: {} of these metadata operations",
                    counted(*directories, "directory", "directories"),
                    percent(*metadata_ops, of)
                )
            }
            LoaderSource::SystemDirectories { metadata_ops, .. } => format!(
                "the system's own directories: {} of these metadata operations",
                percent(*metadata_ops, of)
            ),
            LoaderSource::Library { library, directories, metadata_ops, needed_by, .. } => {
                let by = needed_by.as_ref().map(|file| format!(", needed by {file}"));
                format!(
                    "{library} was looked for in {} ({}){}",
                    counted(*directories, "directory", "directories"),
                    operations(*metadata_ops),
                    by.unwrap_or_default()
                )
            }
            LoaderSource::GlibcHwcaps { metadata_ops } => format!(
                "{} of these metadata operations are for sub-directories for processor types \
                 (glibc-hwcaps and older), which the loader tries in each directory once",
                percent(*metadata_ops, of)
            ),
            LoaderSource::OpenedBy { program, metadata_ops, .. } => {
                format!("{program} opened them while it ran: {}", operations(*metadata_ops))
            }
        }
    }
}

impl OneList {
    fn sentence(&self, kind: &str) -> String {
        format!(
            "{kind} of {}: {}, {}, {} of these failed",
            self.file,
            counted(self.directories, "directory", "directories"),
            operations(self.metadata_ops),
            count(self.enoent)
        )
    }
}

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let search = search(survey, Phase::Loading);
    let avoidable = search.claim.len() as u64 - search.found;
    if avoidable == 0 {
        return None;
    }
    let worst_lists = WorstLists::of(&search);
    Some(DetectedStorm {
        storm: Storm::Loader,
        title: format!("{} searched over {}", searched(&search), worst_lists.list_name()),
        cause:
            "before the program starts, the loader tries each library in every directory of its \
                search lists until one has it"
                .to_owned(),
        observed: "calls made by the dynamic loader before the program's first instruction"
            .to_owned(),
        avoidable,
        inferred: None,
        time: None,
        sources: sources(survey, &search, &worst_lists),
        evidence: "library",
        claim: search.claim,
    })
}

/// `121 libraries were`
pub(super) fn searched(search: &LoaderSearch) -> String {
    let libraries = search.libraries.len() as u64;
    format!("{} {}", counted(libraries, "library", "libraries"), were(libraries))
}

/// The kind of list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListKind {
    Rpath,
    Runpath,
    LibraryPath,
    Other,
}

/// All lists of the kind that had most failed lookups.
pub(super) struct WorstLists {
    kind: ListKind,
    total: ListSearch,
    /// How many files have one.
    files: u64,
    /// The one with most failed lookups.
    worst: Option<(PathId, ListSearch)>,
}

impl WorstLists {
    pub fn of(search: &LoaderSearch) -> WorstLists {
        [ListKind::Rpath, ListKind::Runpath, ListKind::LibraryPath, ListKind::Other]
            .map(|kind| WorstLists::of_kind(search, kind))
            .into_iter()
            .max_by_key(|lists| (lists.total.failed, lists.total.ops))
            .unwrap_or_else(|| WorstLists::of_kind(search, ListKind::Other))
    }

    fn of_kind(search: &LoaderSearch, kind: ListKind) -> WorstLists {
        let mut lists = WorstLists { kind, total: ListSearch::default(), files: 0, worst: None };
        for (list, searched) in &search.lists {
            let (own, file) = match list {
                SearchList::Rpath(file) => (ListKind::Rpath, Some(*file)),
                SearchList::Runpath(file) => (ListKind::Runpath, Some(*file)),
                SearchList::LibraryPath => (ListKind::LibraryPath, None),
                SearchList::Other => (ListKind::Other, None),
            };
            if own != kind {
                continue;
            }
            lists.files += 1;
            lists.total.directories = lists.total.directories.max(searched.directories);
            lists.total.ops += searched.ops;
            lists.total.failed += searched.failed;
            let worse = lists.worst.is_none_or(|(_, worst)| searched.failed > worst.failed);
            if let (Some(file), true) = (file, worse) {
                lists.worst = Some((file, *searched));
            }
        }
        lists
    }

    /// As it reads after 'searched … over'.
    pub fn list_name(&self) -> String {
        let directories = counted(self.total.directories, "directory", "directories");
        match self.kind {
            ListKind::Rpath => format!("RPATHs of up to {directories}"),
            ListKind::Runpath => format!("RUNPATHs of up to {directories}"),
            ListKind::LibraryPath => format!("an LD_LIBRARY_PATH of {directories}"),
            ListKind::Other => "the system's directories".to_owned(),
        }
    }
}

pub(super) fn sources(
    survey: &OpSurvey,
    search: &LoaderSearch,
    worst_lists: &WorstLists,
) -> Vec<StormSource> {
    let mut sources = of_lists(survey, search, worst_lists);
    sources.extend(worst_library(survey, search));
    if search.hwcaps * 4 >= search.claim.len() as u64 {
        sources.push(LoaderSource::GlibcHwcaps { metadata_ops: search.hwcaps });
    }
    sources.into_iter().map(StormSource::Loader).collect()
}

fn of_lists(
    survey: &OpSurvey,
    search: &LoaderSearch,
    worst_lists: &WorstLists,
) -> Vec<LoaderSource> {
    let ListSearch { directories, ops: metadata_ops, failed: enoent } = worst_lists.total;
    let files = worst_lists.files;
    let one = || {
        let (file, list) = worst_lists.worst?;
        Some(OneList {
            file: survey.source_path(file),
            directories: list.directories,
            metadata_ops: list.ops,
            enoent: list.failed,
        })
    };
    let all = (files > 1).then_some(AllLists { files, directories, metadata_ops, enoent });
    match worst_lists.kind {
        ListKind::Rpath => {
            let one = one().map(LoaderSource::Rpath);
            one.into_iter().chain(all.map(LoaderSource::AllRpaths)).collect()
        }
        ListKind::Runpath => {
            let one = one().map(LoaderSource::Runpath);
            one.into_iter().chain(all.map(LoaderSource::AllRunpaths)).collect()
        }
        ListKind::LibraryPath => {
            let useless = search.library_path.iter().filter(|(_, count)| is_useless(count));
            let useless = useless.count() as u64;
            vec![LoaderSource::LdLibraryPath { directories, useless, metadata_ops, enoent }]
        }
        ListKind::Other => vec![LoaderSource::SystemDirectories { metadata_ops, enoent }],
    }
}

fn worst_library(survey: &OpSurvey, search: &LoaderSearch) -> Option<LoaderSource> {
    let (name, searched) = search.worst_library()?;
    Some(LoaderSource::Library {
        library: survey.name_of(name),
        directories: searched.directories.len() as u64,
        metadata_ops: searched.ops,
        enoent: searched.failed,
        needed_by: searched.needed_by.map(|file| survey.source_path(file)),
    })
}

/// Whether a directory was searched and had nothing.
fn is_useless(directory: &OpCount) -> bool {
    directory.ops > 0 && directory.failed == directory.ops
}
