//! Two starts side by side, by directory.

use std::collections::BTreeMap;

use recording::Recording;
use recording::query::{self, CallFilter, GroupBy, QueryTable};
use serde::Serialize;

/// Directories that a page shows.
const MOST: usize = 24;

/// How two starts compare.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// A directory; metadata operations and failed lookups before; the same after. The largest
    /// change is first.
    directories: Vec<(String, [u64; 2], [u64; 2])>,
}

impl Comparison {
    /// Compares two recordings.
    pub fn of(before: &Recording, after: &Recording) -> Comparison {
        let filter = CallFilter::default();
        let (before, after) = query::tables(before, after, GroupBy::Prefix, &filter);
        let mut rows: BTreeMap<String, [[u64; 2]; 2]> = BTreeMap::new();
        let mut put = |table: QueryTable, side: usize| {
            for row in table.rows.into_iter().filter(|row| row.metadata_ops > 0) {
                rows.entry(row.key).or_default()[side] = [row.metadata_ops, row.enoent];
            }
        };
        put(before, 0);
        put(after, 1);
        let mut directories: Vec<_> =
            rows.into_iter().map(|(key, [before, after])| (key, before, after)).collect();
        directories
            .sort_by_key(|(_, before, after)| std::cmp::Reverse(before[0].abs_diff(after[0])));
        directories.truncate(MOST);
        Comparison { directories }
    }
}
