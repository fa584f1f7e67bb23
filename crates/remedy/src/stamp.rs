//! Tells whether a file is still the one that was looked at.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use recording::ByteUnits;
use rustix::fs::OFlags;

use crate::{Error, Seen};

/// Which file it is: device and inode.
pub(crate) type FileIdentity = (u64, u64);

/// A file and its state: no write, chmod or rename over it leaves all of this the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    device: u64,
    seen: Seen,
}

impl FileStamp {
    pub(crate) fn of(found: &Metadata) -> FileStamp {
        FileStamp { device: found.dev(), seen: Seen::from_metadata(found) }
    }

    /// What lstat(2) says of a path.
    pub(crate) fn at(path: &Path) -> Result<FileStamp, Error> {
        let found = rustix::fs::lstat(path).map_err(|error| Error::at("lstat", path, error))?;
        Ok(FileStamp::of_stat(&found))
    }

    /// The same from what rustix calls it.
    pub(crate) fn of_stat(found: &rustix::fs::Stat) -> FileStamp {
        // The types are those of the C library, and differ between machines.
        #[allow(clippy::unnecessary_cast)]
        let nanos = |seconds: i64, nanos: u64| seconds.saturating_mul(1_000_000_000) + nanos as i64;
        #[allow(clippy::unnecessary_cast)]
        FileStamp {
            device: found.st_dev as u64,
            seen: Seen {
                size: ByteUnits(found.st_size as u64),
                inode: found.st_ino as u64,
                mtime_ns: nanos(found.st_mtime as i64, found.st_mtime_nsec as u64),
                ctime_ns: nanos(found.st_ctime as i64, found.st_ctime_nsec as u64),
                digest: None,
            },
        }
    }

    /// The same from what statx(2) says of all that stat(2) does.
    pub(crate) fn of_statx(found: &rustix::fs::Statx) -> FileStamp {
        let nanos = |time: rustix::fs::StatxTimestamp| {
            time.tv_sec.saturating_mul(1_000_000_000) + i64::from(time.tv_nsec)
        };
        FileStamp {
            device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
            seen: Seen {
                size: ByteUnits(found.stx_size),
                inode: found.stx_ino,
                mtime_ns: nanos(found.stx_mtime),
                ctime_ns: nanos(found.stx_ctime),
                digest: None,
            },
        }
    }

    /// What was seen of it.
    pub(crate) fn seen(&self) -> Seen {
        self.seen
    }

    /// Whether it is the same file with the same content. Its inode may have changed: it does
    /// when another of its names is replaced.
    pub(crate) fn same_content(&self, other: &FileStamp) -> bool {
        let content = |of: &FileStamp| FileStamp {
            seen: Seen { ctime_ns: self.seen.ctime_ns, ..of.seen },
            ..*of
        };
        content(self) == content(other)
    }

    /// Which file it is: device and inode.
    pub(crate) fn identity(&self) -> FileIdentity {
        (self.device, self.seen.inode)
    }
}

/// Waits until a change of a file would show in its change time: a second change within the same tick of the
/// kernel's clock leaves it as it is, and on a filesystem without nanoseconds one within the same second (ext4
/// with inodes of 128 bytes). What is read after that, and is another later, has another time.
pub(crate) fn wait_until_a_change_shows(found: &Metadata) {
    let step = match found.ctime_nsec() {
        0 => Duration::from_secs(1),
        // That of a kernel with 100 ticks a second, the longest; since Linux 6.13 none is needed.
        _ => Duration::from_millis(10),
    };
    let nanos = u64::try_from(found.ctime_nsec()).unwrap_or(0);
    let changed = Duration::from_secs(u64::try_from(found.ctime()).unwrap_or(0));
    let shows = SystemTime::UNIX_EPOCH + changed + Duration::from_nanos(nanos) + step;
    // Of a server whose clock is ahead, nothing is known.
    match shows.duration_since(SystemTime::now()) {
        Ok(left) if left <= step => std::thread::sleep(left),
        _ => {}
    }
}

/// Opens a regular file to read it. Its access time stays where the system allows that; a FIFO
/// does not block it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let open = |flags: OFlags| {
        File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
    };
    open(flags | OFlags::NOATIME).or_else(|_| open(flags))
}
