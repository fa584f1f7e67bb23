//! What can be said of reads that do not stop: which files were opened to be read and how large they
//! are, and how much was read in all.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use recording::{ByteUnits, Outcome, PathId, UnwatchedReads};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

use crate::arguments::Special;
use crate::task::PendingCall;

/// The sizes of so many files are looked up at most.
const MOST_FILES: usize = 20_000;

/// What was opened to be read.
#[derive(Default)]
pub(crate) struct OpenedFiles {
    paths: Vec<(PathId, Box<[u8]>)>,
    known: BTreeSet<PathId>,
    /// What the command got from read(2), once that is known.
    read: Option<ByteUnits>,
}

impl OpenedFiles {
    /// Notes a call that has returned, if it opened a file to read it. What the loader opens it maps.
    pub fn note(&mut self, pending: &PendingCall, outcome: Outcome) {
        const NO_READ: u64 = (libc::O_WRONLY | libc::O_PATH | libc::O_DIRECTORY) as u64;
        let opens = matches!(pending.shape.special, Special::Open | Special::Openat2);
        if !opens || outcome.failed() || pending.site.in_loader || pending.flags & NO_READ != 0 {
            return;
        }
        if let Some(path) = &pending.path
            && self.known.len() < MOST_FILES
            && self.known.insert(path.id)
        {
            self.paths.push((path.id, path.bytes[..].into()));
        }
    }

    /// Takes in what a process, and those it waited for, have read (proc_pid_io(5)).
    pub fn has_read(&mut self, tid: i32) {
        let text = std::fs::read_to_string(format!("/proc/{tid}/io")).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        self.read = value.and_then(|value| value.parse().ok()).map(ByteUnits);
    }

    /// What is known at the end; none where it is not known how much was read.
    pub fn sized(&self) -> Option<UnwatchedReads> {
        let sized = |(id, path): &(PathId, Box<[u8]>)| Some((*id, size_of_file(path)?));
        let files = self.paths.iter().filter_map(sized).collect();
        Some(UnwatchedReads { bytes: self.read?, files })
    }
}

/// The size of a regular file, as this machine remembers it: no server is asked for what was just
/// opened.
fn size_of_file(path: &[u8]) -> Option<ByteUnits> {
    let wanted = StatxFlags::SIZE | StatxFlags::TYPE;
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, OsStr::from_bytes(path), flags, wanted).ok()?;
    let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
    is_file.then_some(ByteUnits(found.stx_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_have_a_size() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("data");
        std::fs::write(&file, [0; 5000]).unwrap();
        assert_eq!(size_of_file(file.as_os_str().as_bytes()), Some(ByteUnits(5000)));
        assert_eq!(size_of_file(directory.path().as_os_str().as_bytes()), None);
        assert_eq!(size_of_file(b"/dev/zero"), None);
        assert_eq!(size_of_file(b"/no/such/file"), None);
    }

    #[test]
    fn what_this_process_has_read_is_known() {
        let mut opened = OpenedFiles::default();
        assert!(opened.sized().is_none());
        opened.has_read(std::process::id() as i32);
        assert!(opened.sized().unwrap().bytes.0 > 0);
    }
}
