//! Starts with edited files in them, compared with today's.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use super::attempt::BindAttempt;
use super::collect::ElfFileNames;
use super::differing::{EditedStart, EditedWorld, because_of};
use super::resolve::{LoaderRun, LoaderRunObject, ResolvedBy, Resolver};
use super::spared::spared;
use super::today::is_loader;
use super::wanted::BindFacts;
use super::{BindMode, Effect};
use crate::{FileId, PlannedWorld};

/// The starts with edits in them, all of which load what they load today.
pub(super) struct Compared {
    pub programs: Vec<Effect>,
    /// Libraries that no program loads.
    pub libraries: Vec<Effect>,
    /// Files whose edit spares no start anything.
    pub idle: Vec<usize>,
    /// Files because of whose edit their starts look up more than today.
    pub costly: Vec<usize>,
}

/// A start with edited files in it that loads what it loads today.
struct AgreeingStart<'a> {
    effect: Effect,
    with: EditedStart<'a>,
    /// How many lookups less it makes.
    saved: i64,
}

/// What a start with edited files in it comes to; where it is told, if it agrees.
type Rerun<'a> = Result<Option<AgreeingStart<'a>>, EditedStart<'a>>;

/// Simulates every start with an edited file in it; or gives the edited files because of which
/// starts would load something else, or, not `precisely`, all that are in such starts.
pub(super) fn compare(
    resolver: &Resolver<'_>,
    known: &BindFacts<'_>,
    with: &EditedWorld<'_>,
    edits: &[Arc<BindAttempt>],
    precisely: bool,
) -> Result<Compared, BTreeSet<usize>> {
    let world = &with(&|_| true);
    let edited: HashMap<FileId, usize> =
        edits.iter().map(|made| (known.files[made.number].id, made.number)).collect();
    let rerun = |runs| rerun(resolver, known, world, &edited, runs);
    let (relying, _) = resolver.runs(&relying(known, edits), &|| ());
    let all = [rerun(known.programs), rerun(known.alone), rerun(&relying)];
    let differing: Vec<_> = all.iter().flatten().filter_map(|each| each.as_ref().err()).collect();
    if !differing.is_empty() {
        return Err(match precisely {
            true => because_of(resolver, with, &differing, is_same),
            false => differing.iter().flat_map(|start| &start.edited).copied().collect(),
        });
    }
    let [programs, libraries, _] =
        all.map(|runs| runs.into_iter().filter_map(Result::ok).flatten());
    let (programs, libraries): (Vec<_>, Vec<_>) = (programs.collect(), libraries.collect());
    let mut saved: HashMap<usize, (bool, i64)> = HashMap::new();
    let starts = || programs.iter().chain(&libraries);
    for start in starts() {
        for number in &start.with.edited {
            let (is_useful, sum) = saved.entry(*number).or_default();
            *is_useful |= start.saved > 0;
            *sum += start.saved;
        }
    }
    let idle = edits.iter().map(|made| made.number);
    let idle = idle.filter(|number| !saved.get(number).is_some_and(|(useful, _)| *useful));
    // What one start pays for others may be worth it; what all pay for is not.
    let dearer = |start: &&AgreeingStart<'_>| start.saved < 0;
    let dearer: Vec<_> = starts().filter(dearer).map(|start| &start.with).collect();
    let as_calm = |before: &LoaderRun, after: &LoaderRun| saved_in(before, after) >= 0;
    let costly = match precisely {
        true => because_of(resolver, with, &dearer, as_calm),
        false => BTreeSet::new(),
    };
    let costly =
        costly.into_iter().filter(|number| saved.get(number).is_some_and(|(_, sum)| *sum <= 0));
    let (idle, costly) = (idle.collect(), costly.collect());
    let effects = |all: Vec<AgreeingStart<'_>>| all.into_iter().map(|start| start.effect).collect();
    Ok(Compared { idle, costly, programs: effects(programs), libraries: effects(libraries) })
}

/// Simulates those of the starts again that have an edited file in them.
fn rerun<'r>(
    resolver: &Resolver<'_>,
    known: &BindFacts<'_>,
    world: &PlannedWorld<'_>,
    edited: &HashMap<FileId, usize>,
    starts: &'r [LoaderRun],
) -> Vec<Rerun<'r>> {
    let again = |before: &'r LoaderRun| {
        let members = members(before, edited);
        if members.is_empty() {
            return None;
        }
        Some(match resolver.again(world, before) {
            Ok(after) if is_same(before, &after) && !before.is_told => Ok(None),
            Ok(after) if is_same(before, &after) => {
                let mut effect = effect(known.files, before, &after);
                if known.options.list_spared && before.is_program {
                    // A farm that is searched before a list that stays makes others' starts dearer.
                    let adds = known.mode_of(before.root) == BindMode::Farm;
                    let spared = spared(resolver, world, before);
                    effect.spared = spared.filter(|spared| !adds || spared.instead == 0);
                }
                let with = EditedStart { start: before, edited: members };
                Ok(Some(AgreeingStart { effect, with, saved: saved_in(before, &after) }))
            }
            _ => Err(EditedStart { start: before, edited: members }),
        })
    };
    starts.par_iter().filter_map(again).collect()
}

/// How many lookups less a start makes, once nothing is missing; below 0 where it makes more.
fn saved_in(before: &LoaderRun, after: &LoaderRun) -> i64 {
    let asks = |run: &LoaderRun| (run.when_whole.opens + run.when_whole.stats).cast_signed();
    asks(before) - asks(after)
}

/// Libraries that programs load and whose list of directories changes, though something that they
/// need searches on and may look there: in another process than those that are known, too.
fn relying(known: &BindFacts<'_>, edits: &[Arc<BindAttempt>]) -> Vec<usize> {
    let closed: HashMap<FileId, bool> = edits
        .iter()
        .map(|made| {
            let bare = |name: &OsString| !name.as_bytes().contains(&b'/') && !is_loader(name);
            (known.files[made.number].id, !made.object.needed().any(bare))
        })
        .collect();
    let searches_on = |member: &LoaderRunObject| {
        let is_closed = closed.get(&member.id).copied().unwrap_or(member.is_closed);
        !is_closed && member.found != ResolvedBy::Kernel
    };
    let open: HashSet<FileId> = known
        .programs
        .iter()
        .flat_map(|run| run.reaching(searches_on))
        .map(|member| member.id)
        .collect();
    let alone: HashSet<usize> = known.alone.iter().map(|run| run.root).collect();
    let relies = |made: &&Arc<BindAttempt>| {
        let file = &known.files[made.number];
        let (was, is) = (&file.object, &made.object);
        let other_list = (&was.rpath, &was.runpath) != (&is.rpath, &is.runpath);
        other_list && !file.is_program() && open.contains(&file.id) && !alone.contains(&made.number)
    };
    edits.iter().filter(relies).map(|made| made.number).collect()
}

fn members(run: &LoaderRun, edited: &HashMap<FileId, usize>) -> Vec<usize> {
    run.members.iter().filter_map(|member| edited.get(&member.id)).copied().collect()
}

/// Whether the same files come in the same order, and the same serves each need. A closure
/// library, which holds no code, does not count.
pub(super) fn is_same(before: &LoaderRun, after: &LoaderRun) -> bool {
    let (mut was, mut is) = (served(before), served(after));
    // A program with a closure library needs that alone.
    if after.members.iter().any(|member| is_closure(&member.path)) {
        let programs = was.first_mut().into_iter().chain(is.first_mut());
        programs.for_each(|(_, needs)| needs.clear());
    }
    // A library alone may now find what only programs could find for it.
    if !before.is_program && !before.missing.is_empty() {
        let is: HashMap<_, _> = is.into_iter().collect();
        return was.iter().all(|(id, needs)| {
            let Some(now) = is.get(id) else { return false };
            needs.iter().zip(now).all(|(was, is)| was.is_none() || was == is)
        });
    }
    before.missing == after.missing && before.opened == after.opened && was == is
}

/// Every object in its order, and what serves its needs, each once: a need that is served already
/// changes nothing.
pub(super) fn served(run: &LoaderRun) -> Vec<(FileId, Vec<Option<FileId>>)> {
    let needs = |member: &LoaderRunObject| {
        let mut seen = HashSet::new();
        let to = member.needed.iter().map(|to| to.map(|to| run.members[to].id));
        to.filter(|to| to.is_none_or(|id| seen.insert(id))).collect()
    };
    let real = run.members.iter().filter(|member| !is_closure(&member.path));
    real.map(|member| (member.id, needs(member))).collect()
}

fn is_closure(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"libbecalm-closure-"))
}

fn effect(files: &[ElfFileNames], before: &LoaderRun, after: &LoaderRun) -> Effect {
    Effect {
        path: before.path(files).to_owned(),
        objects: before.members.len(),
        before: before.counts,
        after: after.counts,
        not_found: before.missing.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
        spared: None,
    }
}
