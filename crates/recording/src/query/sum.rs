//! Adds up the calls of each row.

use std::collections::HashMap;

use super::QueryRow;
use crate::{Recording, shown};

/// Which row a call is in, and whether that is inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowOfCall {
    row: u32,
    inferred: bool,
}

impl RowOfCall {
    /// In no row.
    pub(super) const NONE: RowOfCall = RowOfCall { row: u32::MAX, inferred: false };

    /// The row's place among all; beyond them where it is in none.
    pub(super) fn number(self) -> usize {
        self.row as usize
    }

    pub(super) fn observed(row: u32) -> RowOfCall {
        RowOfCall { row, inferred: false }
    }

    pub(super) fn inferred(row: u32) -> RowOfCall {
        RowOfCall { row, inferred: true }
    }
}

/// The rows of a table, not yet counted, and the place of each call of the recording.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) rows: Vec<QueryRow>,
    pub(super) places: Vec<RowOfCall>,
}

/// Numbers rows by key.
#[derive(Default)]
pub(super) struct Keys {
    pub(super) rows: Vec<QueryRow>,
    known: HashMap<Box<[u8]>, u32>,
}

impl Keys {
    /// The row of a key, which is new if it was not asked for before.
    pub(super) fn row(&mut self, key: &[u8]) -> u32 {
        if let Some(row) = self.known.get(key) {
            return *row;
        }
        let row = self.rows.len() as u32;
        self.known.insert(key.into(), row);
        self.rows.push(QueryRow { key: shown(key), raw_key: key.to_vec(), ..QueryRow::default() });
        row
    }
}

/// Counts the selected calls. Rows that none is in are left out.
pub(super) fn add_up(
    recording: &Recording,
    selected: &[bool],
    mut groups: Groups,
) -> (Vec<QueryRow>, QueryRow) {
    let mut total =
        QueryRow { key: "total".into(), raw_key: b"total".to_vec(), ..QueryRow::default() };
    let mut named = Vec::new();
    for ((event, place), selected) in recording.events.iter().zip(&groups.places).zip(selected) {
        let Some(row) = groups.rows.get_mut(place.row as usize).filter(|_| *selected) else {
            continue;
        };
        let metadata = event.is_metadata();
        let one = QueryRow {
            calls: 1,
            errors: u64::from(event.outcome.failed()),
            metadata_ops: u64::from(metadata),
            enoent: u64::from(metadata && event.is_missing()),
            time: event.took,
            inferred: u64::from(place.inferred),
            ..QueryRow::default()
        };
        row.add(&one);
        total.add(&one);
        if let Some(path) = event.path.filter(|_| metadata) {
            named.push(u64::from(place.row) << 32 | u64::from(path.0));
        }
    }
    named.sort_unstable();
    named.dedup();
    let mut seen = vec![false; recording.path_count()];
    for pair in named {
        groups.rows[(pair >> 32) as usize].distinct += 1;
        let seen = &mut seen[pair as u32 as usize];
        total.distinct += u64::from(!*seen);
        *seen = true;
    }
    groups.rows.retain(|row| row.calls > 0);
    (groups.rows, total)
}

impl QueryRow {
    /// Adds another row's calls; distinct paths do not add up.
    fn add(&mut self, other: &QueryRow) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.metadata_ops += other.metadata_ops;
        self.enoent += other.enoent;
        self.time += other.time;
        self.inferred += other.inferred;
    }
}
