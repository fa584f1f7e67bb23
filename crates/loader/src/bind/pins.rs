//! Which file each DT_NEEDED shall name, and which are left to the search.
//!
//! An entry is pinned to what it comes to in every start that is known, and only where pinning
//! cannot change what an unknown start loads: a library whose own search leads elsewhere than the
//! process it was seen in keeps the plain name, which costs nothing there, because the loader
//! knows the name by then.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::bars::Closed;
use super::collect::{ElfFileNames, OWN_DIRECTORY, numbers};
use super::own::OwnLists;
use super::resolve::{LoaderRun, ResolvedBy, Through, is_variant};
use super::variants::Variants;
use super::{Conflict, Leave};
use crate::FileId;
use crate::object::Tag;

/// What becomes of the DT_NEEDED entries of each file, by position.
#[derive(Debug, Default)]
pub(super) struct Pins {
    pub by_file: HashMap<usize, Vec<Pin>>,
    pub conflicts: Vec<Conflict>,
    /// The one path by which each file is known.
    pub names: HashMap<FileId, PathBuf>,
    pub closed: Closed,
}

/// What becomes of one DT_NEEDED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pin {
    /// It shall name this file.
    To(FileId),
    /// It stays, and no search is behind it: it holds a path, or it is the loader.
    Settled,
    /// It stays a name that is searched.
    Open(SearchedReason),
}

/// Why a name is left to the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SearchedReason {
    /// It is on the list of names that are not bound.
    Listed,
    /// Nothing serves it today.
    Missing,
    /// Two starts find two files.
    Conflict,
    /// It is served by what the process has loaded, not by what the library's own search finds.
    Served,
    /// It is found through `$ORIGIN`: a pin would tie the tree to its place.
    Relocatable,
    /// It is found through `$ORIGIN` by a file with names in several directories.
    Linked,
    /// Some who may use the file may not read what root finds: they load another.
    Closed,
    /// The loader chooses among files by the processor: `$PLATFORM`, glibc-hwcaps.
    Processor,
    /// Another name is missing there, so that the start relies on LD_LIBRARY_PATH.
    Incomplete,
    /// LD_LIBRARY_PATH leads to it: the next user's may lead elsewhere.
    Variable,
    /// The library is in no known start, and only the machine's own directories have it.
    Unknown,
}

impl SearchedReason {
    /// Why, in words; nothing where the name costs no search.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            SearchedReason::Served | SearchedReason::Conflict => None,
            SearchedReason::Listed => Some("on the list of names that are not bound"),
            SearchedReason::Missing => Some("not found today"),
            SearchedReason::Relocatable => {
                Some("found through $ORIGIN: --absolute binds it to its place")
            }
            SearchedReason::Linked => {
                Some("found through $ORIGIN by a file with names in several directories")
            }
            SearchedReason::Closed => Some("not everyone may read the file that is found"),
            SearchedReason::Processor => Some("the loader chooses the file by the processor"),
            SearchedReason::Incomplete => {
                Some("another library is missing: LD_LIBRARY_PATH will decide")
            }
            SearchedReason::Variable => Some("found through LD_LIBRARY_PATH"),
            SearchedReason::Unknown => Some("found by the system, in no program that is known"),
        }
    }
}

/// How to decide.
pub(super) struct PinRules<'a> {
    pub files: &'a [ElfFileNames],
    pub leave: &'a Leave,
    pub variants: &'a Variants<'a>,
    /// Whether trees that find themselves by `$ORIGIN` are bound to where they are.
    pub absolute: bool,
}

/// One start's say on one entry.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Vote {
    run: usize,
    to: Option<FileId>,
    found: ResolvedBy,
}

/// Decides for every file.
pub(super) fn decide(
    rules: &PinRules<'_>,
    programs: &[LoaderRun],
    alone: &[LoaderRun],
    own: &OwnLists<'_>,
) -> Pins {
    let numbers = numbers(rules.files);
    let votes = collect_votes(&numbers, programs);
    let alone_votes: HashMap<usize, Vec<Vote>> =
        alone.iter().enumerate().map(|(at, run)| (run.root, votes_of(run, at, 0))).collect();
    let elsewhere = |number: usize, entry: usize, name: &OsStr| match alone_votes.get(&number) {
        Some(votes) => votes.get(entry).and_then(|vote| vote.to),
        None => own.finds(&rules.files[number], name),
    };
    let winners = winners(programs);
    let names = names(rules.files, programs, alone);
    let mut pins = Pins { closed: Closed::of(&names), names, ..Pins::default() };
    for (number, file) in rules.files.iter().enumerate() {
        let decided = match votes.get(&number) {
            Some(votes) => {
                let elsewhere = |entry: usize, name: &OsStr| elsewhere(number, entry, name);
                by_programs(rules, file, votes, &elsewhere, programs, &mut pins.conflicts)
            }
            None => match alone_votes.get(&number) {
                Some(votes) => by_itself(rules, file, votes, &winners, alone),
                None => continue,
            },
        };
        let unless_closed = |pin| match pin {
            Pin::To(target) if pins.closed.is_closed(target, file.id) => {
                Pin::Open(SearchedReason::Closed)
            }
            other => other,
        };
        let decided = decided.into_iter().map(unless_closed).collect();
        pins.by_file.insert(number, decided);
    }
    pins
}

/// What all programs say of each file's entries: one list of votes for each entry.
fn collect_votes(
    numbers: &HashMap<FileId, usize>,
    programs: &[LoaderRun],
) -> HashMap<usize, Vec<Vec<Vote>>> {
    let mut votes: HashMap<usize, Vec<Vec<Vote>>> = HashMap::new();
    for (at, run) in programs.iter().enumerate() {
        for (member, what) in run.members.iter().enumerate() {
            let Some(number) = numbers.get(&what.id) else { continue };
            let entries =
                votes.entry(*number).or_insert_with(|| vec![Vec::new(); what.needed.len()]);
            for (entry, vote) in entries.iter_mut().zip(votes_of(run, at, member)) {
                // Most programs of a store say the same: the first that said it is enough.
                if !entry.iter().any(|known| says(known, programs) == says(&vote, programs)) {
                    entry.push(vote);
                }
            }
        }
    }
    votes
}

/// What matters of a vote: where it leads, by what kind of search, in a start that is complete.
fn says(vote: &Vote, programs: &[LoaderRun]) -> (Option<FileId>, ResolvedBy, bool) {
    let found = match vote.found {
        ResolvedBy::ByList { through, .. } => ResolvedBy::ByList { of: 0, through },
        other => other,
    };
    (vote.to, found, programs[vote.run].missing.is_empty())
}

fn votes_of(run: &LoaderRun, at: usize, member: usize) -> Vec<Vote> {
    let vote = |to: &Option<usize>| match to.map(|to| &run.members[to]) {
        Some(target) => Vote { run: at, to: Some(target.id), found: target.found },
        None => Vote { run: at, to: None, found: ResolvedBy::Directly },
    };
    run.members[member].needed.iter().map(vote).collect()
}

/// The files that each name came to in programs.
fn winners(programs: &[LoaderRun]) -> HashMap<OsString, HashSet<FileId>> {
    let mut winners: HashMap<OsString, HashSet<FileId>> = HashMap::new();
    for member in programs.iter().flat_map(|run| &run.members) {
        if let Some(name) = member.path.file_name() {
            winners.entry(name.to_owned()).or_default().insert(member.id);
        }
    }
    winners
}

/// The names of a file's DT_NEEDED entries.
pub(super) fn needed(file: &ElfFileNames) -> impl Iterator<Item = &OsStr> {
    let entries = file.object.dependencies.iter().filter(|entry| entry.tag == Tag::Needed);
    entries.map(|entry| entry.name.as_os_str())
}

fn by_programs(
    rules: &PinRules<'_>,
    file: &ElfFileNames,
    votes: &[Vec<Vote>],
    elsewhere: &dyn Fn(usize, &OsStr) -> Option<FileId>,
    programs: &[LoaderRun],
    conflicts: &mut Vec<Conflict>,
) -> Vec<Pin> {
    let decide = |(entry, name): (usize, &OsStr)| {
        let votes = votes.get(entry).map_or(&[][..], Vec::as_slice);
        if let Some(settled) = settled(rules, name, votes) {
            return settled;
        }
        let Some(Vote { to: Some(winner), .. }) = votes.first() else {
            return Pin::Open(SearchedReason::Missing);
        };
        if let Some(other) = votes.iter().find(|vote| vote.to != Some(*winner)) {
            let path_in = |run: usize, id: Option<FileId>| {
                let member = programs[run].members.iter().find(|member| Some(member.id) == id);
                member.map(|member| member.path.clone())
            };
            let side = |vote: &Vote| {
                let program = programs[vote.run].path(rules.files).to_owned();
                (program, path_in(vote.run, vote.to))
            };
            conflicts.push(Conflict {
                file: file.path().to_owned(),
                name: name.to_owned(),
                sides: [side(&votes[0]), side(other)],
            });
            return Pin::Open(SearchedReason::Conflict);
        }
        if let Some(open) = unsafe_to_pin(rules, votes, programs) {
            return Pin::Open(open);
        }
        // What the library would find in a start that is not known here.
        match file.is_program() {
            false if elsewhere(entry, name).is_some_and(|other| other != *winner) => {
                Pin::Open(SearchedReason::Served)
            }
            _ => Pin::To(*winner),
        }
    };
    needed(file).enumerate().map(decide).collect()
}

/// A library that no known program loads: only what its own list finds is sure, and only where
/// no program here has another file of that name.
fn by_itself(
    rules: &PinRules<'_>,
    file: &ElfFileNames,
    votes: &[Vote],
    winners: &HashMap<OsString, HashSet<FileId>>,
    alone: &[LoaderRun],
) -> Vec<Pin> {
    let decide = |(name, vote): (&OsStr, &Vote)| {
        if let Some(settled) = settled(rules, name, std::slice::from_ref(vote)) {
            return settled;
        }
        let Some(to) = vote.to else { return Pin::Open(SearchedReason::Missing) };
        if let Some(open) = unsafe_to_pin(rules, std::slice::from_ref(vote), alone) {
            return Pin::Open(open);
        }
        let others = winners.get(name).is_some_and(|ids| ids.iter().any(|id| *id != to));
        match vote.found {
            ResolvedBy::ByList { of: 0, .. } if !others => Pin::To(to),
            ResolvedBy::ByList { .. } => Pin::Open(SearchedReason::Served),
            _ => Pin::Open(SearchedReason::Unknown),
        }
    };
    needed(file).zip(votes).map(decide).collect()
}

/// What needs no decision.
fn settled(rules: &PinRules<'_>, name: &OsStr, votes: &[Vote]) -> Option<Pin> {
    if name.as_bytes().contains(&b'/') || votes.iter().any(|vote| vote.found == ResolvedBy::Loader)
    {
        return Some(Pin::Settled);
    }
    rules.leave.pattern(name).map(|_| Pin::Open(SearchedReason::Listed))
}

fn unsafe_to_pin(
    rules: &PinRules<'_>,
    votes: &[Vote],
    runs: &[LoaderRun],
) -> Option<SearchedReason> {
    let by = |wanted: Through| {
        votes.iter().any(
            |vote| matches!(vote.found, ResolvedBy::ByList { through, .. } if through == wanted),
        )
    };
    if by(Through::Processor) || votes.iter().any(|vote| has_variants(rules, vote, runs)) {
        return Some(SearchedReason::Processor);
    }
    if by(Through::Linked) {
        return Some(SearchedReason::Linked);
    }
    if !rules.absolute && by(Through::Origin) {
        return Some(SearchedReason::Relocatable);
    }
    if votes.iter().any(|vote| vote.found == ResolvedBy::ByVariable) {
        return Some(SearchedReason::Variable);
    }
    // A list in a file comes before LD_LIBRARY_PATH only if it is an RPATH; whoever relies on
    // the variable has other files in it, too.
    let by_list = |vote: &Vote| matches!(vote.found, ResolvedBy::ByList { .. });
    let relies = |vote: &Vote| !runs[vote.run].missing.is_empty() && !by_list(vote);
    votes.iter().any(relies).then_some(SearchedReason::Incomplete)
}

/// Whether there are variants of a file for some hardware, of this processor or another.
fn has_variants(rules: &PinRules<'_>, vote: &Vote, runs: &[LoaderRun]) -> bool {
    let mut members = runs[vote.run].members.iter();
    let Some(member) = members.find(|member| Some(member.id) == vote.to) else { return false };
    let (Some(directory), Some(name)) = (member.path.parent(), member.path.file_name()) else {
        return false;
    };
    is_variant(&member.path) || rules.variants.has(directory, name)
}

/// The one path by which each file shall be known: the loader compares paths before it opens
/// (`_dl_map_object`), so that a second path costs a second open. Of those it was opened by, the
/// one without detours that most starts use.
fn names(
    files: &[ElfFileNames],
    programs: &[LoaderRun],
    alone: &[LoaderRun],
) -> HashMap<FileId, PathBuf> {
    let mut used: HashMap<FileId, BTreeMap<&Path, usize>> = HashMap::new();
    for member in programs.iter().chain(alone).flat_map(|run| &run.members) {
        *used.entry(member.id).or_default().entry(&member.path).or_default() += 1;
    }
    // A link in a farm stands for the path that it leads to.
    let through_farm =
        |path: &Path| match path.components().any(|part| part.as_os_str() == OWN_DIRECTORY) {
            true => std::fs::read_link(path).unwrap_or_else(|_| path.to_owned()),
            false => path.to_owned(),
        };
    let own: HashMap<FileId, &ElfFileNames> = files.iter().map(|file| (file.id, file)).collect();
    let best = |(id, paths): (FileId, BTreeMap<&Path, usize>)| {
        let plain = |path: &Path| path.is_absolute() && is_normal(path);
        let chosen = paths
            .iter()
            .filter(|(path, _)| plain(path))
            .max_by_key(|(path, times)| (**times, std::cmp::Reverse(*path)))
            .map(|(path, _)| through_farm(path));
        // Only reached through `..`: its own name, if that is the same in every directory's eyes.
        let by_own_name = || own.get(&id).map(|file| file.path().to_owned());
        let any = || paths.keys().next().map(|path| path.to_path_buf());
        Some((id, chosen.or_else(by_own_name).or_else(any)?))
    };
    used.into_iter().filter_map(best).collect()
}

fn is_normal(path: &Path) -> bool {
    let text = path.as_os_str().as_bytes();
    let odd = |part: &[u8]| part.is_empty() || part == b"." || part == b"..";
    text.starts_with(b"/") && !text[1..].split(|byte| *byte == b'/').any(odd)
}
