//! The filesystem that a claim of speed is made on.

use std::collections::HashMap;

use recording::Recording;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The filesystem that a run asked most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestedFilesystem {
    /// Its type: `ext4`, `nfs4`, `lustre`, `tmpfs`, …
    pub fs: String,
    /// Where it is mounted.
    pub point: String,
    /// The device or server.
    pub source: String,
}

/// Filesystems that hold no program's files.
const NO_FILES: &[&str] = &["proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue"];

/// Filesystems that are served over a network, by the beginning of their types' names.
const SHARED: &[&str] = &[
    "nfs",
    "lustre",
    "gpfs",
    "beegfs",
    "fhgfs",
    "ceph",
    "cifs",
    "smb",
    "afs",
    "glusterfs",
    "panfs",
    "wekafs",
    "pvfs2",
    "orangefs",
    "9p",
    "virtiofs",
    "cvmfs",
    "dvs",
    "gfs2",
    "ocfs2",
];

impl TestedFilesystem {
    /// The filesystem that answered most of a recording's metadata operations, those of the
    /// kernel's own (proc, sysfs, …) not counted; none if it asked none.
    pub fn of(recording: &Recording) -> Option<TestedFilesystem> {
        // By mount point; of several mounts at one point, a path is always on the last.
        let mut asked = HashMap::new();
        for event in recording.events.iter().filter(|event| event.is_metadata()) {
            let path = event.path.map(|path| recording.path(path));
            let mount = path.and_then(|path| recording.mount_of(event, path));
            if let Some(mount) = mount.filter(|mount| !NO_FILES.contains(&mount.fs.as_str())) {
                asked.entry(&mount.point).or_insert((0u64, mount)).0 += 1;
            }
        }
        let (_, mount) = asked.into_values().max_by_key(|(asked, mount)| (*asked, &mount.point))?;
        let recording::Mount { fs, point, source } = mount.clone();
        Some(TestedFilesystem { fs, point, source })
    }

    /// Whether other machines share it.
    pub fn is_shared(&self) -> bool {
        // A FUSE filesystem says its kind after a dot; what the kind does is not known here,
        // but that of the known ones is.
        let kind = self.fs.strip_prefix("fuse.").unwrap_or(&self.fs);
        SHARED.iter().any(|shared| kind.starts_with(shared)) || kind == "sshfs"
    }

    /// In words, for a sentence: `local disk (ext4)`.
    pub fn words(&self) -> String {
        let fs = &self.fs;
        match fs.as_str() {
            "tmpfs" | "ramfs" => format!("memory filesystem ({fs})"),
            "overlay" | "aufs" => format!("container's filesystem ({fs})"),
            "squashfs" | "erofs" | "iso9660" => format!("image ({fs})"),
            _ if self.is_shared() => format!("shared filesystem ({fs}, {})", self.source),
            _ if fs.starts_with("fuse") => format!("filesystem ({fs})"),
            _ => format!("local disk ({fs})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_shared_and_memory_filesystems_are_told_apart() {
        let words = |fs: &str| {
            TestedFilesystem { fs: fs.into(), point: "/".into(), source: "srv:/x".into() }.words()
        };
        assert_eq!(words("ext4"), "local disk (ext4)");
        assert_eq!(words("xfs"), "local disk (xfs)");
        assert_eq!(words("nfs4"), "shared filesystem (nfs4, srv:/x)");
        assert_eq!(words("lustre"), "shared filesystem (lustre, srv:/x)");
        assert_eq!(words("fuse.sshfs"), "shared filesystem (fuse.sshfs, srv:/x)");
        assert_eq!(words("fuse.squashfuse"), "filesystem (fuse.squashfuse)");
        assert_eq!(words("tmpfs"), "memory filesystem (tmpfs)");
        assert_eq!(words("overlay"), "container's filesystem (overlay)");
    }
}
