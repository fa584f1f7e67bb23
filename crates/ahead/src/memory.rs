//! How much memory what is read ahead may take.

use std::fs;
use std::path::{Path, PathBuf};

/// A quarter of what is free: of the node's `MemAvailable` (proc(5)), and of what the control groups
/// of this process leave, which the pages of files count in (cgroups(7), `memory.max` less
/// `memory.current`; `memory.limit_in_bytes` less `memory.usage_in_bytes` of version 1).
pub fn quarter_of_free_memory() -> u64 {
    let node = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = groups.lines().flat_map(group_directories).filter_map(|group| left(&group));
    groups.chain(node).min().map_or(0, |free| free / 4)
}

/// Bytes that are available, from the text of /proc/meminfo.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// The directories of a line of /proc/self/cgroup, each with those above it, that limit memory.
fn group_directories(line: &str) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
        return Vec::new();
    };
    let root = match controllers {
        "" => "/sys/fs/cgroup",
        controllers if controllers.split(',').any(|name| name == "memory") => {
            "/sys/fs/cgroup/memory"
        }
        _ => return Vec::new(),
    };
    let below = Path::new(path.trim_start_matches('/'));
    below.ancestors().map(|directory| Path::new(root).join(directory)).collect()
}

/// What a control group leaves; none where it sets no limit.
fn left(group: &Path) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
    };
    let both = |limit, used| Some(number(limit)?.saturating_sub(number(used)?));
    both("memory.max", "memory.current")
        .or_else(|| both("memory.limit_in_bytes", "memory.usage_in_bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_the_least_that_the_node_and_its_groups_leave() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        let groups = group_directories("0::/user.slice/job 5");
        let names = ["user.slice/job 5", "user.slice", ""];
        assert_eq!(groups, names.map(|name| Path::new("/sys/fs/cgroup").join(name)));
        assert_eq!(group_directories("4:cpu,memory:/a")[0], Path::new("/sys/fs/cgroup/memory/a"));
        assert_eq!(group_directories("4:cpu:/a"), Vec::<PathBuf>::new());
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("memory.current", "100\n");
        write("memory.max", "max\n");
        assert_eq!(left(directory.path()), None);
        write("memory.max", "1100\n");
        assert_eq!(left(directory.path()), Some(1000));
        assert!(quarter_of_free_memory() > 0);
    }
}
