//! The journal of one application: a directory with the file `journal`, and a copy of each file
//! that was removed, below `kept`.

mod record;
mod story;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub(crate) use record::{JournalRecord, SCHEMA};
pub(crate) use story::{JournalStage, Story, temporary_prefix};

use crate::{Error, pool};

/// The file of the journal itself, in its directory.
pub(crate) const FILE: &str = "journal";
/// The directory of what was removed.
pub(crate) const KEPT: &str = "kept";
/// An empty file: it is there once files may have been renamed.
const READY: &str = "ready";

/// A journal that can be written to.
pub(crate) struct Journal {
    directory: PathBuf,
    file: File,
    /// The next record's number.
    next: u64,
}

impl Journal {
    /// Begins the journal in `directory`, which is new and empty.
    pub(crate) fn begin(directory: PathBuf) -> Result<Journal, Error> {
        let path = path_in(&directory);
        let file = File::options()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| Error::at("create", &path, error))?;
        sync_directory(&directory)?;
        Ok(Journal { directory, file, next: 0 })
    }

    /// Goes on with a journal, from where it is whole.
    pub(crate) fn resume(story: &Story) -> Result<Journal, Error> {
        let path = path_in(&story.directory);
        // It is not there where becalm was interrupted before it had written anything.
        let file = File::options().append(true).create(true).mode(0o600).open(&path);
        let file = file
            .and_then(|file| file.set_len(story.whole_until).map(|()| file))
            .map_err(|error| Error::at("open", &path, error))?;
        Ok(Journal { directory: story.directory.clone(), file, next: story.records })
    }

    /// Adds records, without waiting until they are on the disk.
    pub(crate) fn add(
        &mut self,
        records: impl IntoIterator<Item = JournalRecord>,
    ) -> Result<(), Error> {
        self.add_lines(|file, next| write_lines(file, next, records))
    }

    /// Adds the record of each of some things, of which there may be thousands: several threads make the
    /// lines, of which only some are in memory at a time.
    pub(crate) fn add_each<T: Sync>(
        &mut self,
        things: &[T],
        threads: usize,
        record: impl Fn(&T) -> JournalRecord + Sync,
    ) -> Result<(), Error> {
        // A few are told sooner than a thread is started.
        let threads = if things.len() <= RUN { 1 } else { threads };
        let runs: Vec<_> = things.chunks(RUN).collect();
        let lines = |first: u64, run: &[T]| {
            let mut lines = Vec::with_capacity(AT_A_TIME / 4);
            for (number, thing) in (first..).zip(run) {
                record::add_line(number, &record(thing), &mut lines)?;
            }
            Ok::<_, io::Error>(lines)
        };
        self.add_lines(|mut file, first| {
            let first_of = |run: usize| first + (run * RUN) as u64;
            for (at, some) in runs.chunks(RUNS).enumerate() {
                let made =
                    pool::each(threads, some, |run, of| lines(first_of(at * RUNS + run), of))?;
                made.iter().try_for_each(|lines| file.write_all(lines))?;
            }
            Ok(first + things.len() as u64)
        })
    }

    /// Adds what writes lines from a number on, and gives the number of the next.
    fn add_lines(
        &mut self,
        write: impl FnOnce(&File, u64) -> io::Result<u64>,
    ) -> Result<(), Error> {
        let path = path_in(&self.directory);
        let failed = |error: io::Error| Error::at("write the journal", &path, error);
        let whole = self.file.metadata().map_err(failed)?.len();
        match write(&self.file, self.next) {
            Ok(next) => self.next = next,
            Err(error) => {
                // What comes next follows a whole line.
                let _ = self.file.set_len(whole);
                return Err(failed(error));
            }
        }
        Ok(())
    }

    /// Says beside the journal that files are about to be renamed. One that was cut later is then
    /// not taken for one that never came so far.
    pub(crate) fn mark_ready(&self) -> Result<(), Error> {
        let mark = self.directory.join(READY);
        File::create(&mark).map_err(|error| Error::at("create", &mark, error))?;
        sync_directory(&self.directory)
    }

    /// Waits until all that was added is on the disk.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.file
            .sync_data()
            .map_err(|error| Error::at("sync the journal", &path_in(&self.directory), error))
    }

    /// Takes hold of room for what is still to be told, so that a full disk does not keep an end
    /// from being told. Where the filesystem cannot do that, it is not done.
    pub(crate) fn reserve(&self, bytes: u64) {
        let Ok(found) = self.file.metadata() else { return };
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.file, flags, found.len(), bytes);
    }

    /// The directory that it is in.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Removes the journal of an application that came to nothing.
    pub(crate) fn remove(self) -> Result<(), Error> {
        fs::remove_dir_all(&self.directory)
            .map_err(|error| Error::at("remove the journal", &self.directory, error))
    }
}

/// As many bytes are written by one call, or a line more.
const AT_A_TIME: usize = 1 << 18;

/// As many records one thread makes at a time, where several do, and as many such runs are written then.
const RUN: usize = 16;
const RUNS: usize = 16;

/// Writes records, of which only few at a time are in memory; the number of the next.
fn write_lines(
    file: &File,
    mut next: u64,
    records: impl IntoIterator<Item = JournalRecord>,
) -> io::Result<u64> {
    let (mut out, mut lines) = (file, Vec::new());
    for record in records {
        record::add_line(next, &record, &mut lines)?;
        next += 1;
        if lines.len() >= AT_A_TIME {
            out.write_all(&lines)?;
            lines.clear();
        }
    }
    out.write_all(&lines)?;
    Ok(next)
}

/// Where the copy of a removed file is.
pub(crate) fn kept(directory: &Path, number: usize) -> PathBuf {
    all_kept(directory).join(number.to_string())
}

/// Where the copies of removed files are.
pub(crate) fn all_kept(directory: &Path) -> PathBuf {
    directory.join(KEPT)
}

fn path_in(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Waits until the entries of a directory are on the disk.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), Error> {
    open_directory(directory)
        .and_then(|open| open.sync_all())
        .map_err(|error| Error::at("sync the directory", directory, error))
}

/// Opens a directory, and nothing else: a FIFO would make it wait.
pub(crate) fn open_directory(directory: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::DIRECTORY.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(directory)
}

/// Whether a journal's last words are that it is applied or undone. Quick, and never wrong where
/// it says so; where it does not, the whole must be read.
pub(crate) fn says_it_ended(directory: &Path) -> bool {
    const TAIL: u64 = 128;
    let tail = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path_in(directory))?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(TAIL)))?;
        let mut tail = Vec::new();
        file.take(TAIL).read_to_end(&mut tail)?;
        Ok(tail)
    };
    let tail = tail().unwrap_or_default();
    let last = tail.strip_suffix(b"\n").and_then(|tail| tail.rsplit(|byte| *byte == b'\n').next());
    last.is_some_and(record::is_an_end)
}
