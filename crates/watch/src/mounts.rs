//! What a process sees mounted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use proc::{MountEntry, mount_entries};
use recording::Mount;

/// More changes than any container makes; from then on, what is mounted counts as not known.
const MOST_CHANGES: usize = 1000;

/// The mounts of this process's namespace, their names lossily decoded.
pub(crate) fn own() -> Vec<Mount> {
    read("self", b"")
}

/// The mounts that a thread sees, as paths of a process whose root is `root` are recorded.
fn read(thread: &str, root: &[u8]) -> Vec<Mount> {
    let list = std::fs::read(format!("/proc/{thread}/mountinfo")).unwrap_or_default();
    let text = |name: &OsStr| name.to_string_lossy().into_owned();
    let mount = |entry: MountEntry| {
        let point = [root, entry.point.as_os_str().as_bytes()].concat();
        Mount {
            point: text(OsStr::from_bytes(&point)),
            fs: text(&entry.kind),
            source: text(&entry.source),
        }
    };
    mount_entries(&list).map(mount).collect()
}

/// What is known so far of each namespace.
pub(crate) struct KnownMounts {
    own: Option<u64>,
    changes: usize,
    /// Of each process the namespace, and of each namespace the mounts, that were recorded last.
    last: Vec<(u64, Vec<Mount>)>,
    entered: Vec<(u32, u64)>,
}

impl KnownMounts {
    /// Nothing has changed since the recorder's header.
    pub fn new() -> KnownMounts {
        KnownMounts { own: namespace("self"), changes: 0, last: Vec::new(), entered: Vec::new() }
    }

    /// The namespace of a process, and what is mounted there, if that is not what was recorded last
    /// of it.
    pub fn changed(&mut self, thread: i32, process: u32, root: &[u8]) -> Option<(u64, Vec<Mount>)> {
        let thread = thread.to_string();
        let found = namespace(&thread);
        let number = found.filter(|_| found != self.own).unwrap_or(0);
        self.changes += 1;
        if self.changes > MOST_CHANGES + 1 {
            return None;
        }
        let is_known = found.is_some() && self.changes <= MOST_CHANGES;
        let mounts = if is_known { read(&thread, root) } else { Vec::new() };
        let has_entered = self.entered.iter().rfind(|(known, _)| *known == process);
        let stays = has_entered.map_or(number == 0, |(_, known)| *known == number);
        let last = self.last.iter().position(|(known, _)| *known == number);
        if stays && last.is_some_and(|last| self.last[last].1 == mounts) {
            return None;
        }
        last.map(|last| self.last.swap_remove(last));
        self.last.push((number, mounts.clone()));
        self.entered.retain(|(known, _)| *known != process);
        self.entered.push((process, number));
        Some((number, mounts))
    }
}

/// The number of a thread's mount namespace (namespaces(7)).
fn namespace(thread: &str) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/{thread}/ns/mnt")).ok()?;
    link.to_str()?.strip_prefix("mnt:[")?.strip_suffix(']')?.parse().ok()
}
