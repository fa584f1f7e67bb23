//! What a recording counts, and what two of them say of each other.

use std::collections::BTreeMap;

use recording::Recording;
use recording::query::{self, CallFilter, GroupBy, QueryRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::side::Side;

/// What one recording counts: the numbers that `becalm report` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedCounts {
    /// Metadata operations: what a metadata server would serve.
    pub metadata_ops: u64,
    /// Of those, how many were failed lookups.
    pub enoent: u64,
    /// System calls on files, descriptors and processes.
    pub calls: u64,
    /// Processes, the command's own included.
    pub processes: u64,
    /// By system call, as `strace -c` counts.
    pub by_call: BTreeMap<String, CallCount>,
}

/// How often one system call was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallCount {
    /// In all.
    pub calls: u64,
    /// Of those, how many failed.
    pub errors: u64,
    /// Of those, how many were metadata operations.
    pub metadata_ops: u64,
}

impl RecordedCounts {
    /// Counts the default set of calls, `%file,%desc,%process`.
    pub fn of(recording: &Recording) -> RecordedCounts {
        let filter = CallFilter { default_set: true, ..CallFilter::default() };
        let table = query::table(recording, GroupBy::Syscall, &filter);
        let calls = |row: &QueryRow| CallCount {
            calls: row.calls,
            errors: row.errors,
            metadata_ops: row.metadata_ops,
        };
        RecordedCounts {
            metadata_ops: table.total.metadata_ops,
            enoent: table.total.enoent,
            calls: table.total.calls,
            processes: recording.processes.len() as u64,
            by_call: table.rows.iter().map(|row| (row.key.clone(), calls(row))).collect(),
        }
    }

    /// How often a system call was made; zeros if never.
    pub fn call(&self, name: &str) -> CallCount {
        self.by_call.get(name).copied().unwrap_or_default()
    }
}

/// Two counts that can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountComparison {
    /// What became of the metadata operations that the commands made.
    pub change: CountChange,
    /// What became of those that reached the server, where both were run on a rehearsed filesystem.
    /// It is what the change is judged by then: an image that is mounted over its own path leaves
    /// every call where it was, and answers it on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpcs: Option<CountChange>,
    /// The system call that says it best: of those that ask for metadata, the one whose number
    /// went most in the direction of all; none if their sum is the same.
    pub headline: Option<String>,
}

/// What became of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountChange {
    /// Less of it, in every recording of the one than in any of the other.
    Fewer,
    /// As many.
    Same,
    /// More.
    More,
    /// The number varies from run to run, and the two overlap.
    Unclear,
}

impl CountComparison {
    /// What the change is judged by.
    pub fn judged_by(&self) -> CountChange {
        self.rpcs.unwrap_or(self.change)
    }
}

impl CountChange {
    /// What became of a number that several runs of each side gave: its smallest and largest.
    fn between(before: Option<(u64, u64)>, after: Option<(u64, u64)>) -> CountChange {
        match (before, after) {
            (Some(before), Some(after)) if before == after && before.0 == before.1 => {
                CountChange::Same
            }
            (Some(before), Some(after)) if after.1 < before.0 => CountChange::Fewer,
            (Some(before), Some(after)) if before.1 < after.0 => CountChange::More,
            _ => CountChange::Unclear,
        }
    }
}

/// Compares one recording before with one after.
pub fn counts(before: &Recording, after: &Recording) -> CountComparison {
    recorded(&[RecordedCounts::of(before)], &[RecordedCounts::of(after)])
}

/// Compares all that was counted of each side.
pub(crate) fn compare(before: &Side, after: &Side) -> CountComparison {
    let (was, is) = (before.served_range(), after.served_range());
    let rpcs = (was.is_some() && is.is_some()).then(|| CountChange::between(was, is));
    CountComparison { rpcs, ..recorded(&before.counted, &after.counted) }
}

/// Compares what several recordings of each side counted.
fn recorded(before: &[RecordedCounts], after: &[RecordedCounts]) -> CountComparison {
    let change = CountChange::between(range(before), range(after));
    let headline = match (before.first(), after.first()) {
        (Some(before), Some(after)) => headline(before, after),
        _ => None,
    };
    CountComparison { change, rpcs: None, headline }
}

/// The fewest and the most metadata operations of several recordings.
pub(crate) fn range(counted: &[RecordedCounts]) -> Option<(u64, u64)> {
    let metadata = || counted.iter().map(|counted| counted.metadata_ops);
    Some((metadata().min()?, metadata().max()?))
}

fn headline(before: &RecordedCounts, after: &RecordedCounts) -> Option<String> {
    let names = before.by_call.keys().chain(after.by_call.keys());
    let (less, more) = match before.metadata_ops.cmp(&after.metadata_ops) {
        std::cmp::Ordering::Greater => (after, before),
        std::cmp::Ordering::Less => (before, after),
        std::cmp::Ordering::Equal => return None,
    };
    let change =
        |name: &&String| more.call(name).metadata_ops.saturating_sub(less.call(name).metadata_ops);
    names.max_by_key(change).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(openat: u64, stat: u64) -> RecordedCounts {
        let calls = |number| CallCount { calls: number, errors: 0, metadata_ops: number };
        RecordedCounts {
            metadata_ops: openat + stat,
            by_call: [("openat".into(), calls(openat)), ("newfstatat".into(), calls(stat))].into(),
            ..RecordedCounts::default()
        }
    }

    #[test]
    fn the_call_whose_number_changed_most_says_it_best() {
        let counts = recorded(&[counted(5565, 100)], &[counted(152, 10)]);
        assert_eq!(
            (counts.change, counts.headline.as_deref()),
            (CountChange::Fewer, Some("openat"))
        );
        let counts = recorded(&[counted(10, 100)], &[counted(12, 900)]);
        assert_eq!(
            (counts.change, counts.headline.as_deref()),
            (CountChange::More, Some("newfstatat"))
        );
        let counts = recorded(&[counted(10, 100)], &[counted(10, 100)]);
        assert_eq!((counts.change, counts.headline), (CountChange::Same, None));
    }

    #[test]
    fn counts_that_vary_and_overlap_say_nothing() {
        let before = [counted(100, 0), counted(110, 0)];
        assert_eq!(
            recorded(&before, &[counted(105, 0), counted(104, 0)]).change,
            CountChange::Unclear
        );
        assert_eq!(recorded(&before, &before).change, CountChange::Unclear);
        assert_eq!(recorded(&before, &[counted(99, 0), counted(98, 0)]).change, CountChange::Fewer);
    }
}
