//! The probes, one file a group. Each is what a child tries, and a sentence for its answer.

pub(crate) mod bpf;
pub(crate) mod c_library;
pub(crate) mod fuse;
pub(crate) mod memory;
pub(crate) mod namespace;
pub(crate) mod outer;
pub(crate) mod perf;
pub(crate) mod processor;
pub(crate) mod trace;
pub(crate) mod uring;
