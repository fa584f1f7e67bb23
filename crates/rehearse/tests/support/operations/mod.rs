//! What programs do with files, as a transcript: the same lines on any filesystem that behaves.

// Each call gets pointers to local variables that outlive it, with their lengths.
#![allow(clippy::undocumented_unsafe_blocks)]

mod content;
mod names;
mod nature;

use std::ffi::CString;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink,
};
use std::path::Path;
use std::process::Command;

/// One line per operation.
#[derive(Default)]
struct Transcript(String);

impl Transcript {
    fn line<T: std::fmt::Debug>(&mut self, what: &str, result: io::Result<T>) {
        match result {
            Ok(value) => writeln!(self.0, "{what}: {value:?}").unwrap(),
            Err(error) => {
                writeln!(self.0, "{what}: errno {:?}", error.raw_os_error()).unwrap();
            }
        }
    }

    /// What a path is, without what differs from one directory to the next.
    fn stat(&mut self, path: &str) {
        let told = fs::symlink_metadata(path).map(|stat| {
            let size = if stat.is_dir() { 0 } else { stat.size() };
            let links = if stat.is_dir() { 0 } else { stat.nlink() };
            format!(
                "{:o} {links} {}:{} {size} {:x} {}",
                stat.mode(),
                stat.uid(),
                stat.gid(),
                stat.rdev(),
                stat.blksize()
            )
        });
        self.line(&format!("stat {path}"), told);
    }
}

fn checked(done: libc::c_long) -> io::Result<i64> {
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

fn c(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap()
}

/// All of them, in the working directory, which is empty before.
pub fn transcript() -> String {
    let mut log = Transcript::default();
    for part in [
        names::files,
        names::directories,
        names::links,
        names::renames,
        content::open_and_gone,
        nature::times_and_modes,
        content::sparse,
        content::mapped,
        content::locks,
        nature::attributes,
        nature::special,
        nature::execution,
        names::missing,
        content::appends,
        names::many,
        content::copies,
        names::umasks,
        content::temporary,
        names::names,
    ] {
        part(&mut log);
    }
    log.0
}
