//! What changed between two runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use crate::query::{QueryRow, QueryTable, clean};
use crate::{Recording, shown};

/// One key of two tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DiffRow {
    /// The key of both rows.
    pub key: String,
    /// The same as bytes.
    #[serde(skip)]
    pub raw_key: Vec<u8>,
    /// The first table's row; all zero where it has none.
    pub before: QueryRow,
    /// The second table's row; all zero where it has none.
    pub after: QueryRow,
}

/// Pairs the rows of two tables of the same grouping by key, the largest change first: of
/// metadata operations, then of calls; then the largest. Make the tables with
/// [`crate::query::tables`], so that they have comparable rows.
pub fn tables(before: &QueryTable, after: &QueryTable) -> Vec<DiffRow> {
    let mut pairs: BTreeMap<&[u8], [Option<&QueryRow>; 2]> = BTreeMap::new();
    for (side, table) in [before, after].into_iter().enumerate() {
        for row in &table.rows {
            pairs.entry(&row.raw_key).or_default()[side] = Some(row);
        }
    }
    let mut rows: Vec<DiffRow> = pairs.into_values().map(pair).collect();
    rows.sort_by_key(|row| {
        let (a, b) = (&row.before, &row.after);
        Reverse((
            a.metadata_ops.abs_diff(b.metadata_ops),
            a.calls.abs_diff(b.calls),
            a.metadata_ops.max(b.metadata_ops),
            a.calls.max(b.calls),
        ))
    });
    rows
}

fn pair(sides: [Option<&QueryRow>; 2]) -> DiffRow {
    let key = sides[0].or(sides[1]).map(|row| (row.key.clone(), row.raw_key.clone()));
    let (key, raw_key) = key.unwrap_or_default();
    let row = |side: Option<&QueryRow>| match side {
        Some(row) => row.clone(),
        None => QueryRow { key: key.clone(), raw_key: raw_key.clone(), ..QueryRow::default() },
    };
    let (before, after) = (row(sides[0]), row(sides[1]));
    DiffRow { key, raw_key, before, after }
}

/// A path and how many metadata operations named it in either run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PathCount {
    /// The path, as text to show.
    pub path: String,
    /// The same as bytes.
    #[serde(skip)]
    pub raw_path: Vec<u8>,
    /// In the first run.
    pub before: u64,
    /// In the second.
    pub after: u64,
}

/// The paths that two runs asked for, each list in the order of the paths' bytes. Paths are
/// cleaned as text ([`clean`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PathDiff {
    /// In the first run only.
    pub only_a: Vec<PathCount>,
    /// In the second run only.
    pub only_b: Vec<PathCount>,
    /// In both.
    pub both: Vec<PathCount>,
}

/// Compares which paths the metadata operations of two runs named.
pub fn paths(a: &Recording, b: &Recording) -> PathDiff {
    let mut counts: HashMap<Vec<u8>, [u64; 2]> = HashMap::new();
    for (side, recording) in [a, b].into_iter().enumerate() {
        for (path, count) in recording.paths().zip(operations(recording)) {
            if count > 0 {
                counts.entry(clean(path).into_owned()).or_default()[side] += count;
            }
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable();
    let mut diff = PathDiff::default();
    for (raw_path, [before, after]) in counts {
        let list = match (before, after) {
            (_, 0) => &mut diff.only_a,
            (0, _) => &mut diff.only_b,
            _ => &mut diff.both,
        };
        list.push(PathCount { path: shown(&raw_path), raw_path, before, after });
    }
    diff
}

/// How many metadata operations named each path, by the path's number.
fn operations(recording: &Recording) -> Vec<u64> {
    let mut counts = vec![0; recording.path_count()];
    for event in recording.events.iter().filter(|event| event.is_metadata()) {
        if let Some(path) = event.path {
            counts[path.0 as usize] += 1;
        }
    }
    counts
}
