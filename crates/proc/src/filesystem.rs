//! What kind of filesystem a path is on, by the number that statfs(2) tells (linux/magic.h, and the
//! projects' own headers). The numbers have 32 bits, whatever the type of the field.

use std::path::Path;

/// Filesystems that other machines change.
const OF_OTHER_MACHINES: [(u32, &str); 17] = [
    (0x6969, "NFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x00c3_6400, "Ceph"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0xaad7_aaea, "PanFS"),
    (0x2003_0528, "OrangeFS"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0102_1997, "9p"),
];

/// Filesystems that only this kernel changes: Btrfs, ext2 to ext4, F2FS, tmpfs, XFS, ZFS, bcachefs.
const OF_THIS_KERNEL: [u32; 7] =
    [0x9123_683e, 0xef53, 0xf2f5_2010, 0x0102_1994, 0x5846_5342, 0x2fc1_2fc1, 0xca45_1a4e];

/// What a server in user space mounts: it may change anything at any time.
const FUSE: u32 = 0x6573_5546;

/// The kind of filesystem that a path is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesystemKind(u32);

impl FilesystemKind {
    /// Of an existing path; none where it cannot be asked.
    pub fn of(path: &Path) -> Option<FilesystemKind> {
        rustix::fs::statfs(path).ok().map(|about| FilesystemKind(about.f_type as u32))
    }

    /// Its name, if it is one that other machines are known to change. Nobody here is told of that.
    pub fn of_other_machines(self) -> Option<&'static str> {
        OF_OTHER_MACHINES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }

    /// Whether it is one that only this kernel changes. What is neither may be changed by others: as
    /// overlays are, from below.
    pub fn is_of_this_kernel(self) -> bool {
        OF_THIS_KERNEL.contains(&self.0)
    }

    /// Whether a server in user space makes it up.
    pub fn is_fuse(self) -> bool {
        self.0 == FUSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_makes_is_neither_its_own_to_keep_nor_of_another_machine() {
        let kind = FilesystemKind::of(Path::new("/proc/self")).unwrap();
        assert!(!kind.is_of_this_kernel() && !kind.is_fuse());
        assert_eq!(kind.of_other_machines(), None);
        assert_eq!(FilesystemKind::of(Path::new("/proc/self/nothing")), None);
        assert!(FilesystemKind::of(Path::new("/dev/shm")).unwrap().is_of_this_kernel());
    }
}
