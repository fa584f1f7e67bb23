//! Whether a modulepath's cache gives what a walk gives, to everyone, and can be trusted.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::compare::{CacheComparison, changed_directories};
use super::fault::{Checked, Fault, FaultKind};
use super::held::{self, CacheOnDisk};
use super::script::{CacheOddity, Script, parse};
use crate::site::ModulesSite;
use crate::tree::{ChangeStamp, ModulepathTree, WalkLimits, walk};

/// `cachebuild` reads a tree for a while, and the file says only when it was done: what changed
/// in its last minute may have been there or not.
const BUILD: i128 = 60 * 1_000_000_000;

/// Checks a modulepath's cache as the calling user, without evaluating it; where becalm has made
/// it, without opening a file of the tree that has not changed since. Without a site, what depends
/// on the release that reads it is not looked at.
pub fn check(modulepath: &Path, site: Option<&ModulesSite>) -> Checked {
    let cache = modulepath.join(super::NAME);
    let mut checked = Checked::of(modulepath, &cache);
    let tree = walk(modulepath, WalkLimits { cookies: false, ..WalkLimits::default() });
    if !tree.is_listed() {
        let what = "the modulepath is no directory that can be listed";
        checked.faults.push(Fault::whole(FaultKind::Unchecked, what));
        return checked;
    }
    let held = match held::hold(&cache) {
        Ok(held) => held,
        Err(fault) => {
            checked.faults.push(fault);
            return checked;
        }
    };
    checked.bytes = held.bytes.len() as u64;
    checked.faults = held::distrust(&held.stamp, tree.top.stamp.as_ref());
    let unread = tree.top.stamp.and_then(|directory| held::unread(&held.stamp, &directory));
    checked.faults.extend(unread);
    match parse(&held.bytes) {
        Err(odd) => checked.faults.push(fault_of(&odd)),
        Ok(script) => read(&mut checked, &held, &script, &tree, site),
    }
    if let Some(site) = site {
        checked.notes.extend(super::load::note(site));
    }
    checked.faults.sort_by_key(|fault| fault.kind);
    checked
}

/// What is wrong with what a cache says.
fn read(
    checked: &mut Checked,
    held: &CacheOnDisk,
    script: &Script<'_>,
    tree: &ModulepathTree,
    site: Option<&ModulesSite>,
) {
    let as_of = script.as_of.unwrap_or(held.stamp.modified - BUILD);
    let comparison = CacheComparison {
        tree,
        changed: changed_directories(tree, as_of),
        release: site.map(|site| &site.release),
        as_of,
        is_exact: script.as_of.is_some(),
    };
    let (faults, counts) = comparison.faults(script);
    checked.entries = counts;
    checked.faults.extend(faults);
    if tree.is_cut {
        let what = "the tree has more names than are looked at";
        checked.faults.push(Fault::whole(FaultKind::Unchecked, what));
    }
    if let Some(site) = site {
        checked.faults.extend(passed_over(script, &held.stamp, site));
        if !super::reads_caches(site) {
            let release = &site.release;
            checked.notes.push(format!("Modules {release} reads no caches; 5.3 and newer do"));
        } else if site.setting("ignore_cache") == Some("1") {
            checked.notes.push("ignore_cache is on: every command passes it over".to_owned());
        }
    }
}

fn fault_of(odd: &CacheOddity) -> Fault {
    match odd {
        CacheOddity::Cut { .. } | CacheOddity::Empty => {
            Fault::whole(FaultKind::Partial, odd.to_string())
        }
        CacheOddity::NoCache => Fault::whole(FaultKind::Unused, odd.to_string()),
        CacheOddity::Code { .. } => {
            Fault::whole(FaultKind::Hostile, format!("{odd}: Modules would evaluate it as code"))
        }
    }
}

/// Why this Modules would not use it at all.
fn passed_over(script: &Script<'_>, stamp: &ChangeStamp, site: &ModulesSite) -> Vec<Fault> {
    if !super::reads_caches(site) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    if site.release.is_older_than(script.asks) {
        let what = format!("it asks for Modules {}, and this is {}", script.asks, site.release);
        faults.push(Fault::whole(FaultKind::ForeignVersion, what));
    }
    let expiry = site.setting("cache_expiry_secs").and_then(|text| text.parse::<i128>().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let age = i128::try_from(now).unwrap_or(i128::MAX) - stamp.modified;
    if expiry.is_some_and(|seconds| seconds != 0 && age >= seconds * 1_000_000_000) {
        let what = format!("it has expired: it is {} s old", age / 1_000_000_000);
        faults.push(Fault::whole(FaultKind::Unused, what));
    }
    faults
}
