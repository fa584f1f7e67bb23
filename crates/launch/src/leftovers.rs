//! What is left of those that were killed, and could not remove it.

use std::fs::{OpenOptions, read_dir, remove_dir_all, remove_file};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};

/// Files or directories that one makes, locks (flock(2)) while they are in use, and removes.
#[derive(Clone, Copy)]
pub enum Leftovers {
    /// Files.
    Files,
    /// Directories, with what is in them.
    Directories,
}

impl Leftovers {
    /// Removes those in a directory whose names begin so: of this user, locked by nobody, and not changed for
    /// so long, since between the making and the lock is a moment. What cannot be removed now, can later.
    pub fn clear(self, directory: &Path, prefix: &str, age: Duration) {
        for entry in read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
                self.clear_one(&entry.path(), age);
            }
        }
    }

    fn clear_one(self, path: &Path, age: Duration) -> Option<()> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let there = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let about = there.metadata().ok()?;
        let is_ours = about.uid() == rustix::process::geteuid().as_raw();
        let is_left = is_ours && about.modified().ok()?.elapsed().ok()? > age;
        let remove: fn(&Path) -> std::io::Result<()> = match self {
            Leftovers::Files if is_left && about.is_file() => |path| remove_file(path),
            Leftovers::Directories if is_left && about.is_dir() => |path| remove_dir_all(path),
            _ => return None,
        };
        flock(&there, FlockOperation::NonBlockingLockExclusive).ok()?;
        remove(path).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_somebody_left_who_was_killed_goes_and_what_is_in_use_stays() {
        let room = tempfile::tempdir().unwrap();
        let age = |path: &Path| {
            let opened = File::open(path).unwrap();
            opened.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
            opened
        };
        let directory = |name: &str| {
            let path = room.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("sitecustomize.py"), "").unwrap();
            age(&path)
        };
        let file = |name: &str| {
            fs::write(room.path().join(name), "").unwrap();
            age(&room.path().join(name))
        };
        let used = [directory("it-used"), file("it-used-file")];
        used.iter().for_each(|used| flock(used, FlockOperation::LockShared).unwrap());
        drop([directory("it-left"), directory("another"), file("it-left-file")]);
        fs::create_dir(room.path().join("it-new")).unwrap();
        let there = || {
            let there = fs::read_dir(room.path()).unwrap();
            let mut there: Vec<_> = there.map(|entry| entry.unwrap().file_name()).collect();
            there.sort();
            there
        };
        let minute = Duration::from_secs(60);
        Leftovers::Directories.clear(room.path(), "it-", minute);
        assert_eq!(there(), ["another", "it-left-file", "it-new", "it-used", "it-used-file"]);
        Leftovers::Files.clear(room.path(), "it-", minute);
        assert_eq!(there(), ["another", "it-new", "it-used", "it-used-file"]);
    }
}
