//! What a journal tells when it is read.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::record::{self, JournalRecord};
use super::{READY, SCHEMA, path_in};
use crate::Error;
use crate::change::{FileChange, ItemKind, Version};
use crate::directory_times::{self, ChangedDirectory};

/// No journal is larger than this: what claims to be one is not read.
const SIZE_LIMIT: u64 = 4 << 30;

/// A journal as read. One that was cut anywhere is read up to its last whole line.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) directory: PathBuf,
    pub(crate) id: String,
    pub(crate) title: String,
    /// Seconds since 1970; 0, if it was cut before that.
    pub(crate) at: u64,
    pub(crate) changes: Vec<FileChange>,
    /// What the changes hold by.
    pub(crate) relies: Vec<PathBuf>,
    pub(crate) temporaries: Vec<PathBuf>,
    pub(crate) directories: Vec<ChangedDirectory>,
    /// Whether files may have been renamed.
    pub(crate) ready: bool,
    pub(crate) status: JournalStage,
    /// Once something was taken back: what was not.
    skipped: Option<Vec<PathBuf>>,
    /// While more is added to what is applied.
    extended: Option<Extension>,
    /// How many records it has.
    pub(crate) records: u64,
    /// Up to which byte it is whole.
    pub(crate) whole_until: u64,
}

/// What is added to what is applied.
#[derive(Debug)]
struct Extension {
    /// How many changes there were before.
    changes: usize,
    /// How many files these held by.
    relies: usize,
    /// Whether what was added is being taken back.
    is_undone: bool,
}

/// How far an application, or its undoing, has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum JournalStage {
    /// It has begun to apply or to undo, and not ended.
    #[default]
    Open,
    Applied,
    /// All but these paths.
    Undone {
        skipped: Vec<PathBuf>,
    },
    /// It stays applied, or undone, as it was: nothing is kept any more.
    Forgotten,
}

impl Story {
    /// The same of what is applied now.
    ///
    /// # Errors
    /// Those of [`Story::read`], and if it was undone or interrupted.
    pub(crate) fn read_applied(directory: &Path) -> Result<Story, Error> {
        let story = Story::read(directory)?;
        match story.status {
            JournalStage::Applied => Ok(story),
            JournalStage::Undone { .. } => Err(Error::Undone { id: story.id }),
            JournalStage::Forgotten => Err(Error::Forgotten { id: story.id }),
            JournalStage::Open => {
                Err(Error::refused(directory, "is the journal of what was interrupted"))
            }
        }
    }

    /// Reads the journal in a directory.
    ///
    /// # Errors
    /// If it cannot be read, has a damaged line that is not the last, or ends before it says what
    /// was renamed: it then does not tell what was done.
    pub(crate) fn read(directory: &Path) -> Result<Story, Error> {
        let path = path_in(directory);
        let id = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut story = Story { directory: directory.to_owned(), id, ..Story::default() };
        let damaged = |at| Error::Damaged { path: path.clone(), at };
        let is_marked = directory.join(READY).exists();
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|file| file.take(SIZE_LIMIT).read_to_end(&mut bytes)) {
            // Interrupted before it could say anything.
            Err(error) if error.kind() == ErrorKind::NotFound && !is_marked => return Ok(story),
            read => read.map_err(|error| Error::at("read the journal", &path, error))?,
        };
        let mut rest = bytes.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            match record::of_line(story.records, line) {
                Some(record) => {
                    if !story.take(record) {
                        return Err(damaged(story.whole_until));
                    }
                }
                // Of a write that was cut, what lies behind the cut is nothing, or zeros.
                None if !after.split(|byte| *byte == b'\n').any(record::is_whole)
                    && !record::is_whole(line) =>
                {
                    break;
                }
                None => return Err(damaged(story.whole_until)),
            }
            story.records += 1;
            story.whole_until += end as u64 + 1;
            rest = after;
        }
        if is_marked && !story.ready {
            return Err(damaged(story.whole_until));
        }
        Ok(story)
    }

    /// Takes in one more record; false, if it has no place here.
    fn take(&mut self, record: JournalRecord) -> bool {
        let first = self.records == 0;
        match record {
            JournalRecord::Begin { schema, id, title, at } => {
                (self.title, self.at) = (title, at);
                return first && schema == SCHEMA && id == self.id;
            }
            JournalRecord::Temporaries { paths } => self.temporaries.extend(paths),
            JournalRecord::Change(change) => self.changes.push(*change),
            JournalRecord::Relies { paths } => self.relies.extend(paths),
            JournalRecord::Ready => self.ready = true,
            JournalRecord::Directories { changed } => {
                directory_times::extend(&mut self.directories, changed);
            }
            JournalRecord::Applied => {
                self.status = JournalStage::Applied;
                if let Some(Extension { changes, relies, is_undone: true }) = self.extended.take() {
                    self.changes.truncate(changes);
                    self.relies.truncate(relies);
                }
            }
            JournalRecord::Forgotten => self.status = JournalStage::Forgotten,
            JournalRecord::Extending => {
                self.status = JournalStage::Open;
                let (changes, relies) = (self.changes.len(), self.relies.len());
                self.extended = Some(Extension { changes, relies, is_undone: false });
            }
            JournalRecord::Undoing => {
                self.status = JournalStage::Open;
                if let Some(extended) = &mut self.extended {
                    extended.is_undone = true;
                }
            }
            JournalRecord::Renewed { path, version } => self.renew(&path, version),
            JournalRecord::Undone { skipped } => {
                self.skipped = Some(skipped.clone());
                self.status = JournalStage::Undone { skipped };
                // Of what was interrupted before it could say that it had begun, all is told.
                return true;
            }
        }
        !first
    }

    /// The changes that have not been taken back: what has become of the others since is not ours. A
    /// directory that was not empty, because something in it stays, is among them.
    pub(crate) fn due(&self) -> impl Iterator<Item = &FileChange> {
        let is_due = |change: &&FileChange| {
            let concerns = |stays: &PathBuf| {
                change.paths().iter().any(|path| path.starts_with(stays) || stays.starts_with(path))
                    || change.aside().as_ref() == Some(stays)
            };
            self.skipped.as_ref().is_none_or(|skipped| skipped.iter().any(concerns))
        };
        self.changes.iter().filter(is_due)
    }

    /// Any of its versions may stand there: power may have failed before it was renamed.
    fn renew(&mut self, path: &Path, version: Version) {
        let put = self.changes.iter_mut().filter_map(FileChange::put_mut);
        for item in put.filter(|item| item.path == path) {
            if let ItemKind::File { renewed, .. } = &mut item.thing {
                renewed.push(version);
            }
        }
    }

    /// The files that changes left lying about when they were interrupted. Only names of its own
    /// making count.
    pub(crate) fn litter(&self) -> impl Iterator<Item = &Path> {
        let prefix = temporary_prefix(&self.id);
        let is_ours = move |path: &&PathBuf| {
            path.is_absolute()
                && path
                    .file_name()
                    .is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
        };
        // What was replaced lives on by such a name.
        let asides: Vec<_> = match self.ready {
            true => self.changes.iter().filter_map(FileChange::aside).collect(),
            false => Vec::new(),
        };
        let is_litter = move |path: &&PathBuf| is_ours(path) && !asides.contains(path);
        self.temporaries.iter().filter(is_litter).map(PathBuf::as_path)
    }
}

/// How the names of an application's temporaries begin.
pub(crate) fn temporary_prefix(id: &str) -> String {
    format!(".becalm-{id}-")
}
