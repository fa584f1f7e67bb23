//! Where and when a recording was made.

use std::ffi::OsString;

use crate::Name;
use serde::{Deserialize, Serialize};

/// The first block of a recording: everything that is known before the command runs.
///
/// It is stored as JSON, so that later versions can add fields that older ones skip.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The becalm that recorded, e.g. `0.1.0`.
    pub becalm: String,
    /// `uname -n`.
    pub host: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// Seconds since 1970 at the recording's start.
    pub started_unix: u64,
    /// Nanoseconds beside `started_unix`.
    #[serde(default)]
    pub started_nanos: u32,
    /// The command as given, lossily decoded.
    pub argv: Vec<String>,
    /// The same exactly, where the decoded words do not tell it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exact_argv: Vec<Name>,
    /// The working directory it was started in, lossily decoded.
    pub cwd: String,
    /// Effective user id.
    pub uid: u32,
    /// Whether every system call was recorded, or `%file,%desc,%process` only.
    pub all_syscalls: bool,
    /// Whether only what starts processes was recorded, and no other calls on files.
    #[serde(default)]
    pub starts_only: bool,
    /// How calls were seen: `ptrace`, `ptrace+seccomp` or `ptrace+seccomp+ebpf`.
    pub backend: String,
    /// The mounts of the recorder's namespace.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Which rank of a parallel job the command was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<crate::Rank>,
}

/// One mount, from `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where it is mounted.
    pub point: String,
    /// Filesystem type, e.g. `ext4`, `nfs4`, `lustre`, `fuse.sshfs`.
    pub fs: String,
    /// The device or server.
    pub source: String,
}

impl Header {
    /// Takes in the command.
    pub fn set_command(&mut self, argv: &[OsString]) {
        self.argv = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        self.exact_argv = match self.argv.iter().any(|word| word.contains('\u{fffd}')) {
            true => argv.iter().map(Name::of).collect(),
            false => Vec::new(),
        };
    }

    /// The words of the command.
    pub fn command(&self) -> Vec<Name> {
        match self.exact_argv.is_empty() {
            true => self.argv.iter().map(Name::of).collect(),
            false => self.exact_argv.clone(),
        }
    }

    /// The command to be pasted into a shell; none where an older becalm did not keep it exactly.
    pub fn command_line(&self) -> Option<String> {
        let words = self.command();
        let is_lost = |word: &String| word.contains('\u{fffd}');
        if words.is_empty() || (self.exact_argv.is_empty() && self.argv.iter().any(is_lost)) {
            return None;
        }
        Some(term::shell_line(&words))
    }

    /// The mount that holds `path`: the longest mount point that is a prefix of it. Of two at
    /// the same point the later one covers the earlier.
    pub fn mount_of(&self, path: &[u8]) -> Option<&Mount> {
        self.mounts
            .iter()
            .filter(|mount| is_below(path, mount.point.as_bytes()))
            .max_by_key(|mount| mount.point.len())
    }

    /// Whether `path` is on a filesystem for which no server would ever be asked: one that the
    /// kernel serves from its own memory (proc, sysfs, devtmpfs, tmpfs and the like), or an image.
    pub fn is_answered_on_node(&self, path: &[u8]) -> bool {
        match self.mount_of(path) {
            Some(mount) => mount.is_memory() || mount.is_image(),
            None => [&b"/proc"[..], b"/sys", b"/dev"].iter().any(|top| is_below(path, top)),
        }
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

/// Whether `path` is `directory` or below it, by whole components.
pub(crate) fn is_below(path: &[u8], directory: &[u8]) -> bool {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(point: &str, fs: &str) -> Mount {
        Mount { point: point.into(), fs: fs.into(), source: String::new() }
    }

    #[test]
    fn the_longest_mount_point_holds_a_path_by_whole_components() {
        let header = Header {
            mounts: vec![mount("/", "ext4"), mount("/proc", "proc"), mount("/pro", "nfs4")],
            ..Header::default()
        };
        assert_eq!(header.mount_of(b"/proc/self").map(|m| m.fs.as_str()), Some("proc"));
        assert_eq!(header.mount_of(b"/process").map(|m| m.fs.as_str()), Some("ext4"));
        assert!(header.is_answered_on_node(b"/proc/self/maps"));
        assert!(!header.is_answered_on_node(b"/usr/lib"));
    }

    #[test]
    fn an_image_is_answered_on_the_node_and_a_filesystem_in_user_space_is_not() {
        let mounts =
            vec![mount("/env", "nfs4"), mount("/env", "squashfs"), mount("/s", "fuse.sshfs")];
        let header = Header { mounts, ..Header::default() };
        assert!(header.is_answered_on_node(b"/env/bin/python"));
        assert!(!header.is_answered_on_node(b"/s/file"));
    }
}
