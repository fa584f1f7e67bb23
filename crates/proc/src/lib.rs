#![doc = include_str!("../README.md")]
//!
//! | file | what it holds |
//! |---|---|
//! | `mounts` | /proc/PID/mountinfo |
//! | `schedstat` | /proc/PID/schedstat |
//! | `stat` | /proc/PID/stat |
//! | `status` | /proc/PID/status |

mod mounts;
mod schedstat;
mod stat;
mod status;

pub use mounts::{MountEntry, mount_entries};
pub use schedstat::ProcessorTime;
pub use stat::ProcessStat;
pub use status::ProcessStatus;

/// The processes that live, by process id, in the order of their ids.
pub fn process_ids() -> impl Iterator<Item = i32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten();
    all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}
