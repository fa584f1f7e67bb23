#![doc = include_str!("../README.md")]
//!
//! `watch` makes a recording through a [`Writer`]; everything else reads it, either as a
//! stream of [`Record`]s through a [`Reader`] or whole, as a [`Recording`].
//!
//! | file | what it holds |
//! |---|---|
//! | `header` | where and when the run was: host, kernel, command, mounts |
//! | `call` | system calls by name: strace's classes, and what a call means to a filesystem |
//! | `mounts` | which filesystem a path was on, for a process at a moment |
//! | `event` | one system call: who, what, which path, result, time |
//! | `touch` | which part of which file a call or a page fault was about |
//! | `process` | one process: its execs, its end, what it used |
//! | `let_go` | when and why a program was watched no longer |
//! | `origin` | where in its parent's script it was started |
//! | `cause` | why a call was made, and whether that is observed or inferred |
//! | `attributor` | the same for a million calls: each distinct combination is worked out once |
//! | `search_variables` | the environment variables that hold lists of directories |
//! | `module_search` | which calls of Python are imports, and what `sys.path` held |
//! | `wire` | the records of the file, and how they are framed |
//! | `writer`, `reader` | the file format, both ways (docs/recording-format.md) |
//! | `budget` | how much memory a recording may take |
//! | `rank_start` | the starts of a run's ranks beside each other: who waited for whom |
//! | `rank`, `ranks` | which rank of a job it is of; the recordings of several in one file |
//! | `sealed` | a checksum around what becalm keeps for itself and reads back |
//! | `totals` | the sums over one recording, streamed |
//! | `name` | names as text that reads back |
//! | `load` | a whole recording in memory |
//! | `lineage` | what processes have from those above them, and who is below whom |
//! | `query` | tables: calls by cause, prefix, process, system call, library, module |
//! | `diff` | what changed between two runs |
//! | `export` | JSON lines, strace's text, traces of Chrome and Perfetto, stacks, CSV, Parquet |

mod attributor;
mod budget;
mod call;
mod cause;
pub mod diff;
mod event;
pub mod export;
mod header;
mod let_go;
mod lineage;
mod load;
mod memory;
pub mod module_search;
mod mounts;
mod name;
mod origin;
mod process;
pub mod query;
mod rank;
mod rank_start;
mod ranks;
mod reader;
mod sealed;
mod search_variables;
mod totals;
mod touch;
mod units;
mod wire;
mod writer;

pub use attributor::Attributor;
pub use call::{Abi, Call, Class, Kind};
pub use cause::{Attribution, Cause, Role};
pub use event::{Event, Outcome, Phase, errno_name};
pub use header::{Header, JoinedRun};
pub use let_go::{LetGo, LetGoReason};
pub use lineage::Descent;
pub use load::Recording;
pub use mounts::{Mount, MountChange, is_answered_on_node, mount_of};
pub use name::{Name, serialize_all_shown, serialize_shown, shown, shown_name, shown_path};
pub use origin::{Frame, Origin};
pub use process::{
    Exec, ExitStatus, MappedElf, Process, ProcessEnd, ProcessId, Signal, StartCall, Usage,
};
pub use rank::Rank;
pub use rank_start::RankStart;
pub use ranks::{MergeError, RankRecording, RankedRecordings, is_recording};
pub use reader::{Reader, RecordingReadError};
pub use sealed::{seal, unseal};
pub use search_variables::{SEARCH_VARIABLES, SearchVariable};
pub use totals::Totals;
pub use touch::{FileRange, Touch};
pub use units::{ByteUnits, Micros, Nanos};
pub use wire::{Blind, PathId, Record, RecordingSummary, UnwatchedReads};
pub use writer::{Sink, Writer};
