#![doc = include_str!("../README.md")]
//!
//! | file | what it holds |
//! |---|---|
//! | `filesystem` | which kind of filesystem a path is on |
//! | `mounts` | /proc/PID/mountinfo |
//! | `schedstat` | /proc/PID/schedstat |
//! | `stat` | /proc/PID/stat |
//! | `status` | /proc/PID/status |

mod filesystem;
mod mounts;
mod schedstat;
mod stat;
mod status;

pub use filesystem::FilesystemKind;
pub use mounts::{MountEntry, mount_entries};
pub use schedstat::ProcessorTime;
pub use stat::ProcessStat;
pub use status::ProcessStatus;

/// Whether /proc is of another PID namespace than the calling process's (pid_namespaces(7)): a number
/// names another process there, or none. Where there is no /proc at all it is not.
pub fn is_of_other_namespace() -> bool {
    let own = std::path::Path::new("/proc/self");
    let number = own.read_link().ok().and_then(|name| name.to_str()?.parse().ok());
    own.symlink_metadata().is_ok() && number != Some(std::process::id())
}

/// The processes that live, by process id, in the order of their ids.
pub fn process_ids() -> impl Iterator<Item = i32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten();
    all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}
