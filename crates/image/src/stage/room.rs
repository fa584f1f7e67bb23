//! Whether a tree fits: into its directory, and into the memory of the node and of the job.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::ImageStageError;
use super::home::StageParent;
use crate::extract::ExtractList;

/// Of what there is in all, one in so many bytes is left alone.
const LEFT_ALONE: u64 = 20;
/// What the kernel keeps of a file, directory or link besides its content (tmpfs: an inode and a
/// name).
const PER_ENTRY: u64 = 1024;
/// It is looked again after so many bytes.
const LOOK: u64 = 32 << 20;
/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";

/// How much there is where a tree is to be made.
pub(super) struct StageRoom {
    directory: PathBuf,
    in_memory: bool,
    written: AtomicU64,
}

/// What has so much, and has so much left, in bytes.
struct Pool {
    what: String,
    total: u64,
    free: u64,
}

impl Pool {
    fn has(&self, needed: u64) -> bool {
        self.free.saturating_sub(self.total / LEFT_ALONE) >= needed
    }
}

impl StageRoom {
    pub fn of(place: &StageParent) -> StageRoom {
        let StageParent { directory, in_memory } = place;
        StageRoom {
            directory: directory.clone(),
            in_memory: *in_memory,
            written: AtomicU64::new(0),
        }
    }

    /// Says no before anything is written, if it would not fit. The list goes by the blocks that
    /// the image has, and never by a number in it.
    pub fn check(&self, image: &Path, list: &ExtractList) -> Result<(), ImageStageError> {
        let needed = list.bytes_on_disk.saturating_add(list.entries.saturating_mul(PER_ENTRY));
        let room = rustix::fs::statvfs(&self.directory)
            .map_err(super::error::file(&self.directory, "ask for the room in"))?;
        // Some filesystems do not count files.
        if room.f_files != 0 && room.f_favail < list.entries {
            let why = format!("{} files are needed, {} can be made", list.entries, room.f_favail);
            return Err(ImageStageError::Directory { path: self.directory.clone(), why });
        }
        match self.pools().into_iter().find(|pool| !pool.has(needed)) {
            None => Ok(()),
            Some(pool) => Err(ImageStageError::NoRoom {
                image: image.to_owned(),
                directory: self.directory.clone(),
                needed: needed.div_ceil(1_000_000),
                what: pool.what,
                free: pool.free / 1_000_000,
                total: pool.total / 1_000_000,
            }),
        }
    }

    /// Looks again from time to time: others may have taken it meanwhile, and a job whose memory
    /// is full is killed.
    pub fn before_writing(&self, bytes: u64) -> io::Result<()> {
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        if before / LOOK == (before + bytes) / LOOK {
            return Ok(());
        }
        match self.pools().into_iter().find(|pool| !pool.has(bytes)) {
            None => Ok(()),
            Some(pool) => {
                let why = format!("{} is full meanwhile", pool.what);
                Err(io::Error::new(io::ErrorKind::StorageFull, why))
            }
        }
    }

    fn pools(&self) -> Vec<Pool> {
        let mut pools = Vec::new();
        if let Ok(room) = rustix::fs::statvfs(&self.directory) {
            let bytes = |blocks: u64| blocks.saturating_mul(room.f_frsize);
            let what = self.directory.display().to_string();
            pools.push(Pool { what, total: bytes(room.f_blocks), free: bytes(room.f_bavail) });
        }
        if self.in_memory {
            pools.extend(node(&fs::read_to_string("/proc/meminfo").unwrap_or_default()));
            let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
            pools.extend(groups(Path::new(GROUPS), &own));
        }
        pools
    }
}

/// The memory that the calling process and those beside it may have at most, in bytes: the node's,
/// or what a control group leaves of it.
pub(crate) fn most_memory() -> Option<u64> {
    let node = node(&fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let pools = node.into_iter().chain(groups(Path::new(GROUPS), &own));
    pools.map(|pool| pool.total).min()
}

/// The memory of the node (proc_meminfo(5)).
fn node(meminfo: &str) -> Option<Pool> {
    let field = |name: &str| number(meminfo, name).map(|kibibytes| kibibytes.saturating_mul(1024));
    let what = "the memory of this node".to_owned();
    Some(Pool { what, total: field("MemTotal:")?, free: field("MemAvailable:")? })
}

/// The number that follows a word at the start of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines.next()?.split_whitespace().next()?.parse().ok()
}

/// The limits that the control groups of a process set (cgroups(7)), of both versions: those of
/// its own and of all above.
fn groups(top: &Path, own: &str) -> Vec<Pool> {
    let mut pools = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (top, files) = match controllers {
            "" => (top.to_owned(), &VERSION_2),
            _ if controllers.split(',').any(|one| one == "memory") => {
                (top.join("memory"), &VERSION_1)
            }
            _ => continue,
        };
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            pools.extend(files.pool(&top.join(group)));
        }
    }
    pools
}

/// The names of what a memory controller says.
struct MemoryFiles {
    limit: &'static str,
    used: &'static str,
    /// In memory.stat: content of files that was not used lately, and is dropped where memory
    /// is short. What is in a tmpfs is not counted there.
    cache: &'static str,
}

const VERSION_1: MemoryFiles = MemoryFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cache: "total_inactive_file ",
};
const VERSION_2: MemoryFiles =
    MemoryFiles { limit: "memory.max", used: "memory.current", cache: "inactive_file " };

impl MemoryFiles {
    /// None where there is no limit (`max`, or more than any machine has).
    fn pool(&self, group: &Path) -> Option<Pool> {
        let read = |name: &str| fs::read_to_string(group.join(name)).ok();
        let bytes = |name: &str| read(name)?.trim().parse::<u64>().ok();
        let (total, used) = (bytes(self.limit)?, bytes(self.used)?);
        let cache = number(&read("memory.stat").unwrap_or_default(), self.cache).unwrap_or(0);
        let free = total.saturating_sub(used.saturating_sub(cache));
        let what = format!("the job's memory ({})", group.display());
        (total < 1 << 50).then_some(Pool { what, total, free })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_node_is_what_is_available_not_what_is_free() {
        let pool = node("MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:   500 kB\n").unwrap();
        assert_eq!((pool.total, pool.free), (1_024_000, 512_000));
        assert!(pool.has(460_800) && !pool.has(460_801), "a twentieth is left alone");
        assert!(node("MemTotal: x kB").is_none());
    }

    #[test]
    fn the_limits_of_all_control_groups_above_count_and_their_cache_is_free() {
        let top = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = top.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("job/memory.max", "1000\n");
        write("job/memory.current", "700\n");
        write("job/memory.stat", "anon 5\ninactive_file 100\n");
        write("job/step/memory.max", "max\n");
        write("job/step/memory.current", "700\n");
        write("memory/uid/memory.limit_in_bytes", "2000");
        write("memory/uid/memory.usage_in_bytes", "500");
        write("memory/memory.limit_in_bytes", "9223372036854771712");
        write("memory/memory.usage_in_bytes", "500");
        let found = |own| -> Vec<(u64, u64)> {
            groups(top.path(), own).iter().map(|pool| (pool.total, pool.free)).collect()
        };
        assert_eq!(found("0::/job/step\n"), [(1000, 400)]);
        assert_eq!(found("4:cpu,memory:/uid\n1:name=systemd:/\n"), [(2000, 1500)]);
        assert_eq!(found("nonsense\n0::/\n"), []);
    }
}
