//! A whole recording in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::lineage::{self, Inherited};
use crate::mounts::MountHistory;
use crate::{
    Blind, Event, FileRange, Header, LetGo, MappedElf, PathId, Process, ProcessEnd, ProcessId,
    Reader, Record, RecordingReadError, RecordingSummary, Signal, Touch, shown,
};

/// All that one run did. Events are in the order in which they ended.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Where and when.
    pub header: Header,
    /// The processes, by number.
    pub processes: Vec<Process>,
    /// The system calls.
    pub events: Vec<Event>,
    /// What mapped ELF files say of their own search, by path.
    pub images: BTreeMap<PathId, MappedElf>,
    /// What the recording does not show.
    pub blinds: Vec<Blind>,
    /// The parts of mapped files that were touched, in the order in which they were first.
    pub touches: Vec<Touch>,
    /// Which part of its file a call was about, by the call's number in `events`: of those calls
    /// that say so themselves.
    pub ranges: BTreeMap<usize, FileRange>,
    /// Signals delivered: how many.
    pub signals: u64,
    /// Which they were.
    pub delivered: Vec<Signal>,
    /// There if the recording was ended.
    pub summary: Option<RecordingSummary>,
    /// Why it was not, otherwise.
    pub cut: Option<&'static str>,
    paths: Vec<Box<[u8]>>,
    pub(crate) inherited: Vec<Inherited>,
    pub(crate) mount_history: MountHistory,
}

/// Each call looks through them for its own. A recorder stops at fewer.
const MOST_MOUNT_CHANGES: usize = 4096;

/// Reads a file by offsets of its own.
struct OffsetFile<'a> {
    file: &'a File,
    at: u64,
}

impl Read for OffsetFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let got = self.file.read_at(buffer, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

impl Recording {
    /// Reads the recording in a file.
    ///
    /// # Errors
    /// [`RecordingReadError`]; a recording that was cut is not one.
    pub fn open(path: &Path) -> Result<Recording, RecordingReadError> {
        Recording::read(BufReader::new(File::open(path)?))
    }

    /// Reads the recording in an open file, from its start, and leaves the file's offset where it
    /// is: a recorder that goes on in the background shares it, and what it writes next must not
    /// land at the start.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn read_beside(file: &File) -> Result<Recording, RecordingReadError> {
        Recording::read(BufReader::new(OffsetFile { file, at: 0 }))
    }

    /// Reads a recording whole.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn read(source: impl Read) -> Result<Recording, RecordingReadError> {
        let mut reader = Reader::new(source)?;
        let mut recording = Recording { header: reader.header().clone(), ..Recording::default() };
        while let Some(record) = reader.next_record()? {
            recording.take_in(record)?;
        }
        recording.summary = reader.summary().cloned();
        if recording.summary.as_ref().is_some_and(|end| end.calls != recording.events.len() as u64)
        {
            return Err(RecordingReadError::Damaged("calls are missing from the middle"));
        }
        recording.cut = reader.cut();
        recording.paths = reader.into_paths();
        recording.inherited = lineage::inherited(&recording.processes);
        recording.mount_history.settle(&recording.header.mounts, &recording.processes);
        Ok(recording)
    }

    fn take_in(&mut self, record: Record) -> Result<(), RecordingReadError> {
        match record {
            Record::Path(_) => {}
            Record::Call(event) => {
                self.process_mut(event.process)?;
                self.events.push(event);
            }
            Record::Start { process, pid, parent, how, at } => {
                if process.0 as usize != self.processes.len()
                    || parent.is_some_and(|parent| parent >= process)
                {
                    return Err(RecordingReadError::Damaged("a process out of order"));
                }
                self.processes.push(Process {
                    id: process,
                    pid,
                    parent,
                    how,
                    started: at,
                    execs: Vec::new(),
                    end: None,
                    threads: 0,
                    origin: None,
                });
            }
            Record::Thread { process, .. } => self.process_mut(process)?.threads += 1,
            Record::Exec { process, exec } => self.process_mut(process)?.execs.push(exec),
            Record::End { process, at, status, usage } => {
                self.process_mut(process)?.end = Some(ProcessEnd { at, status, usage });
            }
            Record::Image { path, image } => {
                self.images.insert(path, image);
            }
            Record::Blind(blind) => self.blinds.push(blind),
            Record::Origin { process, origin } => {
                self.process_mut(process)?.origin = Some(origin);
            }
            Record::Mounts(change) => {
                self.process_mut(change.process)?;
                if self.mount_history.changes.len() >= MOST_MOUNT_CHANGES {
                    return Err(RecordingReadError::Damaged(
                        "more changes of mounts than are kept",
                    ));
                }
                self.mount_history.changes.push(change);
            }
            Record::Touch(touch) => {
                self.process_mut(touch.process)?;
                self.touches.push(touch);
            }
            Record::Range(range) => {
                let call = self.events.len().checked_sub(1);
                let call = call.ok_or(RecordingReadError::Damaged("a range of no call"))?;
                self.ranges.insert(call, range);
            }
            Record::Words { process, words } => {
                let exec = self.process_mut(process)?.execs.last_mut();
                exec.ok_or(RecordingReadError::Damaged("words of no exec"))?.exact_argv = words;
            }
            Record::Signal { process, thread, signal, at } => {
                self.process_mut(process)?;
                self.signals += 1;
                self.delivered.push(Signal { process, thread, signal, at });
            }
        }
        Ok(())
    }

    fn process_mut(&mut self, id: ProcessId) -> Result<&mut Process, RecordingReadError> {
        let known = self.processes.get_mut(id.0 as usize);
        known.ok_or(RecordingReadError::Damaged("a process that never started"))
    }

    /// The bytes of a path.
    pub fn path(&self, id: PathId) -> &[u8] {
        self.paths.get(id.0 as usize).map_or(b"", |path| path)
    }

    /// A path to show: bytes that are no UTF-8, and control characters, are escaped.
    pub fn shown(&self, id: PathId) -> String {
        shown(self.path(id))
    }

    /// The bytes of all distinct paths, by number.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.paths.iter().map(|path| &path[..])
    }

    /// How many distinct paths there are; their numbers are below it.
    pub fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// The process of that number. Every number in a loaded recording has one.
    pub fn process(&self, id: ProcessId) -> &Process {
        &self.processes[id.0 as usize]
    }

    /// When and why the program was let go of, if it was.
    pub fn let_go(&self) -> Option<&LetGo> {
        self.summary.as_ref()?.let_go.as_ref()
    }

    /// Whether the recording shows all of the run: it was ended, every process ended in it,
    /// and no blind spot hides calls.
    pub fn is_whole(&self) -> bool {
        self.summary.is_some()
            && self.processes.iter().all(|process| process.end.is_some())
            && !self.blinds.iter().any(Blind::hides_calls)
    }
}
