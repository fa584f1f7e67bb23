//! What merging saves `avail`, and what it costs `load`.
//!
//! `avail` evaluates every rc file of a tree. `load NAME` evaluates those of NAME's directory, and
//! the one at the root of each modulepath up to the one where it finds NAME. So an rc file more
//! at a root makes each `load` that comes by dearer, and pays only where all names that are
//! looked for there lose one of their own.

use std::path::Path;

use super::merge::Candidates;
use super::shelf::Shelf;
use crate::tree::TreeEntryKind;

/// The calls that one rc file costs: access, stat, open, two reads and close (5.2 to 5.7).
const RC: u64 = 6;
/// The calls that the check of one file's cookie costs: open, read and close.
const COOKIE: u64 = 3;
/// From this release on, `load` checks the cookie of one file of a directory instead of all, and
/// asks once more after an rc file that is at a root. Measured: 5.5 does as 5.2, and 5.7 not.
const FRUGAL: &str = "5.6";
/// So many more lines at the roots are not felt: one takes 12 us, a `load` 15,000 and more.
pub(super) const LINES: usize = 32;

/// What is planned for one modulepath.
#[derive(Default)]
pub(super) struct Planned<'a> {
    /// Whether its root gets an rc file that it did not have.
    pub(super) gets_root: bool,
    /// Lines that are added there.
    pub(super) lines: usize,
    /// Whether cookies are no longer checked.
    pub(super) unchecked: bool,
    /// Names of strays that leave.
    pub(super) moved: Vec<&'a Path>,
    /// What is merged, by the name in the root.
    pub(super) merged: Candidates<'a>,
}

/// Chooses what is merged: all candidates of a modulepath, or none, from the last modulepath on.
/// The others are put into `kept`, with the reason.
pub(super) fn choose<'a>(
    shelves: &'a [Shelf<'a>],
    planned: &mut [Planned<'a>],
    candidates: Vec<Candidates<'a>>,
    slower_load: bool,
) {
    for (at, mut merge) in candidates.into_iter().enumerate().rev() {
        let had_root = planned[at].gets_root;
        let lines: usize = merge.by_top.values().flatten().map(|one| one.lines.len()).sum();
        planned[at].merged.kept = std::mem::take(&mut merge.kept);
        if merge.by_top.is_empty() {
            continue;
        }
        planned[at].gets_root |= shelves[at].root_rc().is_none();
        planned[at].lines += lines;
        planned[at].merged.by_top = merge.by_top;
        let too_dear = if slower_load { None } else { too_dear(shelves, planned) };
        if let Some(why) = too_dear {
            planned[at].gets_root = had_root;
            planned[at].lines -= lines;
            let merged = std::mem::take(&mut planned[at].merged.by_top);
            let names = merged.into_values().flatten().map(|one| (one.name, why.clone()));
            planned[at].merged.kept.extend(names);
        }
    }
}

/// Why some `load` would become dearer, if one would.
pub(super) fn too_dear(shelves: &[Shelf<'_>], planned: &[Planned<'_>]) -> Option<String> {
    let lines: usize = planned.iter().map(|planned| planned.lines).sum();
    if lines > LINES {
        return Some(format!(
            "each load would evaluate {lines} lines more; --slower-load takes that"
        ));
    }
    let mut roots = 0;
    for (shelf, planned) in shelves.iter().zip(planned) {
        roots += u64::from(planned.gets_root);
        for top in shelf.tops() {
            let root = RC + u64::from(!shelf.release.is_older_than(FRUGAL));
            let (more, fewer) = (roots * root, saved_by_load(shelf, planned, top));
            if more > fewer {
                let calls = match more - fewer {
                    1 => "a call".to_owned(),
                    calls => format!("{calls} calls"),
                };
                let top = top.display();
                return Some(format!(
                    "load {top} would make {calls} more; --slower-load takes that"
                ));
            }
        }
    }
    None
}

/// The calls that a `load` of this name saves, in this modulepath.
fn saved_by_load(shelf: &Shelf<'_>, planned: &Planned<'_>, top: &Path) -> u64 {
    let merged = planned.merged.by_top.get(top).map_or(0, Vec::len) as u64;
    let checked = shelf.below(top).filter(|entry| matches!(entry.kind, TreeEntryKind::File(_)));
    let cookies = match planned.unchecked {
        unchecked if !shelf.release.is_older_than(FRUGAL) => usize::from(unchecked),
        true => checked.count(),
        false => planned.moved.iter().filter(|name| name.starts_with(top)).count(),
    };
    merged * RC + cookies as u64 * COOKIE
}

/// The calls that an `avail` saves in each modulepath.
pub(super) fn saved_by_avail(shelves: &[Shelf<'_>], planned: &[Planned<'_>]) -> Vec<u64> {
    let of = |(shelf, planned): (&Shelf<'_>, &Planned<'_>)| {
        let merged = planned.merged.by_top.values().map(Vec::len).sum::<usize>();
        let files =
            shelf.entries.values().filter(|entry| matches!(entry.kind, TreeEntryKind::File(_)));
        let cookies = if planned.unchecked { files.count() } else { planned.moved.len() };
        let saved = merged as u64 * RC + cookies as u64 * COOKIE;
        saved.saturating_sub(u64::from(planned.gets_root) * RC)
    };
    shelves.iter().zip(planned).map(of).collect()
}
