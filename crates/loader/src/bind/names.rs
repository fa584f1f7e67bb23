//! The one path by which each file is known.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::collect::{ElfFileNames, OWN_DIRECTORY};
use super::resolve::LoaderRun;
use crate::FileId;

/// The one path by which each file shall be known: the loader compares paths before it opens
/// (`_dl_map_object`), so that a second path costs a second open. Of those it was opened by, the
/// one without detours that most starts use.
pub(super) fn names(
    files: &[ElfFileNames],
    programs: &[LoaderRun],
    alone: &[LoaderRun],
) -> HashMap<FileId, PathBuf> {
    let mut used = paths(programs.iter().chain(alone), false);
    // The path that only an environment leads by is for what no other does.
    for (id, paths) in paths(programs.iter().chain(alone), true) {
        used.entry(id).or_insert(paths);
    }
    // A link in a farm stands for the path that it leads to.
    let through_farm =
        |path: &Path| match path.components().any(|part| part.as_os_str() == OWN_DIRECTORY) {
            true => std::fs::read_link(path).unwrap_or_else(|_| path.to_owned()),
            false => path.to_owned(),
        };
    let own: FxHashMap<FileId, &ElfFileNames> = files.iter().map(|file| (file.id, file)).collect();
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

/// How often starts with an environment, or those without, open each file by which path.
fn paths<'a>(
    runs: impl Iterator<Item = &'a LoaderRun>,
    in_environment: bool,
) -> FxHashMap<FileId, BTreeMap<&'a Path, usize>> {
    let mut used: FxHashMap<FileId, BTreeMap<&Path, usize>> = FxHashMap::default();
    let runs = runs.filter(|run| run.environment.is_some() == in_environment);
    for member in runs.flat_map(|run| &run.members) {
        *used.entry(member.id).or_default().entry(&member.path).or_default() += 1;
    }
    used
}

fn is_normal(path: &Path) -> bool {
    let text = path.as_os_str().as_bytes();
    let odd = |part: &[u8]| part.is_empty() || part == b"." || part == b"..";
    text.starts_with(b"/") && !text[1..].split(|byte| *byte == b'/').any(odd)
}
