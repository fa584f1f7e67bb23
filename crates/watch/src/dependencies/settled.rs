//! From when on a file's times tell of every change that is still to come.
//!
//! Two changes within one step of a filesystem's clock leave the same time. What is read between
//! them would be taken for true for ever. So nothing is relied on that has changed within the last
//! moments: two seconds, the longest step there is, where the clock is this machine's own; a minute
//! where it is a server's, which may go behind.

use std::ffi::CStr;
use std::path::Path;

use rustc_hash::FxHashMap;

/// The longest step: some count by twos.
const OWN_CLOCK: i64 = 2;
/// A server's clock is set by NTP, as this machine's is.
const CLOCK_OF_SERVER: i64 = 60;

/// The block devices that files stand behind (loop(4)).
const LOOP: u32 = 7;

/// How old a change must be, in seconds, on the filesystem of a path, which is on this device; none
/// where times say nothing (/proc, /sys, what FUSE programs make up, images).
pub(super) fn margin(path: &CStr, device: u64) -> Option<i64> {
    // Behind a loop device, there may be another image tomorrow with the same inodes and times.
    if rustix::fs::major(device) == LOOP {
        return None;
    }
    let filesystem = rustix::fs::statfs(path).ok()?;
    // As the magic numbers are listed (statfs(2)): 32 bits.
    match filesystem.f_type as u32 {
        // ext2 to ext4, xfs, btrfs, zfs, tmpfs, f2fs, bcachefs
        0xef53 | 0x5846_5342 | 0x9123_683e | 0x2fc1_2fc1 | 0x0102_1994 | 0xf2f5_2010
        | 0xca45_1a4e => Some(OWN_CLOCK),
        // nfs, lustre, gpfs, beegfs, ceph, cifs, smb2, afs, 9p
        0x6969 | 0x0bd0_0bd0 | 0x4750_4653 | 0x1983_0326 | 0x00c3_6400 | 0xff53_4d42
        | 0xfe53_4d42 | 0x5346_414f | 0x6b41_4653 | 0x0102_1997 => Some(CLOCK_OF_SERVER),
        _ => None,
    }
}

/// Those of filesystems that were come by.
#[derive(Debug, Default)]
pub(super) struct FilesystemMargins(FxHashMap<u64, Option<i64>>);

impl FilesystemMargins {
    /// As [`margin`] says, asked once of each device.
    pub fn of(&mut self, path: &CStr, device: u64) -> Option<i64> {
        *self.0.entry(device).or_insert_with(|| margin(path, device))
    }
}

/// Whether the times of a path's filesystem are those that its image was made with: another image in
/// its place may have the same ones, and other content. So it is with squashfs, EROFS, ISO 9660, cramfs,
/// romfs and UDF, and with overlays, which may be of such.
pub fn has_times_of_an_image(path: &Path) -> bool {
    let images: [u32; 7] =
        [0x7371_7368, 0xe0f5_e1e2, 0x9660, 0x28cd_3d45, 0x7275, 0x1501_3346, 0x794c_7630];
    rustix::fs::statfs(path).is_ok_and(|about| images.contains(&(about.f_type as u32)))
}
