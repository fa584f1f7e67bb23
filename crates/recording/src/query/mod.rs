//! What a recording holds, as tables: how many calls, by what.
//!
//! A table groups the calls of a recording by one thing ([`GroupBy`]); each call is in at most one
//! row, and the rows add up to the total. The files here each hold one grouping; this one adds
//! up.

mod below;
mod cause;
mod clean;
pub mod data;
mod library;
mod line;
mod module;
mod modulefile;
mod prefix;
mod process;
pub mod python;
mod search;
mod sum;
mod syscall;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

pub use below::{PrefixCounts, prefix_counts};
pub use clean::clean;

pub use process::{process_name, program_name};
pub use syscall::CallCost;

use prefix::PrefixDirectories;

use crate::{Attributor, ByteUnits, Cause, Event, Micros, Nanos, ProcessId, Recording};

/// What a table's rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// Why the call was made.
    Cause,
    /// Below which directory its path lies.
    Prefix,
    /// Which program made it.
    Process,
    /// Which system call it was, as `strace -c` counts.
    Syscall,
    /// Which shared library the dynamic loader was looking for. Loader calls only.
    Library,
    /// Which Python module or modulefile was being looked for. Calls of those two only.
    Module,
    /// Which line of a script started the process, where the recorder looked.
    Line,
}

impl GroupBy {
    /// All groupings.
    pub const ALL: [GroupBy; 7] = [
        GroupBy::Cause,
        GroupBy::Prefix,
        GroupBy::Process,
        GroupBy::Syscall,
        GroupBy::Library,
        GroupBy::Module,
        GroupBy::Line,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            GroupBy::Cause => "cause",
            GroupBy::Prefix => "prefix",
            GroupBy::Process => "process",
            GroupBy::Syscall => "syscall",
            GroupBy::Library => "library",
            GroupBy::Module => "module",
            GroupBy::Line => "line",
        }
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no grouping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not one of cause, prefix, process, syscall, library, module, line")]
pub struct UnknownBy(pub String);

impl FromStr for GroupBy {
    type Err = UnknownBy;
    fn from_str(word: &str) -> Result<GroupBy, UnknownBy> {
        let known = GroupBy::ALL.into_iter().find(|by| by.name() == word);
        known.ok_or_else(|| UnknownBy(word.to_owned()))
    }
}

/// Which calls a table counts. The default counts all that the recording holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Only calls whose (first) path is a directory of one of these names or below it; none: all.
    pub below: Vec<Vec<u8>>,
    /// Only calls of this process.
    pub process: Option<ProcessId>,
    /// Only calls made for this cause.
    pub cause: Option<Cause>,
    /// Only calls in strace's `%file`, `%desc` and `%process`, which is what a recording made
    /// without `--all-syscalls` holds anyway: makes the two kinds of recording comparable.
    pub default_set: bool,
}

/// The calls of a recording that share one thing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct QueryRow {
    /// What they share, as text to show: see [`crate::shown`] for how paths are escaped.
    pub key: String,
    /// The same as bytes: for paths and names of files, what the program really asked for.
    #[serde(skip)]
    pub raw_key: Vec<u8>,
    /// Calls that returned.
    pub calls: u64,
    /// Of those, how many failed.
    pub errors: u64,
    /// Metadata operations: what a metadata server would be asked ([`crate::Event::is_metadata`]).
    pub metadata_ops: u64,
    /// Of those, how many were answered 'no such file' (ENOENT, ENOTDIR).
    pub enoent: u64,
    /// How many different paths the metadata operations named.
    pub distinct: u64,
    /// Time between entry and return, summed, the recorder's stops included.
    #[serde(rename = "time_ns")]
    pub time: Nanos,
    /// Calls that are in this row by their path alone: inferred, not observed.
    pub inferred: u64,
    /// [`GroupBy::Syscall`] only: what they took.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CallCost>,
    /// [`GroupBy::Process`] and [`GroupBy::Line`] only: what ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programs: Option<Programs>,
    /// [`GroupBy::Library`] and [`GroupBy::Module`] only: how the search went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<NameSearch>,
}

/// The processes that ran one program, or that one line started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Programs {
    /// How many processes ran it at some time.
    pub processes: u64,
    /// CPU in the program, of the processes that ended as this program (what they ran before
    /// an exec is in it: the kernel does not count it apart).
    #[serde(rename = "user_us")]
    pub user: Micros,
    /// CPU in the kernel, of the same.
    #[serde(rename = "system_us")]
    pub system: Micros,
    /// The largest resident set of any of them.
    #[serde(rename = "max_rss_bytes")]
    pub max_rss: ByteUnits,
}

/// How the search for one library or module went, over all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NameSearch {
    /// How many searches were made: one each time a process looked for it. For a module only
    /// those that found it: one that is not there leaves no file that names it.
    pub searches: u64,
    /// How many files were tried by name, the found one included.
    pub probes: u64,
    /// Where it was found, most often first.
    pub found: Vec<SearchEnd>,
    /// How many searches found nothing.
    pub not_found: u64,
}

/// A file that ended a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchEnd {
    /// The file, as text to show.
    pub path: String,
    /// The same as bytes.
    #[serde(skip)]
    pub raw_path: Vec<u8>,
    /// How many searches ended there.
    pub times: u64,
}

/// Rows that add up to a total.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct QueryTable {
    /// What the rows are.
    pub by: GroupBy,
    /// Most metadata operations first, then most calls, then by key; [`GroupBy::Syscall`] by name.
    pub rows: Vec<QueryRow>,
    /// Of all rows. `distinct` counts a path once, even where two rows have it.
    pub total: QueryRow,
}

/// Groups the calls of a recording.
pub fn table(recording: &Recording, by: GroupBy, filter: &CallFilter) -> QueryTable {
    let mut counted = CountedCalls::new(recording, filter);
    let directories = counted.directories(by);
    counted.table(by, &directories)
}

/// Groups the calls of two recordings in the same way, so that the tables can be compared row
/// by row: with [`GroupBy::Prefix`], both tell the same directories apart.
pub fn tables(
    a: &Recording,
    b: &Recording,
    by: GroupBy,
    filter: &CallFilter,
) -> (QueryTable, QueryTable) {
    let (mut a, mut b) = (CountedCalls::new(a, filter), CountedCalls::new(b, filter));
    let directories = a.directories(by).union(&b.directories(by)).cloned().collect();
    (a.table(by, &directories), b.table(by, &directories))
}

/// Which row each call of a recording is in.
#[derive(Clone, Debug, Default)]
pub struct RowsOfCalls {
    /// The rows, in no order, with their names and searches and nothing counted. Some may have no
    /// call.
    pub rows: Vec<QueryRow>,
    places: Vec<sum::RowOfCall>,
}

impl RowsOfCalls {
    /// Groups the calls of a recording, all of them.
    pub fn of(recording: &Recording, by: GroupBy) -> RowsOfCalls {
        let filter = CallFilter::default();
        let mut counted = CountedCalls::new(recording, &filter);
        let directories = counted.directories(by);
        let sum::Groups { rows, places } = counted.groups(by, &directories);
        RowsOfCalls { rows, places }
    }

    /// The place in `rows` of a call, by its number in [`Recording::events`]; none where it is in
    /// no row.
    pub fn of_call(&self, event: usize) -> Option<usize> {
        let row = self.places.get(event)?.number();
        (row < self.rows.len()).then_some(row)
    }
}

/// A recording, and which of its calls are counted.
struct CountedCalls<'a> {
    recording: &'a Recording,
    filter: &'a CallFilter,
    attributor: Attributor<'a>,
    selected: Vec<bool>,
}

impl<'a> CountedCalls<'a> {
    fn new(recording: &'a Recording, filter: &'a CallFilter) -> CountedCalls<'a> {
        let mut attributor = Attributor::new(recording);
        let selected = filter.select(recording, &mut attributor);
        CountedCalls { recording, filter, attributor, selected }
    }

    fn directories(&self, by: GroupBy) -> PrefixDirectories {
        match by {
            GroupBy::Prefix => prefix::heavy(self.recording, &self.selected),
            _ => PrefixDirectories::new(),
        }
    }

    fn groups(&mut self, by: GroupBy, directories: &PrefixDirectories) -> sum::Groups {
        let CountedCalls { recording, filter, attributor, selected } = self;
        match by {
            GroupBy::Cause => cause::group(recording, attributor),
            GroupBy::Prefix => prefix::group(recording, filter, directories),
            GroupBy::Process => process::group(recording, attributor, filter),
            GroupBy::Syscall => syscall::group(recording),
            GroupBy::Library => library::group(recording, attributor, selected),
            GroupBy::Module => module::group(recording, attributor, selected),
            GroupBy::Line => line::group(recording, filter),
        }
    }

    fn table(&mut self, by: GroupBy, directories: &PrefixDirectories) -> QueryTable {
        let groups = self.groups(by, directories);
        let (mut rows, total) = sum::add_up(self.recording, &self.selected, groups);
        rows.sort_by(|a, b| match by {
            GroupBy::Syscall => a.raw_key.cmp(&b.raw_key),
            _ => (b.metadata_ops, b.calls, &a.raw_key).cmp(&(a.metadata_ops, a.calls, &b.raw_key)),
        });
        let mut table = QueryTable { by, rows, total };
        if by == GroupBy::Syscall {
            table.share_time();
        }
        table
    }
}

impl CallFilter {
    /// Of each call, whether it is counted.
    fn select(&self, recording: &Recording, attributor: &mut Attributor) -> Vec<bool> {
        let inside = match self.below.is_empty() {
            true => None,
            false => Some(below::paths_below(recording, &self.below)),
        };
        let is_inside = |event: &Event| match (&inside, event.path) {
            (None, _) => true,
            (Some(inside), Some(path)) => inside[path.0 as usize],
            (Some(_), None) => false,
        };
        let mut keep = |event: &Event| {
            is_inside(event)
                && self.process.is_none_or(|process| event.process == process)
                && (!self.default_set || event.call.class().recorded())
                && self.cause.is_none_or(|cause| attributor.attribute(event).cause == cause)
        };
        recording.events.iter().map(&mut keep).collect()
    }
}
