//! What a file was, and whether it still is: at a glance, or by its content.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::digest::Hasher;

/// What is known of a file that something was made from. It holds on another machine and for
/// another inode, as long as the content is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Its size.
    pub bytes: u64,
    /// When its content was changed last, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The digest of its content.
    pub digest: Digest,
}

/// What has become of a file that is there, and another.
pub const HAS_CHANGED: &str = "has changed";

/// How a file is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileLook {
    /// The size only, by one stat: of what is copied about, and has the time of the copy.
    Size,
    /// Size and time, by one stat; the content only where the time alone is another.
    #[default]
    Glance,
    /// The content.
    Content,
}

impl FileState {
    /// That of the file at a path now, through symbolic links.
    ///
    /// # Errors
    /// If it cannot be read, is no regular file, or is written to at this moment.
    pub fn of(path: &Path) -> io::Result<FileState> {
        // To open a FIFO waits for a writer.
        regular(&path.metadata()?)?;
        let file = File::open(path)?;
        let before = file.metadata()?;
        let digest = Digest::of_content(&file)?;
        let after = file.metadata()?;
        let state = |found: &Metadata| (found.len(), mtime_ns(found));
        match state(&before) == state(&after) {
            true => Ok(FileState { bytes: after.len(), mtime_ns: mtime_ns(&after), digest }),
            false => Err(io::Error::other("is written to at this moment")),
        }
    }

    /// What has become of the file at a path since; none where it is the same.
    pub fn change(&self, path: &Path, look: FileLook) -> Option<String> {
        let found = match path.metadata() {
            Ok(found) => found,
            Err(error) => return Some(without(&error)),
        };
        let is_same_time = look == FileLook::Size || same_time(self.mtime_ns, mtime_ns(&found));
        if regular(&found).is_err() || found.len() != self.bytes {
            return Some(HAS_CHANGED.to_owned());
        }
        if look != FileLook::Content && is_same_time {
            return None;
        }
        match FileState::of(path) {
            Ok(now) if now.digest == self.digest => None,
            Ok(_) => Some(HAS_CHANGED.to_owned()),
            Err(error) => Some(without(&error)),
        }
    }
}

impl Digest {
    /// The digest of all that can be read.
    ///
    /// # Errors
    /// Those of `content`.
    pub fn of_content(mut content: impl Read) -> io::Result<Digest> {
        let mut hasher = Hasher::default();
        let mut part = vec![0; 1 << 18];
        loop {
            match content.read(&mut part) {
                Ok(0) => return Ok(hasher.finish()),
                Ok(size) => hasher.update(&part[..size]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn without(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "is gone".to_owned(),
        _ => format!("cannot be read ({error})"),
    }
}

fn regular(found: &Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("is no regular file")),
    }
}

fn mtime_ns(found: &Metadata) -> i64 {
    found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec())
}

/// Whether two times are of the same change: archives and some filesystems keep whole seconds.
fn same_time(one: i64, other: i64) -> bool {
    const SECOND: i64 = 1_000_000_000;
    let is_whole = |time: i64| time.rem_euclid(SECOND) == 0;
    one == other
        || (is_whole(one) || is_whole(other)) && one.div_euclid(SECOND) == other.div_euclid(SECOND)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn size_and_time_tell_and_where_only_the_time_is_another_the_content_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"first").unwrap();
        let state = FileState::of(&path).unwrap();
        assert_eq!(state.digest, Digest::of(b"first"));
        let at = |time: SystemTime| {
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        let written = path.metadata().unwrap().modified().unwrap();
        let hour = Duration::from_secs(3600);
        let both = |path: &Path| {
            [FileLook::Glance, FileLook::Content].map(|look| state.change(path, look).is_some())
        };
        assert_eq!(both(&path), [false, false]);
        at(written + hour);
        assert_eq!(both(&path), [false, false], "touched");
        std::fs::write(&path, b"other").unwrap();
        at(written + hour);
        assert_eq!(both(&path), [true, true], "another content");
        // What keeps size and time is seen by the content only.
        at(written);
        assert_eq!(both(&path), [false, true]);
        std::fs::write(&path, b"longer").unwrap();
        assert_eq!(both(&path), [true, true]);
        std::fs::remove_file(&path).unwrap();
        let gone = state.change(&path, FileLook::Glance);
        assert_eq!(gone.as_deref(), Some("is gone"));
        assert_eq!(both(directory.path()), [true, true]);
        assert!(FileState::of(directory.path()).is_err());
    }

    #[test]
    fn a_time_in_whole_seconds_is_that_of_the_same_second() {
        assert!(same_time(5_000_000_001, 5_000_000_001));
        assert!(same_time(5_123_000_000, 5_000_000_000));
        assert!(!same_time(5_123_000_000, 5_123_000_001));
        assert!(!same_time(5_000_000_000, 6_000_000_000));
    }
}
