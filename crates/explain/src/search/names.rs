//! One name, searched in one directory after the other by one process.

use std::collections::{HashMap, HashSet};

use recording::module_search::distribution;
use recording::{Cause, Kind, ProcessId, Role};

use super::roots::{ListRoots, splits, stem};
use crate::survey::{MetadataOp, OpId, OpSurvey, ProgramId};

/// What is found in a directory that was never searched is found by a search only if it is asked for
/// right after: so many operations of the process.
const RIGHT_AFTER: u64 = 3;

/// One search.
pub(super) struct FoundSearch<'a> {
    pub program: ProgramId,
    pub process: ProcessId,
    pub name: &'a [u8],
    /// The failed lookups, with the directory of each, in order.
    pub probes: Vec<(&'a [u8], OpId)>,
    /// Where it ended, if it was found.
    pub found: Option<(&'a [u8], OpId)>,
    last: u64,
}

impl<'a> FoundSearch<'a> {
    /// The directories in which it failed, in order, each once.
    pub fn failed_in(&self) -> Vec<&'a [u8]> {
        let mut seen = HashSet::new();
        self.probes.iter().map(|(root, _)| *root).filter(|root| seen.insert(*root)).collect()
    }

    /// Whether a lookup in that directory goes on with it: not where a directory comes again that
    /// was left.
    fn goes_on_in(&self, root: &[u8]) -> bool {
        let is_last = self.probes.last().is_some_and(|(last, _)| *last == root);
        self.found.is_none() && (is_last || self.probes.iter().all(|(known, _)| *known != root))
    }
}

/// All searches, in the order in which they began.
pub(super) fn searches<'a>(
    survey: &OpSurvey<'a>,
    roots: &ListRoots<'a, '_>,
) -> Vec<FoundSearch<'a>> {
    let mut all: Vec<FoundSearch> = Vec::new();
    let mut open: HashMap<(ProcessId, &[u8]), usize> = HashMap::new();
    let mut done: HashMap<ProcessId, u64> = HashMap::new();
    // When a file was last opened in a directory. Who reads in one what he looks for in the next is at
    // home in each of them: so node looks for `lib/package.json` in each of its packages.
    let mut opened: HashMap<(ProcessId, &[u8]), u64> = HashMap::new();
    for (id, op) in survey.free().filter(|(_, op)| can_search(op)) {
        let now = done.entry(op.process()).or_default();
        *now += 1;
        if op.is_enoent() {
            let Some((root, name)) = roots.split(op.path) else { continue };
            let name = stem(name);
            let known = open.get(&(op.process(), name)).copied();
            let is_read_since = |root: &[u8], since| {
                opened.get(&(op.process(), root)).is_some_and(|opened| *opened > since)
            };
            let goes_on = |at: &usize| {
                let search = &all[*at];
                let before = search.probes.last().map(|(root, _)| *root);
                let mut both = before.into_iter().chain([root]);
                search.goes_on_in(root) && !both.any(|root| is_read_since(root, search.last))
            };
            let at = known.filter(goes_on).unwrap_or_else(|| {
                all.push(FoundSearch {
                    program: op.program,
                    process: op.process(),
                    name,
                    probes: Vec::new(),
                    found: None,
                    last: 0,
                });
                all.len() - 1
            });
            open.insert((op.process(), name), at);
            all[at].probes.push((root, id));
            all[at].last = *now;
        } else if op.succeeded() {
            if op.kind == Kind::Open && !op.event.is_listing() {
                let known = splits(op.path).filter(|(root, _)| roots.has(root));
                opened.extend(known.map(|(root, _)| ((op.process(), root), *now)));
            }
            let hit = splits(op.path).find_map(|(root, name)| {
                let at = *open.get(&(op.process(), stem(name)))?;
                let search = &all[at];
                let is_its = roots.has(root) || *now - search.last <= RIGHT_AFTER;
                (search.found.is_none() && is_its).then_some((at, root))
            });
            if let Some((at, root)) = hit {
                all[at].found = Some((root, id));
            }
        }
    }
    all
}

/// What the loader, Python, the module tool and the C library search is theirs to explain; what is
/// executed belongs to PATH.
pub(super) fn can_search(op: &MetadataOp) -> bool {
    matches!(op.why.cause, Cause::Program | Cause::Shell)
        && !op.event.in_loader
        && matches!(op.kind, Kind::Open | Kind::Stat | Kind::Access)
        && op.path.len() > 1
        && op.path.starts_with(b"/")
        // Who asks each of Python's distributions for the same file walks them.
        && !(op.role == Role::Python && distribution(op.path).is_some())
}
