//! A user's groups in a user namespace. They act on files as ever, but only a group that the
//! namespace maps can be shown, or given to a file (user_namespaces(7)). An ordinary user may map
//! their own; others where the site grants them (subgid(5)) and has newgidmap(1), which has the
//! right to.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use rustix::process::{getegid, geteuid, getgroups};

/// The kernel takes no more lines (`UID_GID_MAP_MAX_EXTENTS`).
const MOST: usize = 340;

/// The groups of the calling process besides its own.
pub fn other_groups() -> Vec<u32> {
    let own = getegid().as_raw();
    let groups = getgroups().unwrap_or_default().into_iter().map(rustix::process::Gid::as_raw);
    groups.filter(|group| *group != own).collect()
}

/// Whether files can be given to a group in the calling process's user namespace.
pub fn is_mapped(group: u32) -> bool {
    let map = fs::read_to_string("/proc/self/gid_map").unwrap_or_default();
    ranges(&map).any(|(first, length)| u64::from(group).wrapping_sub(first) < length)
}

/// The first number and the last of each line.
fn ranges(map: &str) -> impl Iterator<Item = (u64, u64)> {
    map.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next_back()?.parse().ok()?))
    })
}

/// The calling process's groups that the site lets it map.
fn granted() -> Vec<u32> {
    let grants = fs::read_to_string("/etc/subgid").unwrap_or_default();
    let user = geteuid().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let listed = users.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == user).then(|| name.to_owned())
    });
    // Where users are not listed in a file: newgidmap looks again.
    let said = ["LOGNAME", "USER"].into_iter().filter_map(|name| std::env::var(name).ok());
    let names: Vec<String> = listed.chain(said).chain([user.clone()]).collect();
    granted_of(&grants, &names, other_groups())
}

fn granted_of(grants: &str, names: &[String], mut groups: Vec<u32>) -> Vec<u32> {
    let ranges: Vec<(u64, u64)> = grants
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let numbers = (fields.next()?.parse().ok()?, fields.next()?.trim().parse().ok()?);
            names.iter().any(|own| own == name).then_some(numbers)
        })
        .collect();
    let is_granted = |group: &u32| {
        ranges.iter().any(|(first, length)| u64::from(*group).wrapping_sub(*first) < *length)
    };
    groups.retain(is_granted);
    groups.sort_unstable();
    groups.dedup();
    groups.truncate(MOST - 1);
    groups
}

/// Somebody outside a user namespace that is about to be made, who maps groups into it.
#[derive(Debug)]
pub(crate) struct GroupMapper(Child);

impl GroupMapper {
    /// For the calling process; none where there is nothing that it could map.
    pub fn wait_outside() -> Option<GroupMapper> {
        let granted = granted();
        if granted.is_empty() {
            return None;
        }
        let mut line = Command::new("/bin/sh");
        line.args(["-c", "read go && exec newgidmap \"$@\"", "becalm-groups"]);
        line.arg(std::process::id().to_string());
        for group in [getegid().as_raw()].into_iter().chain(granted) {
            line.args([group.to_string(), group.to_string(), "1".to_owned()]);
        }
        line.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        line.spawn().ok().map(GroupMapper)
    }

    /// Has the groups mapped; whether they are. Where the site refuses it, nothing is.
    pub fn map(mut self) -> bool {
        if let Some(mut line) = self.0.stdin.take() {
            let _ = line.write_all(b"go\n");
        }
        let _ = self.0.wait();
        let map = fs::read_to_string("/proc/self/gid_map").unwrap_or_default();
        ranges(&map).next().is_some()
    }

    /// There is no namespace.
    pub fn dismiss(mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_granted_by_the_users_name_or_number_and_to_nobody_else() {
        let grants = "ann:100000:65536\nann:2345:2\n1000:7000:1\nben:9000:1\nbroken\nann:x:1\n";
        let names = ["ann".to_owned(), "1000".to_owned()];
        let granted = |groups: &[u32]| granted_of(grants, &names, groups.to_vec());
        assert_eq!(granted(&[2344, 2345, 2346, 2347, 7000, 7001, 9000]), [2345, 2346, 7000]);
        assert_eq!(granted(&[]), [] as [u32; 0]);
        assert_eq!(granted(&(100_000..101_000).collect::<Vec<_>>()).len(), MOST - 1);
    }

    #[test]
    fn the_first_namespace_maps_all_groups() {
        let map = fs::read_to_string("/proc/self/gid_map").unwrap();
        if ranges(&map).any(|range| range == (0, 4_294_967_295)) {
            assert!(is_mapped(0) && is_mapped(2345));
        }
        assert_eq!(ranges("  5  5  1\n 9 7 3\n").collect::<Vec<_>>(), [(5, 1), (9, 3)]);
    }
}
