//! From a recording to a [`ImportScan`].

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use recording::query::python::{ModuleDirectories, package_of};
use recording::{Event, Recording};

use crate::ask::{ImportOperation, NormalizedPaths, asks};
use crate::attribute::{PlacedOperation, attribute};
use crate::entry::{count_entries, slope, told_entries};
use crate::hook::Marks;
use crate::runs::{PythonRun, PythonRuns};
use crate::scan::{ByReason, Import, ImportCounts, ImportScan, Nesting, PackageImports, Python};
use crate::tree::ImportTally;
use crate::trouble::troubles;
use recording::module_search::{LookupReason, ModuleSearch, PythonCall};

/// What Python asked for its imports. `marks` are those of the hook that the command was
/// recorded with, if it was.
pub fn scan(recording: &Recording, marks: Option<&Marks>) -> ImportScan {
    let paths = NormalizedPaths::of(recording);
    let runs = PythonRuns::of(recording, marks);
    let asks = asks(recording, &paths, &runs, marks);
    let known =
        ModuleSearch::of(recording, &own(&asks, &runs), &told_entries(recording, &runs, &asks));
    let packages = packages(&asks);
    let searched = known.sys_path.entries().iter().map(|entry| Cow::Borrowed(&entry[..])).collect();
    let places = ModuleDirectories { entries: searched, packages: &packages };
    let (placed, tree) = attribute(&asks, &runs, &known, &places);
    let troubles = troubles(&placed, &tree, &known, &places);
    let in_imports: Vec<&PlacedOperation> =
        placed.iter().filter(|placed| placed.node.is_some()).collect();
    let modules = tree.imports();
    let sys_path = count_entries(&known.sys_path, &in_imports);
    ImportScan {
        nesting: nesting(&runs),
        pythons: pythons(recording, &runs, &placed),
        all: all(recording, &runs, &placed),
        python: tally(placed.iter().map(|placed| placed.ask.event)).counts(),
        imports: tally(in_imports.iter().map(|placed| placed.ask.event)).counts(),
        reasons: reasons(&in_imports),
        packages: by_package(&modules, &in_imports),
        modules,
        slope: slope(&sys_path),
        sys_path,
        troubles,
    }
}

/// The operations that Python made by itself, of which some are imports.
fn own<'a>(asks: &[ImportOperation<'a>], runs: &PythonRuns<'a>) -> Vec<PythonCall<'a>> {
    let own = asks.iter().filter(|ask| ask.mark.is_none() && !ask.event.in_loader);
    let call = |ask: &ImportOperation<'a>| {
        let exec = runs.run(ask.run).exec?;
        Some(PythonCall { event: ask.event, path: ask.path, exec })
    };
    own.filter_map(call).collect()
}

/// The directories that hold an `__init__` file that was there: packages.
fn packages<'a>(asks: &[ImportOperation<'a>]) -> HashSet<&'a [u8]> {
    let answered = asks.iter().filter(|ask| ask.is_yes() && !ask.is_listing());
    answered.filter_map(|ask| package_of(ask.path)).collect()
}

fn tally<'e>(events: impl Iterator<Item = &'e Event>) -> ImportTally {
    let mut tally = ImportTally::default();
    events.for_each(|event| tally.add(event));
    tally
}

fn nesting(runs: &PythonRuns) -> Nesting {
    let own = || runs.all.iter().filter(|run| run.is_python && run.forked_from.is_none());
    match (own().any(|run| run.is_marked), own().any(|run| !run.is_marked)) {
        (true, false) => Nesting::Exact,
        (true, true) => Nesting::Mixed,
        (false, _) => Nesting::ByPath,
    }
}

/// The runs of Python. A child that was forked to execute something else is none.
fn pythons(recording: &Recording, runs: &PythonRuns, placed: &[PlacedOperation]) -> Vec<Python> {
    let mut tallies = vec![ImportTally::default(); runs.all.len()];
    for placed in placed {
        tallies[placed.ask.run.0].add(placed.ask.event);
    }
    let python = |(run, tally): (&PythonRun, ImportTally)| {
        let exec = run.exec.filter(|_| run.is_python)?;
        let counts = tally.counts();
        let process = recording.process(run.process);
        let stays = run.forked_from.is_none() || process.execs.is_empty();
        (stays && counts.metadata_ops > 0).then(|| Python {
            program: recording.shown(exec.path),
            argv: exec.argv.iter().map(recording::shown_name).collect(),
            pid: process.pid,
            exact: run.is_marked,
            counts,
        })
    };
    runs.all.iter().zip(tallies).filter_map(python).collect()
}

/// All operations but the hook's, which only Python's runs make.
fn all(recording: &Recording, runs: &PythonRuns, placed: &[PlacedOperation]) -> ImportCounts {
    let mut tally = tally(placed.iter().map(|placed| placed.ask.event));
    for event in recording.events.iter().filter(|event| event.is_metadata()) {
        if !runs.run(runs.of_event(event)).is_python {
            tally.add(event);
        }
    }
    tally.counts()
}

fn reasons(in_imports: &[&PlacedOperation]) -> Vec<ByReason> {
    let mut tallies: BTreeMap<LookupReason, ImportTally> = BTreeMap::new();
    for placed in in_imports {
        tallies.entry(placed.reason).or_default().add(placed.ask.event);
    }
    let mut reasons: Vec<_> = tallies
        .into_iter()
        .map(|(reason, tally)| ByReason { reason, counts: tally.counts() })
        .collect();
    reasons.sort_by_key(|by| (Reverse(by.counts.metadata_ops), by.reason));
    reasons
}

/// What was asked for all modules whose names begin with the same part.
fn by_package(modules: &[Import], in_imports: &[&PlacedOperation]) -> Vec<PackageImports> {
    let package = |module: &Import| {
        let name = &module.module;
        name.split('.').next().filter(|part| !part.is_empty()).unwrap_or(name).to_owned()
    };
    let mut packages: BTreeMap<String, (HashSet<&str>, ImportTally)> = BTreeMap::new();
    for placed in in_imports {
        let Some(module) = placed.node.and_then(|node| modules.get(node.0)) else { continue };
        let (names, tally) = packages.entry(package(module)).or_default();
        names.insert(&module.module);
        tally.add(placed.ask.event);
    }
    let mut packages: Vec<_> = packages
        .into_iter()
        .map(|(package, (names, tally))| PackageImports {
            package,
            modules: names.len() as u64,
            counts: tally.counts(),
        })
        .collect();
    packages.sort_by(|a, b| {
        b.counts.metadata_ops.cmp(&a.counts.metadata_ops).then_with(|| a.package.cmp(&b.package))
    });
    packages
}
