#![doc = include_str!("../README.md")]
//!
//! A [`FilesystemProfile`] says how long a metadata server takes, and what a client caches. A
//! [`RecordedStart`] is what one rank did. A [`CostModel`] replays it through the cache of a client,
//! which gives RPCs, and sends those of all ranks to one server.
//!
//! | file | what it holds |
//! |---|---|
//! | `profile` | what a shared filesystem is like, as data |
//! | `profile_store` | which profiles there are (`profiles/*.toml`, and a user's own) |
//! | `units` | spans of time and bandwidths, as they are written |
//! | `shared_directories` | which of the recorded paths are on it |
//! | `left_out` | what a prediction leaves out, and what to name for it |
//! | `path_request` | one system call, as the kernel's walk along a path sees it |
//! | `rpc` | what crosses the network |
//! | `client_cache` | which RPCs a node sends for a call |
//! | `server_cache` | what a cold server reads from its disk |
//! | `missing_component` | which component of a path is the one that is not there |
//! | `compute` | what the processes computed between their calls, without the recorder |
//! | `recorded_start` | what one rank does: computes, looks paths up, reads, in order |
//! | `start_steps` | the same in a few bytes a call |
//! | `fetched_bytes` | what calls and touches fetch to a node |
//! | `unwatched` | about how much was read, where reads were not watched |
//! | `rpc_sequence` | which RPCs that takes, once a node or once a rank |
//! | `stretches` | those stretches of a start, in a few bytes each |
//! | `closed_queue` | all ranks at once in the server's queue |
//! | `job_size` | how many ranks, on how many nodes |
//! | `faulted` | what page faults fetch, after readahead |
//! | `model` | the predicted wait, of a start and of each of its calls |
//! | `call_set` | calls of a recording, a bit each |
//! | `wait_parts` | the part of each call, in a few bytes |
//! | `wait_terms` | a wait as amounts that a filesystem's speed multiplies |
//! | `projection` | the same for other numbers of ranks |
//! | `spread_job` | the same where one node reads for all what is read of an image |
//! | `assumptions` | what that takes for granted, in words |
//! | `csv` | a projection as CSV |

mod assumptions;
mod call_set;
mod client_cache;
mod closed_queue;
#[cfg(test)]
mod closed_queue_tests;
mod compute;
mod csv;
mod faulted;
mod fetched_bytes;
mod job_size;
mod left_out;
mod missing_component;
mod model;
mod path_request;
mod profile;
mod profile_store;
mod projection;
mod recorded_start;
mod rpc;
mod rpc_sequence;
mod server_cache;
mod shared_directories;
mod spread_job;
mod start_steps;
mod stretches;
mod units;
mod unwatched;
mod wait_parts;
mod wait_terms;

pub use call_set::CallSet;
pub use client_cache::ClientCache;
pub use compute::ComputeSource;
pub use csv::csv;
pub use faulted::{FaultedData, faulted_by_file};
pub use job_size::JobSize;
pub use left_out::LeftOut;
pub use model::{CostModel, PredictedWait, Prediction};
pub use path_request::{PathRequest, RequestKind};
pub use profile::{
    CacheRules, DataServer, FilesystemProfile, MetadataServer, Revalidation, ServerDisk,
};
pub use profile_store::ProfileError;
pub use projection::{JobProjection, Projection, Saturation};
pub use recorded_start::{ProjectionError, RecordedStart};
pub use rpc::{Rpc, RpcCounts, RpcKind};
pub use rpc_sequence::{LOOKS_AT_ONCE, RpcSummary};
pub use server_cache::ServerCache;
pub use shared_directories::{SharedChoice, SharedDirectories, is_network};
pub use spread_job::{SpreadProjection, SpreadWait};
pub use units::{Bandwidth, TimeSpan};
pub use unwatched::ReadsKnown;
pub use wait_terms::{OutlinedStart, OutlinedStep, WaitOutline, WaitTerms};
