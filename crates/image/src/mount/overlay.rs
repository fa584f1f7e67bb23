//! Changes on top of an image: directories and images given with `--overlay`, and the lock that
//! keeps two writers apart.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use sandbox::mounts::{self, PathHandle};

use super::error::{self, MountError};
use super::plan::may_mount_ext3;

/// How long a lock is waited for: the holder of a job that has just ended leaves a moment after its
/// last rank.
const PATIENCE: Duration = Duration::from_secs(1);

/// What `--overlay` was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritableOverlay {
    /// A directory, or an image.
    pub path: PathBuf,
    /// Only seen, not written to.
    pub read_only: bool,
}

impl WritableOverlay {
    /// From `PATH`, `PATH:ro` or `PATH:rw`.
    pub fn parse(text: &OsStr) -> WritableOverlay {
        let bytes = text.as_bytes();
        let (path, read_only) = match (bytes.strip_suffix(b":ro"), bytes.strip_suffix(b":rw")) {
            (Some(path), _) => (path, true),
            (_, Some(path)) => (path, false),
            _ => (bytes, false),
        };
        WritableOverlay { path: PathBuf::from(OsStr::from_bytes(path)), read_only }
    }

    /// Looks at it without opening it.
    pub(super) fn look(&self) -> Result<Metadata, MountError> {
        fs::metadata(&self.path).map_err(|error| {
            self.refused(&match error.kind() {
                ErrorKind::NotFound => {
                    "it is not there: make a directory (mkdir), or an image (becalm image overlay)"
                        .into()
                }
                _ => error.to_string(),
            })
        })
    }

    fn refused(&self, why: &str) -> MountError {
        MountError::Overlay { path: self.path.clone(), why: why.to_owned() }
    }
}

/// What an overlay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OverlayForm {
    /// A directory with `upper` and `work` in it.
    Directory,
    /// A squashfs: nothing can be written.
    Squash,
    /// An ext2, ext3 or ext4 filesystem in a file, with `upper` and `work` in it.
    Ext,
}

/// An overlay, opened.
#[derive(Debug)]
pub(super) struct OpenedOverlay {
    pub wanted: WritableOverlay,
    pub form: OverlayForm,
    pub file: File,
}

impl OpenedOverlay {
    /// Looks what it is.
    pub fn of(wanted: &WritableOverlay) -> Result<OpenedOverlay, MountError> {
        let path = &wanted.path;
        let form = match wanted.look()?.is_dir() {
            true => OverlayForm::Directory,
            false => form_of(path)?
                .ok_or_else(|| wanted.refused("it is no directory, squashfs or ext3"))?,
        };
        if form == OverlayForm::Squash && !wanted.read_only {
            return Err(wanted.refused("a squashfs cannot be written to: add :ro"));
        }
        let writes = form == OverlayForm::Ext && !wanted.read_only;
        let file = File::options().read(true).write(writes).open(path);
        let file = file.map_err(error::file(path, "open"))?;
        if form == OverlayForm::Directory && !wanted.read_only {
            for name in ["upper", "work"] {
                make_directory(&path.join(name))?;
            }
            keep_own_group(&path.join("work"));
        }
        Ok(OpenedOverlay { wanted: wanted.clone(), form, file })
    }

    /// Whether it is served as an image is; else the kernel mounts it, or it is a directory.
    pub fn is_served(&self) -> bool {
        match self.form {
            OverlayForm::Squash => true,
            OverlayForm::Ext => self.wanted.read_only && !may_mount_ext3(),
            OverlayForm::Directory => false,
        }
    }

    /// Keeps other writers out, for as long as the file is open anywhere; readers keep writers
    /// out, not one another.
    ///
    /// # Errors
    /// Who is in.
    pub fn lock(&self) -> Result<(), String> {
        let operation = match self.wanted.read_only {
            true => FlockOperation::NonBlockingLockShared,
            false => FlockOperation::NonBlockingLockExclusive,
        };
        let since = Instant::now();
        loop {
            match rustix::fs::flock(&self.file, operation) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::WOULDBLOCK) if since.elapsed() < PATIENCE => {
                    std::thread::sleep(PATIENCE / 50);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(self.in_use()),
                Err(error) => {
                    return Err(format!("it cannot be locked: {}", io::Error::from(error)));
                }
            }
        }
    }

    fn in_use(&self) -> String {
        let by = match holder(&self.file) {
            Some(pid) => format!("process {pid} ({})", name_of(pid)),
            None => "another node, or another user".to_owned(),
        };
        match self.wanted.read_only {
            true => format!("{by} writes to it"),
            false => format!(
                "{by} uses it, and two writers would destroy it: wait until that has ended, \
                 or look only, with :ro"
            ),
        }
    }
}

fn make_directory(path: &Path) -> Result<(), MountError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(error::file(path, "make")(error))
        }
        _ => Ok(()),
    }
}

/// Gives a directory the user's own group, where it has inherited another (set-group-ID): in a user
/// namespace overlayfs may not enter what it makes in its work directory if the namespace does not
/// know the group. Where that cannot be done, the mount says so.
fn keep_own_group(path: &Path) {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let is_others =
        |there: &Metadata| there.uid() == user.as_raw() && there.gid() != group.as_raw();
    if fs::metadata(path).is_ok_and(|there| is_others(&there)) {
        let _ = rustix::fs::chown(path, None, Some(group));
    }
}

/// An upper directory in memory, with the mode of what it lies over.
pub(super) fn in_memory(
    stage: &Path,
    below: &PathHandle,
) -> Result<(PathHandle, PathHandle), MountError> {
    let wrong = |what| error::file(stage, what);
    let mode = fs::metadata(below.path()).map_err(wrong("look at"))?.permissions().mode();
    mounts::tmpfs(stage, "becalm")?;
    let make = |name: &str| {
        let path = stage.join(name);
        fs::create_dir(&path).and_then(|()| PathHandle::at(&path))
    };
    let upper = make("upper").map_err(wrong("make a directory"))?;
    fs::set_permissions(stage.join("upper"), fs::Permissions::from_mode(mode))
        .map_err(wrong("set the mode of"))?;
    Ok((upper, make("work").map_err(wrong("make a directory"))?))
}

/// What kind of filesystem a file holds, by the magic numbers of squashfs (at its start) and ext2
/// (0xEF53 at 1080).
fn form_of(path: &Path) -> Result<Option<OverlayForm>, MountError> {
    let file = File::open(path).map_err(error::file(path, "open"))?;
    let read = |at: u64, length: usize| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    };
    Ok(match (read(0, 4).as_deref(), read(1080, 2).as_deref()) {
        (Some(b"hsqs"), _) => Some(OverlayForm::Squash),
        (_, Some([0x53, 0xEF])) => Some(OverlayForm::Ext),
        _ => None,
    })
}

/// Who holds a lock on a file of this machine (/proc/locks, proc_locks(5)).
fn holder(file: &File) -> Option<i32> {
    let there = file.metadata().ok()?;
    let device = there.dev();
    let name = format!(
        "{:02x}:{:02x}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device),
        there.ino()
    );
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let words = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut held = words.filter(|words| words.get(1) == Some(&"FLOCK"));
    held.find(|words| words.get(5) == Some(&name.as_str()))?.get(4)?.parse().ok()
}

fn name_of(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_last_ro_or_rw_is_no_part_of_the_path() {
        let parse = |text: &str| {
            let overlay = WritableOverlay::parse(OsStr::new(text));
            (overlay.path.to_str().unwrap().to_owned(), overlay.read_only)
        };
        assert_eq!(parse("a"), ("a".to_owned(), false));
        assert_eq!(parse("a:ro"), ("a".to_owned(), true));
        assert_eq!(parse("a:rw"), ("a".to_owned(), false));
        assert_eq!(parse("a:b"), ("a:b".to_owned(), false));
        assert_eq!(parse("a:ro:ro"), ("a:ro".to_owned(), true));
    }

    #[test]
    fn two_writers_are_kept_apart_and_the_second_is_told_who_the_first_is() {
        let directory = tempfile::tempdir().unwrap();
        let overlay = |read_only| WritableOverlay { path: directory.path().to_owned(), read_only };
        let first = OpenedOverlay::of(&overlay(false)).unwrap();
        first.lock().unwrap();
        let pid = format!("process {} ", std::process::id());
        for read_only in [false, true] {
            let why = OpenedOverlay::of(&overlay(read_only)).unwrap().lock().unwrap_err();
            assert!(why.starts_with(&pid), "{why}");
        }
        drop(first);
        let readers = [true, true].map(|read_only| OpenedOverlay::of(&overlay(read_only)).unwrap());
        assert!(readers.iter().all(|reader| reader.lock().is_ok()));
        assert!(OpenedOverlay::of(&overlay(false)).unwrap().lock().is_err());
    }

    #[test]
    fn a_writer_that_is_about_to_leave_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let overlay = || WritableOverlay { path: directory.path().to_owned(), read_only: false };
        let first = OpenedOverlay::of(&overlay()).unwrap();
        first.lock().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(PATIENCE / 10);
                drop(first);
            });
            assert_eq!(OpenedOverlay::of(&overlay()).unwrap().lock(), Ok(()));
        });
    }
}
