//! What a file is, in the words of FUSE.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{Stat, Timespec};

/// The attributes of a file, under the number that the kernel knows it by, as one of this owner
/// where one is given.
pub(super) fn attributes(id: INodeNo, stat: &Stat, owner: Option<(u32, u32)>) -> FileAttr {
    let (uid, gid) = owner.unwrap_or((stat.st_uid, stat.st_gid));
    FileAttr {
        // The root's number is 1 for the kernel; programs see the real one.
        ino: if id == INodeNo::ROOT { INodeNo(stat.st_ino) } else { id },
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time(stat.st_atime, stat.st_atime_nsec as u32),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec as u32),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec as u32),
        crtime: UNIX_EPOCH,
        kind: kind(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid,
        gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

/// The attributes that stand for 'no such file' (number 0).
pub(super) fn missing() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// The kind of a file.
pub(super) fn kind(kind: rustix::fs::FileType) -> FileType {
    match kind {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn time(seconds: i64, nanos: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = match seconds {
        0.. => UNIX_EPOCH.checked_add(whole),
        _ => UNIX_EPOCH.checked_sub(whole),
    };
    let time = time.and_then(|time| time.checked_add(Duration::new(0, nanos)));
    time.unwrap_or(UNIX_EPOCH)
}

/// A time that the kernel sent. For times before 1970 fuser 0.18 subtracts the nanoseconds that
/// should be added, so they are taken as they came.
pub(super) fn timespec(time: SystemTime) -> Timespec {
    let parts = |span: Duration, sign: i64| Timespec {
        tv_sec: sign * span.as_secs() as i64,
        tv_nsec: span.subsec_nanos().into(),
    };
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => parts(after, 1),
        Err(before) => parts(before.duration(), -1),
    }
}
