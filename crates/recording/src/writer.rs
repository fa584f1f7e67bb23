//! Writes a recording while the command runs.
//!
//! The recorder appends to a buffer in memory; a thread of the writer's own compresses and
//! writes it, at least every [`FLUSH`], so that a recorder that is killed leaves a recording of
//! all but its last moments.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::wire::{BLOCK_LIMIT, BlockKind, FRAME, MAGIC};
use crate::{Event, Header, LetGo, Nanos, PathId, Record, RecordingSummary};

/// Where a recording goes.
pub type Sink = Box<dyn Write + Send>;

/// A block is written when it holds this much, or when it is this old.
const BLOCK: usize = 256 << 10;
const FLUSH: Duration = Duration::from_millis(50);

/// The recorder waits for the disk when this much is not yet written.
const BACKLOG: usize = 4 << 20;

/// Paths are remembered up to this many bytes, then all forgotten: a path seen again gets a
/// second number, which the reader folds into the first. This bounds the recorder's memory.
const REMEMBERED: usize = 12 << 20;

/// Zstd's level: 1 is a third of the recorder's cost at level 3 for 15 % more bytes.
const LEVEL: i32 = 1;

/// Writes records to a sink. Errors of the sink are kept and reported by [`Writer::finish`]:
/// the command that is being recorded must not suffer from a full disk.
pub struct Writer {
    shared: Arc<SharedSink>,
    thread: Option<JoinHandle<Sink>>,
    scratch: Vec<u8>,
    known: HashMap<Box<[u8]>, PathId>,
    known_bytes: usize,
    paths: u32,
    last_start: u64,
    summary: RecordingSummary,
}

struct SharedSink {
    state: Mutex<WriterState>,
    wake: Condvar,
}

#[derive(Default)]
struct WriterState {
    pending: Vec<u8>,
    writing: bool,
    flush: bool,
    close: bool,
    error: Option<io::Error>,
}

impl SharedSink {
    /// A panic of the other side cannot leave the state half changed: every change is a move.
    fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Writes the magic and the header, and starts the writing thread.
    ///
    /// # Errors
    /// If the sink refuses the first bytes: nothing can be recorded there.
    pub fn new(mut sink: Sink, header: &Header) -> io::Result<Writer> {
        sink.write_all(MAGIC)?;
        let json = serde_json::to_vec(header).map_err(io::Error::other)?;
        write_block(&mut sink, BlockKind::Header, &json)?;
        let shared = Arc::new(SharedSink { state: Mutex::default(), wake: Condvar::new() });
        let thread = std::thread::Builder::new().name("writer".into()).spawn({
            let shared = Arc::clone(&shared);
            move || write_loop(&shared, sink)
        })?;
        Ok(Writer {
            shared,
            thread: Some(thread),
            scratch: Vec::with_capacity(256),
            known: HashMap::new(),
            known_bytes: 0,
            paths: 0,
            last_start: 0,
            summary: RecordingSummary::default(),
        })
    }

    /// The number of a path, which is recorded if it is new.
    pub fn path(&mut self, path: &[u8]) -> PathId {
        if let Some(id) = self.known.get(path) {
            return *id;
        }
        if self.known_bytes > REMEMBERED {
            self.known.clear();
            self.known_bytes = 0;
        }
        let id = PathId(self.paths);
        self.paths += 1;
        self.known_bytes += path.len() + 48;
        self.known.insert(path.into(), id);
        self.record(&Record::Path(path.to_vec()));
        id
    }

    /// Records one system call.
    pub fn call(&mut self, event: Event) {
        let delta = event.start.0.wrapping_sub(self.last_start) as i64;
        self.last_start = event.start.0;
        self.summary.calls += 1;
        self.record(&Record::Call(Event { start: Nanos(zigzag(delta)), ..event }));
    }

    /// Records anything but a call.
    pub fn record(&mut self, record: &Record) {
        if let Record::Start { .. } = record {
            self.summary.processes += 1;
        }
        self.scratch.clear();
        let bytes = std::mem::take(&mut self.scratch);
        // Postcard fails only where a sequence has no known length; no record has one.
        self.scratch = postcard::to_extend(record, bytes).unwrap_or_default();
        let mut state = self.shared.lock();
        while state.pending.len() > BACKLOG && state.error.is_none() {
            state = self.shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.error.is_some() {
            return;
        }
        let before = state.pending.len();
        state.pending.extend_from_slice(&self.scratch);
        if before < BLOCK && state.pending.len() >= BLOCK {
            self.shared.wake.notify_all();
        }
    }

    /// The program is watched no longer from now on.
    pub fn let_go(&mut self, let_go: LetGo) {
        self.summary.let_go = Some(let_go);
    }

    /// Returns once all that was recorded has been handed to the sink.
    pub fn flush(&mut self) {
        let mut state = self.shared.lock();
        state.flush = true;
        self.shared.wake.notify_all();
        while state.error.is_none() && (!state.pending.is_empty() || state.writing) {
            state = self.shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.flush = false;
    }

    /// Whether the sink has failed; what is recorded from then on is lost.
    pub fn has_failed(&self) -> bool {
        self.shared.lock().error.is_some()
    }

    /// Ends the recording: writes what is left and the summary that says it is whole.
    ///
    /// # Errors
    /// The sink's first error. The recording is then cut, and a reader says so.
    pub fn finish(mut self, ended: Nanos) -> io::Result<RecordingSummary> {
        self.summary.ended = ended;
        let json = serde_json::to_vec(&self.summary).map_err(io::Error::other)?;
        self.shared.lock().close = true;
        self.shared.wake.notify_all();
        let thread = self.thread.take().ok_or_else(|| io::Error::other("already finished"))?;
        let mut sink = thread.join().map_err(|_| io::Error::other("the writing thread died"))?;
        if let Some(error) = self.shared.lock().error.take() {
            return Err(error);
        }
        write_block(&mut sink, BlockKind::Summary, &json)?;
        sink.flush()?;
        Ok(self.summary.clone())
    }
}

impl Drop for Writer {
    /// A writer that is dropped unfinished leaves a cut recording, with all that it was given.
    fn drop(&mut self) {
        self.shared.lock().close = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_loop(shared: &SharedSink, mut sink: Sink) -> Sink {
    let mut block = Vec::with_capacity(BLOCK + 4096);
    loop {
        let mut state = shared.lock();
        if state.pending.len() < BLOCK && !state.close && !state.flush {
            let waited = shared.wake.wait_timeout(state, FLUSH);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.pending.is_empty() {
            if state.close {
                return sink;
            }
            state.flush = false;
            shared.wake.notify_all();
            continue;
        }
        std::mem::swap(&mut block, &mut state.pending);
        state.writing = true;
        drop(state);
        let written = write_block(&mut sink, BlockKind::Records, &block);
        block.clear();
        let mut state = shared.lock();
        state.writing = false;
        if let Err(error) = written {
            state.error = Some(error);
            state.pending.clear();
            shared.wake.notify_all();
            return sink;
        }
        shared.wake.notify_all();
    }
}

/// Writes one block in one piece, so that a reader sees all of it or none.
fn write_block(sink: &mut Sink, kind: BlockKind, bytes: &[u8]) -> io::Result<()> {
    debug_assert!(bytes.len() <= BLOCK_LIMIT);
    let packed = zstd::bulk::compress(bytes, LEVEL)?;
    let mut frame = Vec::with_capacity(FRAME + packed.len());
    frame.push(kind as u8);
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    frame.extend_from_slice(&crc32fast::hash(&packed).to_le_bytes());
    frame.extend_from_slice(&packed);
    sink.write_all(&frame)
}

/// Small numbers of either sign as small unsigned ones.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub(crate) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
