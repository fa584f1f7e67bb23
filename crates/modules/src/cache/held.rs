//! The cache's file: opened without waiting, and whether it can be trusted.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use super::fault::{Fault, FaultKind};
use crate::tree::ChangeStamp;

/// A larger cache is not read. 195,000 modulefiles, the most that was heard of, make about 240 MB.
const MOST: u64 = 1 << 30;

/// A cache's bytes and what the system says of them.
pub(super) struct CacheOnDisk {
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: ChangeStamp,
}

/// Opens and reads it.
pub(super) fn hold(cache: &Path) -> Result<CacheOnDisk, Fault> {
    let file = match open(cache) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Err(Fault::whole(FaultKind::Absent, "there is no cache")),
        Err(why) => {
            let what = format!("it cannot be opened: {}", std::io::Error::from(why));
            return Err(Fault::whole(FaultKind::Unused, what));
        }
    };
    let stat = fstat(&file).map_err(|why| unreadable(&why.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        let what = "it is no regular file: every module command opens it, and may wait for ever";
        return Err(Fault::whole(FaultKind::Hostile, what));
    }
    let stamp = ChangeStamp::of(&stat);
    if stamp.size > MOST {
        let what = format!("it has {} bytes, and every module command reads all", stamp.size);
        return Err(Fault::whole(FaultKind::Hostile, what));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or(0));
    File::from(file).take(MOST).read_to_end(&mut bytes).map_err(|why| unreadable(&why))?;
    Ok(CacheOnDisk { bytes, stamp })
}

fn unreadable(why: &std::io::Error) -> Fault {
    Fault::whole(FaultKind::Unused, format!("it cannot be read: {why}"))
}

/// For reading, and without waiting for a FIFO's writer.
pub(super) fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Who else may write what every user's Modules evaluates.
pub(super) fn distrust(stamp: &ChangeStamp, directory: Option<&ChangeStamp>) -> Vec<Fault> {
    let own = rustix::process::geteuid().as_raw();
    let mut faults = Vec::new();
    let is_known = |user| user == 0 || user == own || directory.is_some_and(|at| at.user == user);
    let mut say = |what| faults.push(Fault::whole(FaultKind::Untrusted, what));
    if !is_known(stamp.user) {
        say(format!(
            "it belongs to user {}, neither to root nor to the modulepath's owner",
            stamp.user
        ));
    }
    if stamp.others_may_write() {
        say(format!("others than its owner may write it (mode {:04o})", stamp.mode & 0o7777));
    }
    if let Some(directory) = directory.filter(|directory| directory.mode & 0o002 != 0) {
        say(format!(
            "everyone may write the modulepath (mode {:04o}), and so replace it",
            directory.mode & 0o7777
        ));
    }
    faults
}

/// Whether somebody may enter the modulepath and not read the cache: then Modules walks, and says
/// nothing.
pub(super) fn unread(stamp: &ChangeStamp, directory: &ChangeStamp) -> Option<Fault> {
    let passed_over = [6, 3, 0]
        .into_iter()
        .any(|class| directory.mode >> class & 1 != 0 && stamp.mode >> class & 4 == 0);
    let what = format!(
        "not everyone may read it (mode {:04o}): for them nothing is cached",
        stamp.mode & 0o7777
    );
    passed_over.then(|| Fault::whole(FaultKind::Unused, what))
}
