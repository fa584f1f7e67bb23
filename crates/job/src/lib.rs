#![doc = include_str!("../README.md")]
//!
//! One recorder a rank: `srun -n 16 becalm record -o start.becalm -- ./app` is 16 recorders that
//! were given one path.
//!
//! Each writes to a directory of the node's own. Whoever is the last of a node to finish joins what
//! is there into one file a node beside the path that was asked for, and removes the directory. Who
//! is still at it is known by locks that the kernel drops with their holder, so that a recorder
//! that is killed keeps nobody waiting, and what it had written is joined with the rest.
//!
//! | file | what it holds |
//! |---|---|
//! | `broadcast` | something brought to every node of a job, by what the site has for that |
//! | `launched` | which rank this process is |
//! | `reporting` | which of the ranks reports |
//! | `target` | where a recording goes: a file of its own, or one with those of other ranks |
//! | `directory` | the node's directory: who is in it, who is still at it |
//! | `join` | the recordings of a node's directory made one file |
//! | `name` | what the files are called |
//! | `in_step` | ranks that do one thing after the other, all at the same moment |

mod broadcast;
mod directory;
mod error;
mod in_step;
mod join;
mod launched;
mod name;
mod reporting;
mod target;

pub use broadcast::{BroadcastMeans, failed, node_name, nodes};
pub use error::{JobError, TargetError};
pub use in_step::{RankAnswer, RanksInStep, StepGo, StepRank};
pub use join::{join_when_done, left_behind};
pub use launched::LaunchedRank;
pub use reporting::ReportingRank;
pub use target::{RecordingTarget, own_name};
