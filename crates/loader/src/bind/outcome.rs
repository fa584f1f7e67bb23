//! What planning came to, put together for whoever asked.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use rustc_hash::FxHashSet;

use super::attempt::{Attempted, BindAttempt};
use super::pins::{Pin, needed};
use super::resolve::{LoaderRunObject, ResolvedBy};
use super::wanted::BindFacts;
use super::{BindChange, BindMode, Binding, BoundSearchPath, KeepRpath, NameLeft};
use crate::{ElfObject, FileId};

/// The risk of binding what is loaded by programs that open libraries by name.
pub const WHILE_PROGRAMS_RUN: &str = "A program that runs meanwhile, or while this is undone, and then opens a library by name may \
                                      load one twice, or not find it: choose a time without jobs.";

/// Puts the result together.
pub(super) fn finish(known: &BindFacts<'_>, attempted: Attempted) -> Binding {
    let mut binding = Binding::default();
    let Attempted { wanted, edits, programs, libraries } = attempted;
    let used = used(&edits);
    binding.changes = edits.par_iter().map(|made| change(known, made)).collect();
    let mut directories = BTreeSet::new();
    // What another application has made: who takes that back is to know.
    let mut there = Vec::new();
    for (directory, links) in &wanted.farms.made {
        if !used.contains(directory.as_os_str().as_bytes()) {
            continue;
        }
        add_directories(directory, &mut directories);
        for (name, target) in links {
            let link = directory.join(name);
            match std::fs::read_link(&link).ok().as_ref() == Some(target) {
                true => there.push(link),
                false => binding.links.push((link, target.clone())),
            }
        }
    }
    for (path, content) in wanted.stubs {
        if !used.contains(path.as_os_str().as_bytes()) {
            continue;
        }
        if std::fs::read(&path).ok().as_ref() == Some(&content) {
            there.push(path);
        } else {
            path.parent()
                .into_iter()
                .for_each(|directory| add_directories(directory, &mut directories));
            binding.files.push((path, content));
        }
    }
    binding.directories = directories.into_iter().collect();
    binding.named = named(known, &edits, &binding);
    let seen = |path: PathBuf| Some((known.world.open(&path).ok()?.seen?, path));
    binding.named.extend(there.into_iter().filter_map(seen).map(|(seen, path)| (path, seen)));
    binding.conflicts = known.pins.conflicts.clone();
    binding.names_left = names_left(known);
    binding.risks = risks(known, &binding, &edits);
    (binding.programs, binding.libraries) = (programs, libraries);
    binding
}

/// The names that stay, where that costs searches.
fn names_left(known: &BindFacts<'_>) -> Vec<NameLeft> {
    let mut numbers: Vec<usize> = known.candidates.iter().copied().collect();
    numbers.sort_unstable();
    let names = numbers.into_iter().flat_map(|number| {
        let file = &known.files[number];
        let pins = known.pins.by_file.get(&number).map_or(&[][..], Vec::as_slice);
        needed(file).zip(pins).filter_map(|(name, pin)| {
            let Pin::Open(open) = pin else { return None };
            let (file, name) = (file.path().to_owned(), name.to_owned());
            Some(NameLeft { file, name, reason: open.reason()? })
        })
    });
    names.collect()
}

/// The files that edited files and new ones name, or that are loaded with them from the same lists, and that are
/// not changed themselves: the plan holds as long as they are what was read. A library that is bound already
/// may be one because of which a program's list goes.
fn named(
    known: &BindFacts<'_>,
    edits: &[Arc<BindAttempt>],
    binding: &Binding,
) -> Vec<(PathBuf, remedy::Seen)> {
    let edited: HashSet<FileId> = edits.iter().map(|made| known.files[made.number].id).collect();
    let stubs = binding.files.iter().filter_map(|(_, content)| ElfObject::parse(content).ok());
    let stubs: Vec<_> = stubs.collect();
    let by_edits = binding.changes.iter().flat_map(|change| &change.needed).map(|(_, new)| new);
    let names = by_edits.chain(stubs.iter().flat_map(ElfObject::needed)).map(OsString::as_os_str);
    let targets = binding.links.iter().map(|(_, target)| target.as_os_str());
    let is_of_store = |it: &&LoaderRunObject| {
        matches!(it.found, ResolvedBy::Directly | ResolvedBy::ByList { .. })
    };
    let starts = known.programs.iter();
    let starts = starts.filter(|run| run.members.iter().any(|it| edited.contains(&it.id)));
    let loaded = starts.flat_map(|run| &run.members).filter(is_of_store);
    let loaded = loaded.filter(|it| !edited.contains(&it.id)).map(|it| it.path.as_os_str());
    // Byte for byte: to compare paths by their parts takes longer than what is done with them here.
    let paths: HashSet<&OsStr> = names
        .chain(targets)
        .chain(loaded)
        .filter(|name| name.as_bytes().starts_with(b"/"))
        .collect();
    let seen = |path: &OsStr| {
        let opened = known.world.open(Path::new(path)).ok();
        let seen = opened.filter(|opened| !edited.contains(&opened.id))?.seen?;
        Some((PathBuf::from(path), seen))
    };
    let mut named: Vec<_> = paths.into_iter().filter_map(seen).collect();
    named.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    named
}

/// The names and directories that edited files hold afterwards.
fn used(edits: &[Arc<BindAttempt>]) -> FxHashSet<&[u8]> {
    fn texts(made: &BindAttempt) -> impl Iterator<Item = &[u8]> {
        let object = &made.object;
        let lists = object.rpath.iter().chain(&object.runpath);
        let directories = lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b':'));
        let needed = object.needed().map(|name| name.as_bytes());
        needed.chain(directories)
    }
    edits.iter().flat_map(|made| texts(made)).collect()
}

/// A directory that is not there, and those above it that are not.
fn add_directories(directory: &Path, directories: &mut BTreeSet<PathBuf>) {
    let absent = directory.ancestors().take_while(|directory| !directory.exists());
    directories.extend(absent.map(Path::to_path_buf));
}

fn change(known: &BindFacts<'_>, made: &BindAttempt) -> BindChange {
    let file = &known.files[made.number];
    let pairs = file.object.needed().cloned().zip(made.object.needed().cloned());
    let lists =
        BoundSearchPath { before: Arc::clone(&file.object), after: Arc::clone(&made.object) };
    BindChange {
        path: file.path().to_owned(),
        also: file.names[1..].to_vec(),
        seen: made.seen,
        needed: pairs.filter(|(old, new)| old != new).collect(),
        search: (lists.before() != lists.after()).then_some(lists),
        gives_way: file.object.runpath.is_some() || known.musl.contains(&made.number),
        tier: made.edited.tier,
        patches: Arc::clone(&made.edited.patches),
    }
}

fn risks(known: &BindFacts<'_>, binding: &Binding, edits: &[Arc<BindAttempt>]) -> Vec<String> {
    let mut risks = Vec::new();
    if binding.changes.is_empty() {
        return risks;
    }
    risks.push(
        "Checksums and signatures of the changed files no longer match what their package \
         manager or IMA keeps of them."
            .to_owned(),
    );
    let modes: HashSet<BindMode> =
        known.candidates.iter().map(|number| known.mode_of(*number)).collect();
    if modes.contains(&BindMode::Needed) || modes.contains(&BindMode::Closure) {
        risks.push(
            "LD_LIBRARY_PATH no longer replaces a bound library; another copy that is preloaded, \
             or that a program elsewhere brings along, is loaded besides."
                .to_owned(),
        );
    }
    if let Some(path) = outside(known, binding) {
        risks.push(format!(
            "Bound to files outside the given paths, such as {}, they start only where these are: \
             mind other images and containers.",
            path.display()
        ));
    }
    if known.options.keep_rpath == KeepRpath::None {
        risks.push(
            "What programs open by name (dlopen), and only a removed list led to, is no longer \
             found."
                .to_owned(),
        );
    }
    let keeps_rpath = |change: &&BindChange| {
        change.search.as_ref().is_some_and(|list| list.after.rpath.is_some())
    };
    if known.options.overridable
        && let Some(change) = binding.changes.iter().find(keeps_rpath)
    {
        risks.push(format!(
            "In starts of some files, such as {}, LD_LIBRARY_PATH does not win: what may be opened \
             by name there (dlopen) is found by a DT_RPATH only.",
            change.path.display()
        ));
    }
    let mut named = binding.changes.iter().flat_map(|change| &change.needed);
    if named.any(|(_, name)| name.as_bytes().starts_with(b"$")) {
        risks.push(
            "A program that gains rights (set-user-id, file capabilities) loads no library that names \
             others by $ORIGIN."
                .to_owned(),
        );
    }
    if edits.iter().any(|made| known.dlopens.contains(&known.files[made.number].id)) {
        risks.push(WHILE_PROGRAMS_RUN.to_owned());
    }
    let relies = !binding.links.is_empty() || !binding.files.is_empty();
    if relies {
        risks
            .push("The new directory .becalm is part of the installation from then on.".to_owned());
    }
    risks
}

/// A library outside the named paths that something was bound to.
fn outside(known: &BindFacts<'_>, binding: &Binding) -> Option<PathBuf> {
    let targets = binding.changes.iter().flat_map(|change| &change.needed);
    let mut paths = targets.map(|(_, new)| Path::new(new)).filter(|path| path.is_absolute());
    let within = |path: &Path| known.named.iter().any(|named| path.starts_with(named));
    paths.find(|path| !within(path)).map(Path::to_path_buf)
}
