//! What goes into the recording, and the clock it is timed by.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use recording::{Blind, Event, Image, Nanos, PathId, ProcessId, Record, Summary, Writer};

use crate::files::FullPath;

/// Reads what an ELF file says of its own search; none for what is no ELF file.
pub type ReadImage = fn(&Path) -> Option<Image>;

/// The recording in the making.
pub(crate) struct Log {
    writer: Writer,
    origin: Instant,
    read_image: ReadImage,
    /// ELF files that were mapped and not yet read; they are read after the run, when it
    /// disturbs no time and asks no cold question.
    images: BTreeSet<Vec<u8>>,
    images_read: HashSet<Vec<u8>>,
    /// The blind spots recorded so far.
    pub blinds: Vec<Blind>,
    processes: u32,
}

impl Log {
    pub fn new(writer: Writer, origin: Instant, read_image: ReadImage) -> Log {
        Log {
            writer,
            origin,
            read_image,
            images: BTreeSet::new(),
            images_read: HashSet::new(),
            blinds: Vec::new(),
            processes: 0,
        }
    }

    pub fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub fn path(&mut self, bytes: &[u8]) -> PathId {
        self.writer.path(bytes)
    }

    pub fn full_path(&mut self, bytes: &[u8]) -> FullPath {
        FullPath { id: self.writer.path(bytes), bytes: bytes.into() }
    }

    pub fn next_process(&mut self) -> ProcessId {
        let id = ProcessId(self.processes);
        self.processes += 1;
        id
    }

    pub fn call(&mut self, event: Event) {
        self.writer.call(event);
    }

    pub fn record(&mut self, record: &Record) {
        self.writer.record(record);
    }

    /// Records a blind spot, once.
    pub fn blind(&mut self, blind: Blind) {
        if !self.blinds.contains(&blind) {
            self.writer.record(&Record::Blind(blind.clone()));
            self.blinds.push(blind);
        }
    }

    /// Notes that instructions of this file were mapped.
    pub fn mapped(&mut self, file: &[u8]) {
        if !self.images_read.contains(file) && !self.images.contains(file) {
            self.images.insert(file.to_vec());
        }
    }

    /// Reads and records what the mapped files say of their search, and hands all to the disk.
    pub fn settle(&mut self) {
        for file in std::mem::take(&mut self.images) {
            let path = Path::new(std::ffi::OsStr::from_bytes(&file));
            if let Some(image) = (self.read_image)(path) {
                let path = self.writer.path(&file);
                self.writer.record(&Record::Image { path, image });
            }
            self.images_read.insert(file);
        }
        self.writer.flush();
    }

    /// Ends the recording.
    pub fn finish(mut self) -> io::Result<Summary> {
        self.settle();
        let ended = self.now();
        self.writer.finish(ended)
    }
}
