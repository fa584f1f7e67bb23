//! Troubles of how packages are installed: metadata of distributions, zipped packages, editable
//! installs, namespace packages.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use recording::query::python::{ModuleDirectories, directory_and_stem, split};
use recording::{Kind, shown};
use term::number::counted;

use super::{PythonTrouble, PythonTroubleKind, trouble};
use crate::attribute::PlacedOperation;
use crate::tree::{ImportNodeId, ImportTree};
use recording::module_search::{LookupReason, ModuleSearch, distribution};

/// Fewer distributions that are looked into are a package that asks for its own version.
const MANY: usize = 5;

/// importlib.metadata and pkg_resources look into every distribution that is installed.
pub(super) fn metadata(placed: &[PlacedOperation], tree: &ImportTree) -> Option<PythonTrouble> {
    let asked = || placed.iter().filter(|placed| placed.reason == LookupReason::Metadata);
    let distributions: BTreeSet<_> =
        asked().filter_map(|placed| distribution(placed.ask.path)).collect();
    if distributions.len() < MANY {
        return None;
    }
    let mut callers: BTreeMap<Option<ImportNodeId>, u64> = BTreeMap::new();
    asked().for_each(|placed| *callers.entry(placed.node).or_default() += 1);
    let (caller, _) = callers.into_iter().max_by_key(|(_, metadata_ops)| *metadata_ops)?;
    let who = caller.map_or("outside of known imports".to_owned(), |node| {
        format!("mostly by {}", shown(tree.module(node)))
    });
    let entry_points =
        asked().filter(|placed| placed.ask.split().1 == b"entry_points.txt").count() as u64;
    let (number, metadata_ops) = (distributions.len() as u64, asked().count() as u64);
    let text = format!(
        "the metadata of {} searched, {who}: entry points or versions of all that is installed",
        counted(number, "distribution was", "distributions were"),
    );
    let numbers = [("distributions", number), ("entry_points", entry_points)];
    Some(trouble(PythonTroubleKind::Metadata, text, metadata_ops, &numbers, distributions))
}

/// Each module that is read from a zipped package opens it anew.
pub(super) fn zips(placed: &[PlacedOperation], known: &ModuleSearch) -> Option<PythonTrouble> {
    let asked = || placed.iter().filter(|placed| placed.reason == LookupReason::Zip);
    let opened = |placed: &&PlacedOperation| {
        placed.ask.kind == Kind::Open && placed.ask.is_yes() && known.is_archive(placed.ask.path)
    };
    let archives: BTreeSet<_> = asked().filter(opened).map(|placed| placed.ask.path).collect();
    let opens = asked().filter(opened).count() as u64;
    let number = archives.len() as u64;
    let text = format!(
        "{} opened {}: once to list it, and again for each module that is read from it",
        counted(number, "zipped package was", "zipped packages were"),
        counted(opens, "time", "times")
    );
    let numbers = [("archives", number), ("opens", opens)];
    let metadata_ops = asked().count() as u64;
    (number > 0).then(|| trouble(PythonTroubleKind::Zip, text, metadata_ops, &numbers, archives))
}

/// Editable installs whose files say that they are: setuptools' `__editable__.NAME.pth` and
/// `__editable___NAME_finder.py`, scikit-build-core's `_NAME_editable.pth`, `easy-install.pth`.
/// (hatch's, flit's and poetry's are named like any other `.pth` file.)
pub(super) fn editable(placed: &[PlacedOperation]) -> Option<PythonTrouble> {
    let is_editable = |name: &[u8]| {
        name.starts_with(b"__editable__")
            || name == b"easy-install.pth"
            || name.ends_with(b"_editable.pth")
    };
    let asked = || placed.iter().filter(|placed| is_editable(placed.ask.split().1));
    let opened = |placed: &&PlacedOperation| placed.ask.is_yes() && placed.ask.kind == Kind::Open;
    let files: BTreeSet<_> = asked()
        .filter(opened)
        .map(|placed| placed.ask.path)
        .filter(|path| path.ends_with(b".pth"))
        .collect();
    let number = files.len() as u64;
    let text = format!(
        "{}: the code is outside of the environment, and an image or a copy of it does not take \
         it along",
        counted(number, "editable install", "editable installs")
    );
    let metadata_ops = asked().count() as u64;
    let numbers = [("installs", number)];
    (number > 0).then(|| trouble(PythonTroubleKind::Editable, text, metadata_ops, &numbers, files))
}

/// A package without `__init__` is looked for in every entry of `sys.path`, since it may have
/// portions in each (PEP 420).
pub(super) fn namespaces(
    placed: &[PlacedOperation],
    places: &ModuleDirectories,
) -> Option<PythonTrouble> {
    let mut lacks = HashSet::new();
    let mut is_there = HashSet::new();
    let mut holds = HashSet::new();
    for placed in placed {
        let ask = &placed.ask;
        match (placed.reason, directory_and_stem(ask.path)) {
            (LookupReason::Suffix, Some((directory, b"__init__")))
                if ask.path.ends_with(b".py") =>
            {
                lacks.insert(directory);
            }
            (LookupReason::Source | LookupReason::Extension, Some((directory, _)))
                if ask.is_yes() =>
            {
                holds.insert(directory);
                // A portion may hold packages only.
                holds.insert(split(directory).0);
            }
            (LookupReason::Directory, _) if ask.is_yes() => {
                is_there.insert(ask.path);
            }
            _ => {}
        }
    }
    let portions: BTreeSet<&[u8]> = lacks
        .into_iter()
        .filter(|directory| is_there.contains(directory) && holds.contains(directory))
        .filter(|directory| !places.entries.contains(*directory))
        .collect();
    let name = |directory: &[u8]| places.module(&[directory, b"/__init__.py"].concat());
    let names: BTreeSet<_> = portions.iter().filter_map(|directory| name(directory)).collect();
    let asked = |placed: &&PlacedOperation| {
        let is_init = directory_and_stem(placed.ask.path)
            .is_some_and(|(directory, stem)| stem == b"__init__" && portions.contains(directory));
        is_init || portions.contains(placed.ask.path)
    };
    let metadata_ops = placed.iter().filter(asked).count() as u64;
    let (packages, number) = (names.len() as u64, portions.len() as u64);
    let text = format!(
        "{} ({}) in {}: without an __init__.py the search goes on through all directories before it \
         answers",
        counted(packages, "namespace package", "namespace packages"),
        names.iter().take(3).map(|name| shown(name)).collect::<Vec<_>>().join(", "),
        counted(number, "directory", "directories")
    );
    let numbers = [("packages", packages), ("portions", number)];
    (packages > 0)
        .then(|| trouble(PythonTroubleKind::Namespace, text, metadata_ops, &numbers, portions))
}
