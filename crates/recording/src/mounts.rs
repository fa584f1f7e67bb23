//! Which filesystem a path was on: for a process, at a moment.
//!
//! A process sees the mounts of its namespace, and its children see the same. The header lists those
//! of the namespace that the command began in; each change that a process of the recording made or
//! entered is a [`MountChange`].

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::header::is_below;
use crate::{Blind, Event, Nanos, Outcome, Process, ProcessId, Recording, shown};

/// One mount, from `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mount {
    /// Where it is mounted.
    pub point: String,
    /// Filesystem type, e.g. `ext4`, `nfs4`, `lustre`, `fuse.sshfs`.
    pub fs: String,
    /// The device or server.
    pub source: String,
}

/// What a process saw mounted from a moment on, and with it every process of its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountChange {
    /// Which process.
    pub process: ProcessId,
    /// From when on.
    pub at: Nanos,
    /// Its mount namespace: the kernel's number, 0 for the one that the command began in.
    pub namespace: u64,
    /// All that is mounted there. Empty: it could not be read.
    pub mounts: Vec<Mount>,
}

/// The changes of a recording, in the order of time. Each question takes a step or a few, however
/// many changes and mounts there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct MountHistory {
    pub(crate) changes: Vec<MountChange>,
    /// Of each process, the namespace that it began in.
    began: Vec<u64>,
    /// Of each process, the changes that it made.
    of_process: HashMap<ProcessId, Vec<usize>>,
    /// The changes of each namespace.
    of_namespace: HashMap<u64, Vec<usize>>,
    /// The points of each of the tables: the header's, and that of each change.
    points: Vec<MountPoints>,
}

impl MountHistory {
    /// Puts the changes of these processes in order; at first these mounts are there. A parent's
    /// number is below its child's.
    pub(crate) fn settle(&mut self, first: &[Mount], processes: &[Process]) {
        self.changes.sort_by_key(|change| change.at);
        let tables = self.changes.iter().map(|change| &change.mounts[..]);
        self.points = std::iter::once(first).chain(tables).map(MountPoints::of).collect();
        for (number, change) in self.changes.iter().enumerate() {
            self.of_process.entry(change.process).or_default().push(number);
            self.of_namespace.entry(change.namespace).or_default().push(number);
        }
        if self.changes.is_empty() {
            return;
        }
        for process in processes {
            let began = process.parent.map_or(0, |parent| self.namespace(parent, process.started));
            self.began.push(began);
        }
    }

    /// The namespace of a process at a moment.
    fn namespace(&self, process: ProcessId, at: Nanos) -> u64 {
        let own = self.last(self.of_process.get(&process), at);
        let began = || self.began.get(process.0 as usize).copied().unwrap_or_default();
        own.map_or_else(began, |change| self.changes[change].namespace)
    }

    /// The last of some changes up to a moment.
    fn last(&self, some: Option<&Vec<usize>>, at: Nanos) -> Option<usize> {
        let some = some?;
        let until = some.partition_point(|change| self.changes[*change].at <= at);
        some[..until].last().copied()
    }

    /// The number of the change that tells what a process sees at a moment; none: the header does.
    fn change(&self, process: ProcessId, at: Nanos) -> Option<usize> {
        if self.changes.is_empty() {
            return None;
        }
        self.last(self.of_namespace.get(&self.namespace(process, at)), at)
    }
}

/// The mounts of a table by their points, without the slash that `/` is.
#[derive(Clone, Debug)]
struct MountPoints(HashMap<Box<[u8]>, u32>);

impl MountPoints {
    fn of(mounts: &[Mount]) -> MountPoints {
        let point = |mount: &Mount| {
            let point = mount.point.as_bytes();
            Box::from(point.strip_suffix(b"/").unwrap_or(point))
        };
        let number = |(number, mount): (usize, &Mount)| (point(mount), number as u32);
        MountPoints(mounts.iter().enumerate().map(number).collect())
    }

    /// [`mount_of`], in as many steps as the path has components.
    fn mount_of<'a>(&self, mounts: &'a [Mount], path: &[u8]) -> Option<&'a Mount> {
        let mut end = path.len();
        loop {
            if let Some(number) = self.0.get(&path[..end]) {
                return mounts.get(*number as usize);
            }
            end = path[..end].iter().rposition(|byte| *byte == b'/')?;
        }
    }
}

impl Recording {
    /// What is mounted where: at the recording's start, and after each change.
    pub fn mount_tables(&self) -> impl Iterator<Item = &[Mount]> {
        let changed = self.mount_history.changes.iter().map(|change| &change.mounts[..]);
        std::iter::once(&self.header.mounts[..]).chain(changed)
    }

    /// Which of the [tables](Recording::mount_tables) holds for a call.
    pub fn mount_table(&self, event: &Event) -> usize {
        self.mount_history.change(event.process, event.start).map_or(0, |change| change + 1)
    }

    /// The mount that holds a path of a call.
    pub fn mount_of(&self, event: &Event, path: &[u8]) -> Option<&Mount> {
        self.mount_in(self.mount_table(event), path)
    }

    /// The mount of one of the [tables](Recording::mount_tables) that holds a path.
    fn mount_in(&self, table: usize, path: &[u8]) -> Option<&Mount> {
        let mounts = match table {
            0 => &self.header.mounts,
            changed => &self.mount_history.changes[changed - 1].mounts,
        };
        self.mount_history.points.get(table)?.mount_of(mounts, path)
    }

    /// Whether a path of a call is on a filesystem for which no server would ever be asked: one that
    /// the kernel serves from its own memory (proc, sysfs, devtmpfs, tmpfs and the like), or an
    /// image.
    pub fn is_answered_on_node(&self, event: &Event, path: &[u8]) -> bool {
        is_answered_on_node(self.mount_of(event, path), path)
    }

    /// How the command came to other mounts than it was started with, if it did and the recording
    /// does not tell which: an older becalm made it, or they could not be read.
    pub fn mounts_changed(&self) -> Option<String> {
        let changes = &self.mount_history.changes;
        if !changes.is_empty() && changes.iter().all(|change| !change.mounts.is_empty()) {
            return None;
        }
        let mounting = self.events.iter().filter(|event| {
            matches!(event.outcome, Outcome::Returned(_))
                && MOUNTING.contains(&&*event.call.label())
        });
        // A mount on / alone is only told not to spread (mount_namespaces(7)).
        let mut points = mounting.filter_map(|event| event.path.map(|path| self.path(path)));
        let point = points.rfind(|path| *path != b"/");
        let moved = self.blinds.iter().any(|blind| matches!(blind, Blind::OtherRoot { .. }));
        match (point, moved) {
            (Some(point), _) => Some(format!("a mount on {}", shown(point))),
            (None, true) => Some("it entered another root or mount namespace".to_owned()),
            (None, false) => None,
        }
    }

    /// Whether what a process moved to is the same system with other mounts, and not another one:
    /// what is mounted at `/` is the same.
    pub fn keeps_its_root(&self, process: ProcessId) -> bool {
        let own = self.mount_history.of_process.get(&process);
        let root = |table| self.mount_in(table, b"/").map(|mount| (&mount.fs, &mount.source));
        own.is_some_and(|own| own.iter().all(|change| root(change + 1) == root(0)))
    }

    /// How many metadata operations it holds: what `becalm report` counts.
    pub fn metadata_operations(&self) -> u64 {
        self.events.iter().filter(|event| event.is_metadata()).count() as u64
    }
}

/// Calls that mount something somewhere (mount(2), move_mount(2)).
const MOUNTING: [&str; 2] = ["mount", "move_mount"];

/// The mount of a table that holds `path`: the longest mount point that is a prefix of it. Of two at
/// the same point the later one covers the earlier.
pub fn mount_of<'a>(mounts: &'a [Mount], path: &[u8]) -> Option<&'a Mount> {
    let holds = |mount: &&Mount| is_below(path, mount.point.as_bytes());
    mounts.iter().filter(holds).max_by_key(|mount| mount.point.len())
}

/// As [`Recording::is_answered_on_node`], of a path and the mount that holds it.
pub fn is_answered_on_node(mount: Option<&Mount>, path: &[u8]) -> bool {
    match mount {
        Some(mount) => mount.is_memory() || mount.is_image(),
        None => [&b"/proc"[..], b"/sys", b"/dev"].iter().any(|top| is_below(path, top)),
    }
}

impl Mount {
    /// Whether the kernel serves it from its own memory.
    fn is_memory(&self) -> bool {
        MEMORY_FILESYSTEMS.contains(&self.fs.as_str())
    }

    /// Whether one file holds all of it: the node answers what is asked of it, and reads the file.
    pub fn is_image(&self) -> bool {
        IMAGE_FILESYSTEMS.contains(&self.fs.as_str())
    }
}

/// Filesystems that are only ever made as one file and mounted to be read.
const IMAGE_FILESYSTEMS: &[&str] = &[
    "squashfs",
    "erofs",
    "cramfs",
    "iso9660",
    "fuse.squashfuse",
    "fuse.squashfuse_ll",
    "fuse.becalm-image",
];

#[rustfmt::skip]
const MEMORY_FILESYSTEMS: &[&str] = &[
    "proc", "sysfs", "devtmpfs", "devpts", "tmpfs", "ramfs", "cgroup", "cgroup2", "securityfs",
    "debugfs", "tracefs", "mqueue", "hugetlbfs", "bpf", "pstore", "configfs", "efivarfs",
    "binfmt_misc", "fusectl", "rpc_pipefs", "nsfs",
];

#[cfg(test)]
mod tests {
    use crate::{Call, Header, Record, StartCall};

    use super::*;

    fn mount(point: &str, fs: &str) -> Mount {
        Mount { point: point.into(), fs: fs.into(), source: String::new() }
    }

    #[test]
    fn the_longest_mount_point_holds_a_path_by_whole_components() {
        let mounts = [mount("/", "ext4"), mount("/proc", "proc"), mount("/pro", "nfs4")];
        let fs = |path: &[u8]| mount_of(&mounts, path).map(|mount| mount.fs.clone()).unwrap();
        assert_eq!((fs(b"/proc/self"), fs(b"/process")), ("proc".into(), "ext4".into()));
        let on_node = |path: &[u8]| is_answered_on_node(mount_of(&mounts, path), path);
        assert!(on_node(b"/proc/self/maps") && !on_node(b"/usr/lib"));
    }

    #[test]
    fn an_image_is_answered_on_the_node_and_a_filesystem_in_user_space_is_not() {
        let mounts = [mount("/env", "nfs4"), mount("/env", "squashfs"), mount("/s", "fuse.sshfs")];
        let on_node = |path: &[u8]| is_answered_on_node(mount_of(&mounts, path), path);
        assert!(on_node(b"/env/bin/python") && !on_node(b"/s/file"));
    }

    #[test]
    fn a_process_sees_the_mounts_of_its_namespace_from_when_on_they_changed() {
        let header = Header { mounts: vec![mount("/", "ext4")], ..Header::default() };
        let change = |process, at, namespace, fs: &str| {
            Record::Mounts(MountChange {
                process: ProcessId(process),
                at: Nanos(at),
                namespace,
                mounts: vec![mount("/", "ext4"), mount("/env", fs)],
            })
        };
        let recording = Recording::written_by(&header, |writer| {
            let starts = [(0, None, 0), (1, Some(0), 10), (2, Some(1), 40), (3, Some(0), 40)];
            for (process, parent, at) in starts {
                let (process, parent) = (ProcessId(process), parent.map(ProcessId));
                let how = StartCall::Fork;
                writer.record(&Record::Start { process, pid: 1, parent, how, at: Nanos(at) });
            }
            // The second process goes to a namespace of its own; later an image is mounted there.
            writer.record(&change(1, 20, 77, "nfs4"));
            writer.record(&change(2, 50, 77, "squashfs"));
            Nanos(100)
        });
        let recording = recording.unwrap();
        let fs = |process: u32, start: u64| {
            let call = Call::named("openat").unwrap();
            let event = Event::new(call, Outcome::Returned(3));
            let event = Event { process: ProcessId(process), start: Nanos(start), ..event };
            recording.mount_of(&event, b"/env/bin").unwrap().fs.clone()
        };
        assert_eq!(
            (fs(1, 15), fs(1, 25), fs(1, 60)),
            ("ext4".into(), "nfs4".into(), "squashfs".into())
        );
        assert_eq!((fs(2, 45), fs(2, 60)), ("nfs4".into(), "squashfs".into()), "as its parent");
        assert_eq!(
            (fs(0, 99), fs(3, 99)),
            ("ext4".into(), "ext4".into()),
            "in the first one still"
        );
        assert_eq!(recording.mounts_changed(), None);
        assert!(recording.keeps_its_root(ProcessId(1)) && !recording.keeps_its_root(ProcessId(0)));
    }
}
