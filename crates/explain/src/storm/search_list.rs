//! Names searched in one directory of a list after the other, by whatever program.

use std::collections::BTreeSet;

use recording::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DetectedStorm, Storm, StormSource};
use crate::search::{ListName, ListSearches, NameSearch, SearchedList, search_lists};
use crate::source_path::SourcePath;
use crate::survey::OpSurvey;
use crate::tally::OpTally;
use crate::words::{count, counted, listed, operations};

/// The most lists, and directories and names of the first of them, that are told of.
const TOLD: usize = 3;

/// What is searched, where, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SearchListSource {
    /// A list of directories.
    SearchList(FoundList),
    /// One directory of the first list.
    SearchListEntry {
        /// The directory.
        directory: SourcePath,
        /// Failed lookups in it.
        enoent: u64,
        /// How many searches ended in it.
        found: u64,
    },
    /// A name that is searched in the first list.
    SearchedName {
        /// The name, without what its files end in.
        name: Name,
        /// Failed lookups for it.
        enoent: u64,
    },
}

/// A list of directories that was searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundList {
    /// Where it comes from.
    pub list: ListName,
    /// The program that searches it.
    pub program: String,
    /// Processes that do.
    pub processes: u64,
    /// Directories that are searched, wherever they come from.
    pub directories: u64,
    /// Of those, how many the list gives.
    pub given: u64,
    /// Names that were searched.
    pub names: u64,
    /// Metadata operations of the searches.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
    /// What the list gives and nothing was found in.
    pub never_hit: Vec<SourcePath>,
    /// What the list gives and something was found in, in the order that takes least: the others
    /// behind it.
    pub best_order: Vec<SourcePath>,
    /// Metadata operations that the searches would take then, simulated on this recording.
    pub ops_in_best_order: u64,
    /// The directory that is searched first.
    pub first: SourcePath,
    /// The searches, for whoever simulates a change of the list. Not in JSON.
    #[serde(skip)]
    pub searched: ListSearches,
}

impl SearchListSource {
    pub(super) fn sentence(&self) -> String {
        match self {
            SearchListSource::SearchList(list) => list.sentence(),
            SearchListSource::SearchListEntry { directory, enoent, found } => format!(
                "{directory}: {}, {}",
                counted(*enoent, "failed lookup", "failed lookups"),
                match found {
                    0 => "and nothing was found in it".to_owned(),
                    found => counted(*found, "search ended in it", "searches ended in it"),
                }
            ),
            SearchListSource::SearchedName { name, enoent } => {
                format!(
                    "{name} was searched with {}",
                    counted(*enoent, "failed lookup", "failed lookups")
                )
            }
        }
    }
}

impl FoundList {
    fn sentence(&self) -> String {
        let FoundList { directories, given, .. } = self;
        let directories = counted(*directories, "directory", "directories");
        let list = match &self.list {
            ListName::Unknown => format!(
                "a list that becalm does not know, of {directories}, beginning with {}",
                self.first
            ),
            list if *given == self.directories => format!("{} has {directories}", list.words()),
            list => format!("{} gives {} of the {directories}", list.words(), count(*given)),
        };
        let had = match self.never_hit.len() as u64 {
            0 => "each had something".to_owned(),
            none => format!("{} of them had nothing that was searched", count(none)),
        };
        format!(
            "{list}: {} for {} of {}, and {had}{}",
            operations(self.metadata_ops),
            counted(self.names, "name", "names"),
            self.program,
            self.better()
        )
    }

    /// What another order would bring, where that is a tenth, and somebody can give one.
    fn better(&self) -> String {
        let spared = self.metadata_ops.saturating_sub(self.ops_in_best_order);
        let is_fixed = matches!(self.list, ListName::Program(_));
        if is_fixed || spared * 10 < self.metadata_ops || self.best_order.is_empty() {
            return String::new();
        }
        let first: Vec<_> = self.best_order.iter().take(TOLD).map(ToString::to_string).collect();
        format!("; with {} first it would be {}", listed(&first), count(self.ops_in_best_order))
    }
}

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let lists = search_lists(survey);
    let worst = lists.first()?;
    let searches = worst.searches.searches.iter();
    let widest =
        searches.map(NameSearch::directories).max_by_key(BTreeSet::len).unwrap_or_default();
    let directories = widest.len();
    let is_given = |entry: &&usize| worst.searches.entries[**entry].is_given;
    let given = widest.iter().filter(is_given).count();
    let names = counted(worst.names.len(), "name was", "names were");
    let mut claim: Vec<_> = lists.iter().flat_map(|list| list.claim.iter().copied()).collect();
    claim.sort_unstable();
    let of_list = match &worst.name {
        ListName::Unknown => " of a list that becalm does not know".to_owned(),
        // A program has directories of its own besides.
        name if (1..directories).contains(&given) => {
            format!(", {} of them from {}", count(given as u64), name.words())
        }
        name => format!(" of {}", name.words()),
    };
    Some(DetectedStorm {
        storm: Storm::SearchList,
        title: format!("{names} searched in up to {directories} directories{of_list}"),
        cause:
            "a name without its directory is tried in every directory of a list, in order, until \
                one has it; what none has is tried in all"
                .to_owned(),
        observed: format!(
            "the same relative name failed in {} or more directories in turn, for one process; where \
             the list comes from is told by the directories that a variable or option names",
            crate::search::FAILS_IN
        ),
        avoidable: survey.enoent(&claim),
        inferred: Some(0),
        time: None,
        sources: sources(survey, &lists).into_iter().map(StormSource::SearchList).collect(),
        evidence: "prefix",
        claim,
    })
}

fn sources(survey: &OpSurvey, lists: &[SearchedList]) -> Vec<SearchListSource> {
    let found = lists.iter().take(TOLD).map(|list| found_list(survey, list));
    let mut sources: Vec<_> = found.map(SearchListSource::SearchList).collect();
    let Some(worst) = lists.first() else { return sources };
    let found = worst.searches.found();
    let mut failed = OpTally::default();
    for (entry, _) in worst.searches.searches.iter().flat_map(|search| &search.probes) {
        failed.add(*entry, true);
    }
    let at = |(entry, counted): (usize, crate::tally::OpCount)| SearchListSource::SearchListEntry {
        directory: worst.searches.entries[entry].directory.clone(),
        enoent: counted.failed,
        found: found[entry],
    };
    sources.extend(failed.by_failed().into_iter().take(TOLD).map(at));
    if let Some((name, counted)) = worst.names.top() {
        let name = survey.name_of(name);
        sources.push(SearchListSource::SearchedName { name, enoent: counted.ops });
    }
    sources
}

fn found_list(survey: &OpSurvey, list: &SearchedList) -> FoundList {
    let searched = &list.searches;
    let directory = |entry: usize| searched.entries[entry].directory.clone();
    let found = searched.found();
    let order = searched.best_order(|_, _| false);
    let spared = searched.change_by(&order).net().len() as u64;
    let metadata_ops = list.claim.len() as u64;
    let is_useful = |entry: &usize| searched.entries[*entry].is_given && found[*entry] > 0;
    FoundList {
        list: list.name.clone(),
        program: survey.full_name(list.program).to_owned(),
        processes: list.processes,
        directories: searched.entries.len() as u64,
        given: searched.entries.iter().filter(|entry| entry.is_given).count() as u64,
        names: list.names.len(),
        metadata_ops,
        enoent: survey.enoent(&list.claim),
        never_hit: searched.never_hit().into_iter().map(directory).collect(),
        best_order: order.into_iter().filter(is_useful).map(directory).collect(),
        ops_in_best_order: metadata_ops - spared,
        first: directory(0),
        searched: searched.clone(),
    }
}
