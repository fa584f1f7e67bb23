//! Whether a system cache of Lmod's is fresh, whole and to be trusted.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::privacy::Privacy;
use super::spider::{Spider, parse};
use super::table::TableError;
use crate::cache::fault::{Checked, Fault, FaultKind};
use crate::cache::held::{self, CacheOnDisk, open};
use crate::tree::{self, ChangeStamp, Cookie, WalkLimits, walk};

/// The cache of Lmod 7 and newer, and that of those before.
pub(super) const CACHES: [&str; 2] = ["spiderT.lua", "moduleT.lua"];
/// Without a timestamp, Lmod takes a cache for a day (`LMOD_ANCIENT_TIME`, src/myGlobals.lua).
const DAY: i128 = 86_400 * 1_000_000_000;

/// Checks the cache in a directory without evaluating it. `timestamp` is the file that the site
/// touches when its trees change (`timestamp` in lmodrc.lua).
pub fn check(directory: &Path, timestamp: Option<&Path>) -> Checked {
    let cache = cache_in(directory);
    let mut checked = Checked::of(directory, &cache);
    let held = match held::hold(&cache) {
        Ok(held) => held,
        Err(fault) => {
            checked.faults.push(fault);
            return checked;
        }
    };
    checked.bytes = held.bytes.len() as u64;
    let around = rustix::fs::stat(directory).ok().map(|stat| ChangeStamp::of(&stat));
    checked.faults = held::distrust(&held.stamp, around.as_ref());
    checked.faults.extend(compiled(directory, &cache, &held.stamp, around.as_ref()));
    checked.faults.extend(age(&held.stamp, timestamp));
    match parse(&held.bytes) {
        Ok(spider) => {
            trees(&mut checked, &spider, &held);
            let disclosed = Privacy::beside(directory).disclosed(&spider);
            let what = "not everyone may read it, and the cache shows what is there";
            let faults = disclosed.iter().map(|path| Fault::of(FaultKind::Disclosing, path, what));
            checked.faults.extend(faults);
        }
        Err(TableError::Cut) => {
            checked.faults.push(Fault::whole(FaultKind::Partial, TableError::Cut.to_string()));
        }
        Err(code) => {
            let what = format!("{code}: Lmod would evaluate it as code");
            checked.faults.push(Fault::whole(FaultKind::Hostile, what));
        }
    }
    checked.faults.sort_by_key(|fault| fault.kind);
    checked
}

/// The cache that is there; where none is, that of a newer Lmod.
pub(super) fn cache_in(directory: &Path) -> PathBuf {
    let names = CACHES.map(|name| directory.join(name));
    let found = names.iter().find(|path| path.exists());
    found.unwrap_or(&names[0]).clone()
}

/// Compiled caches, which win over the text that is checked here.
fn compiled(
    directory: &Path,
    cache: &Path,
    text: &ChangeStamp,
    around: Option<&ChangeStamp>,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let beginning = format!("{}c", cache.file_name().unwrap_or_default().to_string_lossy());
    for entry in names.filter(|entry| entry.file_name().to_string_lossy().starts_with(&beginning)) {
        let Ok(stat) = rustix::fs::stat(entry.path()) else { continue };
        let stamp = ChangeStamp::of(&stat);
        let name = PathBuf::from(entry.file_name());
        let named = |fault: Fault| Fault::of(fault.kind, &name, fault.what);
        faults.extend(held::distrust(&stamp, around).into_iter().map(named));
        if stamp.modified < text.modified {
            let what = "it is older than the text, and the one that Lmod reads";
            faults.push(Fault::of(FaultKind::Stale, &name, what));
        }
    }
    faults
}

/// Whether Lmod passes it over as too old.
fn age(stamp: &ChangeStamp, timestamp: Option<&Path>) -> Option<Fault> {
    let limit = timestamp.and_then(|path| rustix::fs::stat(path).ok());
    if let Some(limit) = limit {
        let is_older = stamp.modified < ChangeStamp::of(&limit).modified;
        let what = "it is older than the timestamp: Lmod passes it over";
        return is_older.then(|| Fault::whole(FaultKind::Unused, what));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let is_old = i128::try_from(now).unwrap_or(i128::MAX) - stamp.modified > DAY;
    let what = "it is older than a day, and there is no timestamp: Lmod passes it over";
    is_old.then(|| Fault::whole(FaultKind::Unused, what))
}

fn trees(checked: &mut Checked, spider: &Spider, held: &CacheOnDisk) {
    for (root, files) in &spider.trees {
        checked.entries.modulefiles += files.len() as u64;
        let tree = walk(root, WalkLimits { cookies: false, ..WalkLimits::default() });
        if !tree.is_listed() {
            let what = "its modulepath cannot be listed by now";
            checked.faults.push(Fault::of(FaultKind::Stale, root, what));
            continue;
        }
        let recorded: HashSet<&Path> = files.iter().map(PathBuf::as_path).collect();
        let mut there = HashSet::new();
        for entry in &tree.entries {
            let path = tree.path(entry);
            if recorded.contains(&*path) {
                // Also where its own time was set back, as tar and rsync do.
                let is_newer = entry
                    .stamp
                    .is_some_and(|now| now.modified.max(now.changed) >= held.stamp.modified);
                if is_newer {
                    let what = "it was changed; what whatis and spider show is what it was";
                    checked.faults.push(Fault::of(FaultKind::Stale, &path, what));
                }
                there.insert(path);
            } else if matches!(entry.kind, tree::TreeEntryKind::File(_)) && is_shown(entry, &path) {
                let is_newer = entry.stamp.is_some_and(|now| now.changed >= held.stamp.modified);
                let (kind, what) = match is_newer {
                    true => (FaultKind::Stale, "it was added, and avail does not show it"),
                    false => (FaultKind::Partial, "it is older than the cache and not in it"),
                };
                checked.faults.push(Fault::of(kind, &path, what));
            }
        }
        let gone = recorded.iter().filter(|path| !there.contains(**path));
        checked.faults.extend(
            gone.map(|path| {
                Fault::of(FaultKind::Stale, path, "it was removed, and is still shown")
            }),
        );
    }
}

/// Whether Lmod takes it for a module: `.lua`, or with the cookie, and not hidden.
fn is_shown(entry: &tree::TreeEntry, path: &Path) -> bool {
    if entry.is_dotted() {
        return false;
    }
    if path.extension().is_some_and(|extension| extension == "lua") {
        return true;
    }
    let mut start = Vec::new();
    let read = open(path).map(|file| File::from(file).take(132).read_to_end(&mut start));
    matches!(read, Ok(Ok(_))) && Cookie::of(&start) != Cookie::Missing
}
