//! The searches of one list of directories together.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use recording::{Exec, Kind, Name, SEARCH_VARIABLES};

use super::declared::{self, DeclaredList, ListName};
use super::names::{FoundSearch, can_search, searches};
use super::roots::{ListRoots, splits, stem};
use crate::source_path::SourcePath;
use crate::survey::{OpId, OpSurvey, ProgramId, variable};
use crate::tally::OpTally;

/// A name that fails in fewer directories is no search of a list.
pub(crate) const FAILS_IN: usize = 3;
/// One part in so many of the longest list's lookups is not told of.
const LITTLE: usize = 20;
/// The most lists that are looked at.
const LISTS: usize = 8;
/// Fewer directories are no list.
const DIRECTORIES: usize = 4;

/// A list, and what was searched in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListSearches {
    /// Its directories, in the order in which they are searched.
    pub entries: Vec<ListEntry>,
    /// What was searched, in the order in which it was.
    pub searches: Vec<NameSearch>,
}

/// One directory of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// It.
    pub directory: SourcePath,
    /// Whether the list is where it comes from, and not what the program searches besides.
    pub is_given: bool,
    /// Whether a file in it was opened, by a search or without one.
    pub is_used: bool,
    /// Lookups of the directory itself, as numbers of events.
    pub own: Vec<usize>,
}

impl ListEntry {
    pub(super) fn new(directory: &[u8], is_given: bool) -> ListEntry {
        let name = Name::of(OsStr::from_bytes(directory));
        ListEntry {
            directory: SourcePath { id: None, name },
            is_given,
            is_used: false,
            own: Vec::new(),
        }
    }
}

/// One name, searched by one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameSearch {
    /// The failed lookups: the number of the directory, and of the event.
    pub probes: Vec<(usize, usize)>,
    /// The number of the directory that had it.
    pub found: Option<usize>,
}

impl NameSearch {
    /// In which directories it was tried.
    pub fn directories(&self) -> BTreeSet<usize> {
        self.probes.iter().map(|(entry, _)| *entry).chain(self.found).collect()
    }
}

/// What a list came to in a recording.
pub(crate) struct SearchedList<'a> {
    pub name: ListName,
    pub program: ProgramId,
    /// How many processes searched it.
    pub processes: u64,
    pub claim: Vec<OpId>,
    /// How often each name was searched, and how often in vain.
    pub names: OpTally<&'a [u8]>,
    pub searches: ListSearches,
}

/// The lists that were searched, the one with most lookups first.
pub(crate) fn search_lists<'a>(survey: &OpSurvey<'a>) -> Vec<SearchedList<'a>> {
    let declared = declared_directories(survey);
    let missing = survey.free().filter(|(_, op)| can_search(op) && op.is_enoent());
    let missing = missing.filter_map(|(_, op)| Some((op.path_id?, op.path)));
    let roots = ListRoots::of(missing, &declared);
    let found = searches(survey, &roots);
    let mut clusters = clusters(&found);
    let lookups = |cluster: &Vec<&FoundSearch>| {
        cluster.iter().map(|search| search.probes.len()).sum::<usize>()
    };
    clusters.sort_by_key(|cluster| std::cmp::Reverse(lookups(cluster)));
    clusters.truncate(LISTS);
    let lists = clusters.into_iter().filter_map(|cluster| list(survey, cluster));
    let mut lists: Vec<_> = lists.collect();
    lists.sort_by_key(|list| std::cmp::Reverse(list.claim.len()));
    // Each program looks here and there: what is little beside the first is no list of its own.
    let most = lists.first().map_or(0, |list| list.claim.len());
    lists.retain(|list| list.claim.len() * LITTLE >= most);
    // What two lists look at belongs to the first.
    let mut claimed = HashSet::new();
    for list in &mut lists {
        list.claim.retain(|op| claimed.insert(*op));
    }
    lists
}

/// The directories that any variable names.
fn declared_directories(survey: &OpSurvey) -> HashSet<Vec<u8>> {
    let mut seen = HashSet::new();
    let mut directories = HashSet::new();
    let execs = survey.recording.processes.iter().flat_map(|process| &process.execs);
    for exec in execs {
        for known in SEARCH_VARIABLES {
            let Some(value) = variable(exec, known.name) else { continue };
            // Most processes have their parent's.
            if seen.insert((known.name, value)) {
                let entries = declared::declared_entries(known.name, value);
                let entries = entries.into_iter().flatten().map(|entry| entry.as_bytes().to_vec());
                directories.extend(entries);
            }
        }
    }
    directories
}

/// Searches that have directories in common, of one program each.
fn clusters<'f, 'a>(found: &'f [FoundSearch<'a>]) -> Vec<Vec<&'f FoundSearch<'a>>> {
    let mut joined: HashMap<(ProgramId, &[u8]), usize> = HashMap::new();
    let mut above: Vec<usize> = Vec::new();
    let top = |above: &[usize], mut at: usize| {
        while above[at] != at {
            at = above[at];
        }
        at
    };
    for search in found {
        let failed = search.failed_in();
        if failed.len() < FAILS_IN {
            continue;
        }
        let all = failed.into_iter().chain(search.found.map(|(root, _)| root));
        let mut first = None;
        for root in all {
            let own = *joined.entry((search.program, root)).or_insert_with(|| {
                above.push(above.len());
                above.len() - 1
            });
            let own = top(&above, own);
            let first = *first.get_or_insert(own);
            // The one that is older stays: chains stay short.
            let (low, high) = (top(&above, first).min(own), top(&above, first).max(own));
            above[high] = low;
        }
    }
    let mut clusters: BTreeMap<usize, Vec<&FoundSearch>> = BTreeMap::new();
    for search in found {
        let mut places =
            search.failed_in().into_iter().map(|root| joined.get(&(search.program, root)));
        // A search that ended early belongs to the list of all its directories.
        let Some(Some(first)) = places.next() else { continue };
        let first = top(&above, *first);
        if places.all(|place| place.is_some_and(|place| top(&above, *place) == first)) {
            clusters.entry(first).or_default().push(search);
        }
    }
    clusters.into_values().collect()
}

/// The list that searches have in common; none where it is too short, or another storm's.
fn list<'a>(survey: &OpSurvey<'a>, cluster: Vec<&FoundSearch<'a>>) -> Option<SearchedList<'a>> {
    let order = in_order(&cluster);
    if order.len() < DIRECTORIES || is_path(survey, &cluster, &order) {
        return None;
    }
    let program = cluster.first()?.program;
    let (name, given) = origin(survey, &cluster, &order);
    let places = Places::of(&order, &given);
    let mut searches = ListSearches {
        entries: places.entries.clone(),
        searches: Vec::with_capacity(cluster.len()),
    };
    let (mut claim, mut names) = (Vec::new(), OpTally::default());
    let mut processes = BTreeSet::new();
    for search in &cluster {
        processes.insert(search.process);
        claim.extend(search.probes.iter().map(|(_, op)| *op));
        claim.extend(search.found.map(|(_, op)| op));
        names.count(search.name, search.probes.len() as u64);
        let probes =
            search.probes.iter().map(|(root, op)| (places.of[*root], survey.event_of(*op)));
        let found = search.found.map(|(root, _)| places.of[root]);
        searches.searches.push(NameSearch { probes: probes.collect(), found });
    }
    let claimed: HashSet<OpId> = claim.iter().copied().collect();
    let mut at_once = HashSet::new();
    for (id, op) in survey.free().filter(|(id, op)| op.program == program && !claimed.contains(id))
    {
        if !can_search(&op) {
            continue;
        }
        if places.of.contains_key(op.path) {
            claim.push(id);
        } else if let (true, Kind::Open | Kind::Stat) = (op.succeeded(), op.kind) {
            // What the first directory has is found at once.
            let of_first = splits(op.path).find(|(root, _)| places.of.get(root) == Some(&0));
            if of_first.is_some_and(|(_, name)| at_once.insert((op.process(), stem(name)))) {
                searches.searches.push(NameSearch { probes: Vec::new(), found: Some(0) });
            }
        }
    }
    mark_used(survey, &places, &mut searches);
    claim.sort_unstable();
    let processes = processes.len() as u64;
    Some(SearchedList { name, program, processes, claim, names, searches })
}

/// Says of each directory whether a file in it was opened, by whomever (a program that lists a
/// directory first makes no search), and which lookups are of the directory itself.
fn mark_used(survey: &OpSurvey, places: &Places, searches: &mut ListSearches) {
    let opened =
        survey.ops().filter(|op| op.kind == Kind::Open && op.succeeded() && !op.event.is_listing());
    for op in opened {
        let of_entry = |(root, _): (&[u8], &[u8])| places.of.get(root).copied();
        if let Some(entry) = splits(op.path).find_map(of_entry) {
            searches.entries[entry].is_used = true;
        }
    }
    // Who checks the list itself does so whatever is searched.
    for (id, op) in survey.numbered() {
        if let Some(entry) = places.of.get(op.path) {
            searches.entries[*entry].own.push(survey.event_of(id));
        }
    }
}

/// The directories of searches in the order in which they are tried: that of the longest search, and
/// each of the others behind what it was tried after.
fn in_order<'a>(cluster: &[&FoundSearch<'a>]) -> Vec<&'a [u8]> {
    let sequence = |search: &&FoundSearch<'a>| {
        let mut roots = search.failed_in();
        let found = search.found.map(|(root, _)| root);
        roots.extend(found.filter(|found| !roots.contains(found)));
        roots
    };
    // Most searches are begins of one another.
    let all: HashSet<Vec<&[u8]>> = cluster.iter().map(sequence).collect();
    let mut sequences: Vec<_> = all.into_iter().collect();
    sequences.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
    let mut order: Vec<&[u8]> = Vec::new();
    for roots in sequences {
        let mut after = 0;
        for root in roots {
            match order.iter().position(|known| *known == root) {
                Some(at) => after = at + 1,
                None => {
                    order.insert(after, root);
                    after += 1;
                }
            }
        }
    }
    order
}

/// Where the directories come from, and which it gives, in its order.
fn origin(
    survey: &OpSurvey,
    cluster: &[&FoundSearch],
    order: &[&[u8]],
) -> (ListName, Vec<Vec<u8>>) {
    let mut best: Option<(usize, DeclaredList)> = None;
    for exec in execs(survey, cluster) {
        for list in declared::lists_of(survey.recording, exec) {
            let covered = list.directories.iter().filter(|directory| covers(directory, order));
            let covered = covered.count();
            let is_better = best.as_ref().is_none_or(|(known, _)| covered > *known);
            if covered >= 2 && covered * 3 >= order.len() && is_better {
                best = Some((covered, list));
            }
        }
    }
    if let Some((_, list)) = best {
        return (list.name, list.directories);
    }
    let all = order.iter().map(|root| root.to_vec()).collect();
    let of_node = order.iter().filter(|root| root.ends_with(b"/node_modules")).count();
    let own =
        execs(survey, cluster).first().and_then(|exec| declared::own_list(survey.recording, exec));
    match own {
        _ if of_node * 2 > order.len() => (ListName::Program("node_modules".to_owned()), all),
        Some(own) => (ListName::Program(own.to_owned()), all),
        None => (ListName::Unknown, all),
    }
}

/// Whether a directory of a list is one that was searched, or the only one it lies above.
fn covers(directory: &[u8], order: &[&[u8]]) -> bool {
    order.contains(&directory) || order.iter().any(|root| is_below(root, directory))
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// The most programs of a list whose variables and options are looked at: of a build they are alike.
const EXECS: usize = 64;

fn execs<'a>(survey: &OpSurvey<'a>, cluster: &[&FoundSearch]) -> Vec<&'a Exec> {
    let mut execs: Vec<&Exec> = Vec::new();
    let mut longest: Vec<_> = cluster.iter().collect();
    longest.sort_by_key(|search| std::cmp::Reverse(search.probes.len()));
    for search in longest {
        let exec = search.probes.first().and_then(|(_, op)| survey.op(*op).exec);
        let is_known = |exec: &&Exec| execs.iter().any(|known| std::ptr::eq(*known, *exec));
        if let Some(exec) = exec.filter(|exec| !is_known(exec)) {
            execs.push(exec);
        }
        if execs.len() == EXECS {
            break;
        }
    }
    execs
}

/// Whether the directories are those of PATH: these are another storm's, and no storm if they are few.
fn is_path(survey: &OpSurvey, cluster: &[&FoundSearch], order: &[&[u8]]) -> bool {
    execs(survey, cluster).iter().any(|exec| {
        let path = variable(exec, "PATH").unwrap_or_default();
        let of_path: HashSet<&[u8]> = path.split(':').map(str::as_bytes).collect();
        order.iter().filter(|root| of_path.contains(*root)).count() * 2 > order.len()
    })
}

/// The places of directories in a list.
struct Places<'a> {
    entries: Vec<ListEntry>,
    of: HashMap<&'a [u8], usize>,
}

impl<'a> Places<'a> {
    /// What is given in its own order, all else where it was tried.
    fn of(order: &[&'a [u8]], given: &'a [Vec<u8>]) -> Places<'a> {
        let place_in = |root: &[u8]| {
            let exact = given.iter().position(|directory| directory == root);
            let above = given.iter().enumerate().filter(|(_, above)| is_below(root, above));
            exact.or_else(|| above.max_by_key(|(_, above)| above.len()).map(|(at, _)| at))
        };
        let first = order.iter().position(|root| place_in(root).is_some()).unwrap_or(order.len());
        let (front, rest) = order.split_at(first);
        let back = rest.iter().filter(|root| place_in(root).is_none());
        let mut places = Places { entries: Vec::new(), of: HashMap::new() };
        front.iter().for_each(|root| places.add(root, false));
        given.iter().for_each(|directory| places.add(directory, true));
        back.for_each(|root| places.add(root, false));
        for root in order {
            if let Some(at) = place_in(root) {
                places.of.insert(root, front.len() + at);
            }
        }
        places
    }

    fn add(&mut self, directory: &'a [u8], is_given: bool) {
        self.of.insert(directory, self.entries.len());
        self.entries.push(ListEntry::new(directory, is_given));
    }
}
