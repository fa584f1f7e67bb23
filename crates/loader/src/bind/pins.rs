//! Which file each DT_NEEDED shall name, and which are left to the search.
//!
//! An entry is pinned to what it comes to in every start that is known, and only where pinning
//! cannot change what an unknown start loads: a library whose own search leads elsewhere than the
//! process it was seen in keeps the plain name, which costs nothing there, because the loader
//! knows the name by then.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::bars::Closed;
use super::collect::{ElfFileNames, numbers};
use super::copies::LibraryCopies;
use super::known_by::NameLoss;
use super::movable::stays_a_name;
use super::names::names;
use super::openers::Openers;
use super::own::OwnLists;
use super::packed::PackedPaths;
use super::reasons::SearchedReason;
use super::resolve::{LoaderRun, ResolvedBy};
use super::through::Through;
use super::variants::Variants;
use super::{Conflict, Leave, working};
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

impl Pins {
    /// Whether a file has a name that would be bound.
    pub fn binds(&self, number: usize) -> bool {
        let pins = self.by_file.get(&number);
        pins.is_some_and(|pins| pins.iter().any(|pin| matches!(pin, Pin::To(_))))
    }
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

/// How to decide.
pub(super) struct PinRules<'a> {
    pub name_loss: &'a NameLoss,
    pub files: &'a [ElfFileNames],
    pub leave: &'a Leave,
    pub variants: &'a Variants<'a>,
    /// Whether trees that find themselves by `$ORIGIN` are bound to where they are.
    pub absolute: bool,
    pub name_copies: bool,
    /// Whether programs that are not known load the same libraries.
    pub others_load: bool,
    pub packed: &'a PackedPaths<'a>,
    /// Files that programs load only while they run.
    pub later: &'a HashSet<FileId>,
    pub copies: &'a LibraryCopies<'a>,
    pub openers: &'a Openers<'a>,
    /// Files with a list that leads to where a program is started.
    pub in_working_directory: &'a FxHashSet<FileId>,
}

/// One start's say on one entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Vote {
    pub run: usize,
    pub to: Option<FileId>,
    pub found: ResolvedBy,
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
    let alone_votes = collect_alone_votes(alone);
    let winners = winners(programs);
    let names = names(rules.files, programs, alone);
    let closed = Closed::of(&names, rules.files);
    let of_file = |(number, file): (usize, &ElfFileNames)| {
        let mut conflicts = Vec::new();
        let decided = match (votes.get(&number), alone_votes.get(&number)) {
            (Some(votes), alone_votes) => {
                let positions = OnceCell::new();
                let elsewhere = |entry: usize, name: &OsStr| match alone_votes {
                    Some(votes) => {
                        votes.get(entry).into_iter().flatten().filter_map(|vote| vote.to).collect()
                    }
                    None => own.finds(positions.get_or_init(|| own.positions(file)), name),
                };
                by_programs(rules, file, votes, &elsewhere, programs, &mut conflicts)
            }
            (None, Some(votes)) => by_itself(rules, file, votes, &winners, alone),
            (None, None) => return None,
        };
        let unless_closed = |pin| match pin {
            Pin::To(target) if closed.is_closed(target, file.id) => {
                Pin::Open(SearchedReason::Closed)
            }
            other => other,
        };
        let decided: Vec<Pin> = decided.into_iter().map(unless_closed).collect();
        Some(((number, decided), conflicts))
    };
    let decided: Vec<_> = rules.files.par_iter().enumerate().filter_map(of_file).collect();
    let (by_file, conflicts): (_, Vec<_>) = decided.into_iter().unzip();
    Pins { by_file, conflicts: conflicts.concat(), names, closed }
}

/// What all programs say of each file's entries: one list of votes for each entry.
fn collect_votes(
    numbers: &FxHashMap<FileId, usize>,
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

/// What each library's own starts say of its entries: without an environment, and in each.
fn collect_alone_votes(alone: &[LoaderRun]) -> HashMap<usize, Vec<Vec<Vote>>> {
    let mut votes: HashMap<usize, Vec<Vec<Vote>>> = HashMap::new();
    for (at, run) in alone.iter().enumerate() {
        let said = votes_of(run, at, 0);
        let entries = votes.entry(run.root).or_insert_with(|| vec![Vec::new(); said.len()]);
        entries.iter_mut().zip(said).for_each(|(entry, vote)| entry.push(vote));
    }
    votes
}

/// What matters of a vote: where it leads, by what kind of search, in a start that is complete,
/// and whether that start has an environment.
fn says(vote: &Vote, programs: &[LoaderRun]) -> (Option<FileId>, ResolvedBy, bool, bool) {
    let found = match vote.found {
        ResolvedBy::ByList { through, .. } => ResolvedBy::ByList { of: 0, through },
        other => other,
    };
    let run = &programs[vote.run];
    (vote.to, found, run.missing.is_empty(), run.environment.is_some())
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
    elsewhere: &dyn Fn(usize, &OsStr) -> Vec<FileId>,
    programs: &[LoaderRun],
    conflicts: &mut Vec<Conflict>,
) -> Vec<Pin> {
    let decide = |(entry, name): (usize, &OsStr)| {
        let votes = votes.get(entry).map_or(&[][..], Vec::as_slice);
        if let Some(settled) = settled(rules, name, votes) {
            return settled;
        }
        if is_steered(votes, programs) {
            return Pin::Open(SearchedReason::Environment);
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
        if let Some(open) = unsafe_to_pin(rules, (file, name), votes, programs) {
            return Pin::Open(open);
        }
        // What the library would find in a start that is not known here.
        if file.is_program() {
            return Pin::To(*winner);
        }
        let own = elsewhere(entry, name);
        match own.iter().all(|other| other == winner) {
            false => Pin::Open(SearchedReason::Served),
            true if own.is_empty() && rules.others_load && is_inherited(file, votes, programs) => {
                Pin::Open(SearchedReason::Inherited)
            }
            true if rules.openers.find_another(file, name, *winner, !own.is_empty()) => {
                Pin::Open(SearchedReason::Opened)
            }
            true => Pin::To(*winner),
        }
    };
    needed(file).enumerate().map(decide).collect()
}

/// Whether a list that another object brings along leads to it in some start.
fn is_inherited(file: &ElfFileNames, votes: &[Vote], programs: &[LoaderRun]) -> bool {
    votes.iter().any(|vote| match vote.found {
        ResolvedBy::ByList { of, .. } => programs[vote.run].members[of].id != file.id,
        _ => false,
    })
}

/// A library that no known program loads: only what its own list finds is sure, and only where
/// no program here has another file of that name.
fn by_itself(
    rules: &PinRules<'_>,
    file: &ElfFileNames,
    votes: &[Vec<Vote>],
    winners: &HashMap<OsString, HashSet<FileId>>,
    alone: &[LoaderRun],
) -> Vec<Pin> {
    let decide = |(name, votes): (&OsStr, &Vec<Vote>)| {
        if let Some(settled) = settled(rules, name, votes) {
            return settled;
        }
        if is_steered(votes, alone) {
            return Pin::Open(SearchedReason::Environment);
        }
        let Some(Vote { to: Some(to), found, .. }) = votes.first() else {
            return Pin::Open(SearchedReason::Missing);
        };
        if let Some(open) = unsafe_to_pin(rules, (file, name), votes, alone) {
            return Pin::Open(open);
        }
        // Whoever opens it may have opened another copy's user before.
        if !rules.name_copies && votes.iter().any(|vote| rules.copies.has_any_of(vote, alone)) {
            return Pin::Open(SearchedReason::SeveralCopies);
        }
        let others = winners.get(name).is_some_and(|ids| ids.iter().any(|id| id != to));
        match found {
            ResolvedBy::ByList { of: 0, .. } if !others => Pin::To(*to),
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

/// Whether an environment leads elsewhere than starts without one, which agree.
fn is_steered(votes: &[Vote], runs: &[LoaderRun]) -> bool {
    let (theirs, plain): (Vec<&Vote>, Vec<&Vote>) =
        votes.iter().partition(|vote| runs[vote.run].environment.is_some());
    let Some(first) = plain.first() else { return false };
    plain.iter().all(|vote| vote.to == first.to) && theirs.iter().any(|vote| vote.to != first.to)
}

fn unsafe_to_pin(
    rules: &PinRules<'_>,
    (file, name): (&ElfFileNames, &OsStr),
    votes: &[Vote],
    runs: &[LoaderRun],
) -> Option<SearchedReason> {
    let by = |wanted: Through| {
        votes.iter().any(
            |vote| matches!(vote.found, ResolvedBy::ByList { through, .. } if through == wanted),
        )
    };
    if by(Through::Processor) || votes.iter().any(|vote| rules.variants.has_any_of(vote, runs)) {
        return Some(SearchedReason::Processor);
    }
    let asks_first = |vote: &Vote| {
        let run = &runs[vote.run];
        let target = run.members.iter().find(|member| Some(member.id) == vote.to);
        target.is_some_and(|target| working::is_asked_first(run, target))
    };
    if !rules.in_working_directory.is_empty() && votes.iter().any(asks_first) {
        return Some(SearchedReason::WorkingDirectory);
    }
    if by(Through::Dollar) {
        return Some(SearchedReason::Dollar);
    }
    if by(Through::Linked) {
        return Some(SearchedReason::Linked);
    }
    if votes.iter().any(|vote| loses_name(rules, file, name, vote, runs)) {
        return Some(SearchedReason::Unnamed);
    }
    if rules.packed.is_image() {
        let refuses = |it: &Vote| rules.packed.refuses(file, name, it.to, it.found, &runs[it.run]);
        if let Some(refused) = votes.iter().find_map(refuses) {
            return Some(refused);
        }
    } else if !rules.name_copies
        && rules.later.contains(&file.id)
        && votes.iter().any(|vote| rules.copies.has_any_of(vote, runs))
    {
        return Some(SearchedReason::SeveralCopies);
    } else if !rules.absolute && rules.later.contains(&file.id) {
        if let Some(reason) = stays_a_name(file, votes, runs) {
            return Some(reason);
        }
    } else if !rules.absolute && by(Through::Origin) {
        return Some(SearchedReason::Relocatable);
    }
    if votes.iter().any(|vote| vote.found == ResolvedBy::ByEnvironment) {
        return Some(SearchedReason::Environment);
    }
    // A list in a file comes before LD_LIBRARY_PATH only if it is an RPATH; whoever relies on
    // the variable has other files in it, too.
    let by_list = |vote: &Vote| matches!(vote.found, ResolvedBy::ByList { .. });
    let relies = |vote: &Vote| !runs[vote.run].missing.is_empty() && !by_list(vote);
    votes.iter().any(relies).then_some(SearchedReason::Incomplete)
}

fn loses_name(
    rules: &PinRules<'_>,
    file: &ElfFileNames,
    name: &OsStr,
    vote: &Vote,
    runs: &[LoaderRun],
) -> bool {
    let run = &runs[vote.run];
    let target = run.members.iter().find(|member| Some(member.id) == vote.to);
    target.is_some_and(|it| rules.name_loss.concerns(file.id, name, &it.object, run.is_musl))
}
