//! What goes into the recording, and the clock it is timed by.

use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use recording::{
    Blind, Event, Exec, FileRange, LetGo, MappedElf, MountChange, Nanos, PathId, ProcessId, Record,
    RecordingSummary, Touch, Writer,
};
use rustc_hash::FxHashSet;

use crate::directory_names::DirectoryNames;
use crate::files::FullPath;
use crate::mounts::KnownMounts;
use crate::task::Task;
use crate::unwatched_reads::OpenedFiles;

/// Reads what an ELF file says of its own search; none for what is no ELF file.
pub type ReadImage = fn(&Path) -> Option<MappedElf>;

/// What is known of descriptors where reads, closes and copies of them are not watched.
#[derive(Default)]
pub(crate) struct UnwatchedDescriptors {
    pub names: DirectoryNames,
    pub files: OpenedFiles,
}

/// The recording in the making.
pub(crate) struct RecordingLog {
    pub unwatched: Option<UnwatchedDescriptors>,
    writer: Writer,
    origin: Instant,
    /// What CLOCK_MONOTONIC showed then.
    origin_clock: u64,
    read_image: ReadImage,
    /// Files that instructions were mapped from.
    mapped: HashSet<Vec<u8>>,
    reading: Option<ImageReading>,
    /// The blind spots recorded so far.
    blinds: Vec<Blind>,
    mounts: KnownMounts,
    /// The parts of files that were touched.
    touched: FxHashSet<(PathId, u64)>,
    /// Page faults that were not told.
    faults_lost: u64,
}

/// A thread that reads mapped ELF files beside the run: they were just opened, so that it asks
/// no cold question, and the run does not wait for it.
struct ImageReading {
    files: Sender<Vec<u8>>,
    thread: JoinHandle<Vec<(Vec<u8>, MappedElf)>>,
}

impl ImageReading {
    fn begin(read_image: ReadImage) -> io::Result<ImageReading> {
        let (files, from) = channel::<Vec<u8>>();
        let read = move |file: Vec<u8>| {
            let image = read_image(Path::new(std::ffi::OsStr::from_bytes(&file)))?;
            Some((file, image))
        };
        let thread = std::thread::Builder::new()
            .name("images".into())
            .spawn(move || from.into_iter().filter_map(read).collect())?;
        Ok(ImageReading { files, thread })
    }
}

impl RecordingLog {
    pub fn new(writer: Writer, origin: Instant, read_image: ReadImage) -> RecordingLog {
        RecordingLog {
            unwatched: None,
            writer,
            origin,
            origin_clock: crate::clock::now().0.saturating_sub(origin.elapsed().as_nanos() as u64),
            read_image,
            mapped: HashSet::new(),
            reading: None,
            blinds: Vec::new(),
            mounts: KnownMounts::new(),
            touched: FxHashSet::default(),
            faults_lost: 0,
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

    /// Records a call, with the part of its file that it says it is about.
    pub fn call(&mut self, event: Event, range: Option<FileRange>) {
        self.writer.call(event);
        if let Some(range) = range {
            self.writer.record(&Record::Range(range));
        }
    }

    /// What CLOCK_MONOTONIC shows at a moment of the recording, in nanoseconds.
    pub fn clock_at(&self, moment: Nanos) -> u64 {
        self.origin_clock.saturating_add(moment.0)
    }

    /// Records that a part of a file was touched (at a moment of CLOCK_MONOTONIC), if it was not
    /// before, by whomever.
    pub fn touched(&mut self, by: (ProcessId, u32), path: PathId, offset: u64, clock: u64) {
        let (process, thread) = by;
        let at = Nanos(clock.saturating_sub(self.origin_clock));
        let touch = Touch { process, thread, path, offset, at };
        if self.touched.insert((path, offset)) {
            self.writer.touch(touch);
        }
    }

    /// How many parts of files were touched.
    pub fn touches(&self) -> u64 {
        self.touched.len() as u64
    }

    /// Notes page faults that were not told.
    pub fn faults_lost(&mut self, faults: u64) {
        self.faults_lost += faults;
    }

    pub fn record(&mut self, record: &Record) {
        self.writer.record(record);
    }

    /// Records what a process has become.
    pub fn executed(&mut self, process: ProcessId, mut exec: Exec) {
        let words = std::mem::take(&mut exec.exact_argv);
        self.record(&Record::Exec { process, exec });
        if !words.is_empty() {
            self.record(&Record::Words { process, words });
        }
    }

    /// The blind spots recorded so far.
    pub fn blinds(&self) -> &[Blind] {
        &self.blinds
    }

    /// Records a blind spot, once.
    pub fn blind(&mut self, blind: Blind) {
        if !self.blinds.contains(&blind) {
            self.writer.record(&Record::Blind(blind.clone()));
            self.blinds.push(blind);
        }
    }

    /// Records what a process sees mounted, if that has changed.
    pub fn mounts_changed(&mut self, task: &Task) {
        let root = task.directories.borrow().root.clone();
        if let Some((namespace, mounts)) = self.mounts.changed(task.tid, task.process.0, &root) {
            let (process, at) = (task.process, self.now());
            let change = MountChange { process, at, namespace, mounts };
            self.writer.record(&Record::Mounts(change));
        }
    }

    /// Notes that instructions of this file were mapped.
    pub fn mapped(&mut self, file: &[u8]) {
        if !self.mapped.insert(file.to_vec()) {
            return;
        }
        if self.reading.is_none() {
            self.reading = ImageReading::begin(self.read_image).ok();
        }
        if let Some(reading) = &self.reading {
            // Its thread ends only once this end is closed.
            let _ = reading.files.send(file.to_vec());
        }
    }

    /// Records what the mapped files say of their search, and hands all to the disk.
    pub fn settle(&mut self) {
        if self.faults_lost > 0 {
            self.blind(Blind::FaultsLost { faults: self.faults_lost });
        }
        if let Some(ImageReading { files, thread }) = self.reading.take() {
            drop(files);
            let mut images = thread.join().unwrap_or_default();
            images.sort_by(|a, b| a.0.cmp(&b.0));
            for (file, image) in images {
                let path = self.writer.path(&file);
                self.writer.record(&Record::Image { path, image });
            }
        }
        self.writer.flush();
    }

    /// Notes that the program is watched no longer.
    pub fn let_go(&mut self, let_go: &LetGo) {
        self.writer.let_go(let_go.clone());
    }

    /// Ends the recording.
    pub fn finish(mut self) -> io::Result<RecordingSummary> {
        self.settle();
        if let Some(reads) = self.unwatched.as_ref().and_then(|it| it.files.sized()) {
            self.writer.unwatched_reads(reads);
        }
        let ended = self.now();
        self.writer.finish(ended)
    }
}
