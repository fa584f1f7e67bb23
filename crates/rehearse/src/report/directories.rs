//! Operations by the directory that their path lies below.
//!
//! As in `becalm report --by prefix`: from the leaves up, a directory that holds a twentieth of all
//! operations that no row below it has explained becomes a row of its own; what is less goes up
//! to its parent. Each operation is in one row, and there are about 20 at most.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::RpcSum;
use crate::{Account, RehearsedDirectory};

/// All operations below a directory that no other row has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByDirectory {
    /// The directory, lossily decoded.
    pub directory: String,
    /// What they have in common.
    #[serde(flatten)]
    pub sum: RpcSum,
}

/// A directory is a row if it holds one part in this many that no row below it has.
const PARTS: u64 = 20;

/// The rows, the largest first.
pub(super) fn by_directory(account: &Account, places: &[RehearsedDirectory]) -> Vec<ByDirectory> {
    use std::os::unix::ffi::OsStrExt;
    let roots: Vec<&[u8]> = places.iter().map(|place| place.path.as_os_str().as_bytes()).collect();
    // The deepest come first, so that a directory is looked at after all that is below it.
    let mut sums: BTreeMap<(Reverse<usize>, &[u8]), RpcSum> = BTreeMap::new();
    let key = |directory: &'_ [u8]| Reverse(directory.iter().filter(|byte| **byte == b'/').count());
    let mut total = 0;
    for one in &account.served {
        let path = account.paths[one.path as usize].as_slice();
        let directory = if roots.contains(&path) { path } else { parent(path) };
        let part = RpcSum::of(one);
        *sums.entry((key(directory), directory)).or_default() += part;
        total += part.rpcs;
    }
    let mut rows = Vec::new();
    while let Some(((depth, directory), sum)) = sums.pop_first() {
        let is_top = roots.contains(&directory) || depth.0 == 0;
        if is_top || sum.rpcs * PARTS >= total {
            let directory = recording::shown(directory);
            rows.push(ByDirectory { directory, sum });
        } else {
            let above = parent(directory);
            *sums.entry((key(above), above)).or_default() += sum;
        }
    }
    rows.sort_by(|a, b| (b.sum.rpcs, &a.directory).cmp(&(a.sum.rpcs, &b.directory)));
    rows
}

fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    &path[..end]
}

#[cfg(test)]
mod tests {
    use super::super::tests::served;
    use super::*;
    use crate::Ledger;
    use cost::RpcKind;

    #[test]
    fn each_operation_is_in_one_row_the_deepest_that_matters() {
        let ledger = Ledger::new();
        for number in 0..90 {
            let path = format!("/opt/store/a/lib/lib{number}.so");
            ledger.enter(path.as_bytes(), served(RpcKind::Lookup, 0, 1));
        }
        for number in 0..10 {
            let path = format!("/opt/store/p{number}/x");
            ledger.enter(path.as_bytes(), served(RpcKind::Open, 0, 1));
        }
        let place = |path: &str| RehearsedDirectory { path: path.into(), given: None };
        let rows = by_directory(&ledger.take(), &[place("/opt/store")]);
        let rows: Vec<_> = rows.iter().map(|row| (row.directory.as_str(), row.sum.rpcs)).collect();
        assert_eq!(rows, [("/opt/store/a/lib", 90), ("/opt/store", 10)]);
    }
}
