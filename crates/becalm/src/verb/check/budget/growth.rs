//! What a start has more of than the one before.

use std::collections::HashMap;

use recording::query::clean;
use recording::{Name, Recording};
use schemars::JsonSchema;
use serde::Serialize;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::baseline::Baseline;
use super::counts::{CountRow, Counted, CountedKind, StartCounts, is_kernels};

/// Rows of each kind that are told.
const MOST_ROWS: usize = 100;

/// What grew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Growth {
    /// What there is more of, by kind; of each the largest growth first.
    pub rows: Vec<GrownRow>,
    /// Operations of before in directories in which there are fewer now.
    pub fewer: u64,
    /// Paths that were asked for now and not before, most operations first; only where the baseline
    /// is a recording.
    pub new_paths: Vec<NewPath>,
}

/// Something that there is more of.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GrownRow {
    /// What it is, and of what.
    #[serde(flatten)]
    pub of: Counted,
    /// Metadata operations before; of a search list, its directories; of a program, its processes.
    pub before: u64,
    /// The same now.
    pub now: u64,
    /// Of the operations, failed lookups before.
    pub failed_before: u64,
    /// The same now.
    pub failed: u64,
}

impl GrownRow {
    /// How many more there are, and how many more of these failed.
    pub fn more(&self) -> (u64, u64) {
        (self.now.saturating_sub(self.before), self.failed.saturating_sub(self.failed_before))
    }
}

/// A path that was not asked for before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NewPath {
    /// The path.
    pub path: Name,
    /// Metadata operations that named it.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
}

impl Growth {
    /// From a baseline to a start.
    pub fn of(before: &Baseline, now: &StartCounts, recording: &Recording) -> Growth {
        let known: HashMap<&Counted, (u64, u64)> =
            before.counts.rows.iter().map(|row| (&row.of, (row.number, row.failed))).collect();
        let (mut rows, mut found) = (Vec::new(), 0);
        for row in &now.rows {
            let unlisted = || before.counts.most_of_unlisted(row.of.what);
            let (number, failed) = known.get(&row.of).copied().unwrap_or_else(|| {
                // What is not in a list that was cut had at most as many as the last that is.
                (unlisted().min(row.number), unlisted().min(row.failed))
            });
            if row.of.what == CountedKind::Directory {
                found += row.number.min(number);
            }
            if row.number > number || row.failed > failed {
                rows.push(GrownRow {
                    of: row.of.clone(),
                    before: number,
                    now: row.number,
                    failed_before: failed,
                    failed: row.failed,
                });
            }
        }
        let directories = |row: &&CountRow| row.of.what == CountedKind::Directory;
        let all: u64 = before.counts.rows.iter().filter(directories).map(|row| row.number).sum();
        rows.sort_by_key(|row| (row.of.what, std::cmp::Reverse(row.more())));
        let mut seen: HashMap<CountedKind, usize> = HashMap::new();
        rows.retain(|row| {
            let seen = seen.entry(row.of.what).or_default();
            *seen += 1;
            *seen <= MOST_ROWS
        });
        Growth { rows, fewer: all.saturating_sub(found), new_paths: new_paths(before, recording) }
    }

    /// What grew of one kind.
    pub fn of_kind(&self, what: CountedKind) -> impl Iterator<Item = &GrownRow> {
        self.rows.iter().filter(move |row| row.of.what == what)
    }
}

fn new_paths(before: &Baseline, recording: &Recording) -> Vec<NewPath> {
    if !before.has_paths() {
        return Vec::new();
    }
    let mut counts = vec![[0u64; 2]; recording.path_count()];
    for event in recording.events.iter().filter(|event| event.is_metadata()) {
        if let Some(path) = event.path {
            let [number, failed] = &mut counts[path.0 as usize];
            *number += 1;
            *failed += u64::from(event.is_missing());
        }
    }
    let asked = recording
        .paths()
        .zip(counts)
        .filter(|(path, [number, _])| *number > 0 && !is_kernels(&clean(path)));
    let mut new: HashMap<_, [u64; 2]> = HashMap::new();
    for (path, [number, failed]) in asked.filter(|(path, _)| before.never_asked_for(path)) {
        let sum = new.entry(clean(path)).or_default();
        *sum = [sum[0] + number, sum[1] + failed];
    }
    let mut new: Vec<_> = new.into_iter().collect();
    new.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    let row = |(path, [metadata_ops, enoent]): (std::borrow::Cow<[u8]>, [u64; 2])| NewPath {
        path: Name::of(OsStr::from_bytes(&path)),
        metadata_ops,
        enoent,
    };
    new.into_iter().take(MOST_ROWS).map(row).collect()
}
