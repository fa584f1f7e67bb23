//! How searches ended, gathered over all processes.

use std::collections::HashMap;

use super::{QueryRow, SearchEnd};
use crate::{PathId, Recording, shown};

/// The ends of searches, by row.
#[derive(Default)]
pub(super) struct SearchEnds {
    ends: HashMap<(u32, Option<PathId>), u64>,
    probes: HashMap<u32, u64>,
}

impl SearchEnds {
    /// Notes that so many files were tried by name.
    pub(super) fn tried(&mut self, row: u32, files: u64) {
        *self.probes.entry(row).or_default() += files;
    }

    /// Notes the end of one search, and which file was found.
    pub(super) fn ended(&mut self, row: u32, found: Option<PathId>) {
        *self.ends.entry((row, found)).or_default() += 1;
    }

    /// Writes what was noted into the rows.
    pub(super) fn write(self, recording: &Recording, rows: &mut [QueryRow]) {
        for ((row, found), times) in self.ends {
            let search = rows[row as usize].search.get_or_insert_default();
            search.searches += times;
            let Some(path) = found.map(|path| recording.path(path)) else {
                search.not_found += times;
                continue;
            };
            search.found.push(SearchEnd { path: shown(path), raw_path: path.into(), times });
        }
        for (row, probes) in self.probes {
            rows[row as usize].search.get_or_insert_default().probes = probes;
        }
        for search in rows.iter_mut().filter_map(|row| row.search.as_mut()) {
            let order =
                |found: &SearchEnd| (std::cmp::Reverse(found.times), found.raw_path.clone());
            search.found.sort_by_cached_key(order);
        }
    }
}
