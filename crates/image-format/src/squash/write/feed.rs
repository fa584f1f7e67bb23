//! Hands work to the threads that read and compress: pieces of files in their order, as long as
//! what is underway fits into memory.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::tree::{ContentPatch, FileNodeId, FileNodeKind, FileTree, TreeAttributes};

/// Bytes that may be underway: read, compressed, not yet written.
const MOST_UNDERWAY: u64 = 64 << 20;
/// Bytes of a large file that one thread reads at a time, at least a block.
const PIECE: u64 = 1 << 20;

/// A part of a file.
pub(crate) struct Piece {
    /// Pieces are counted in the order in which they are placed.
    pub number: u64,
    pub file: FileNodeId,
    /// From which byte on.
    pub at: u64,
    pub length: u64,
    pub is_first: bool,
    pub is_last: bool,
    pub source: Arc<SourceFile>,
}

/// A file that is read: opened by the first thread that needs it, closed by the last.
pub(crate) struct SourceFile {
    pub path: PathBuf,
    pub attributes: TreeAttributes,
    pub size: u64,
    pub has_holes: bool,
    /// The content, where it does not come from the disk.
    pub given: Option<Arc<[u8]>>,
    pub patches: Option<Arc<[ContentPatch]>>,
    /// Whether another file has the same size, and so perhaps the same content.
    pub has_twin: bool,
    pub opened: OnceLock<Result<File, rustix::io::Errno>>,
}

/// What a thread is to do next.
pub(crate) enum PieceWork {
    Read(Piece),
    /// Compress a full fragment block. It has been given this number.
    Fragment(u32, Vec<u8>),
}

/// The work that is left.
pub(crate) struct Feed<'a> {
    tree: &'a FileTree,
    /// Files that have bytes.
    order: &'a [FileNodeId],
    twins: &'a (dyn Fn(u64) -> bool + Sync),
    block_size: u32,
    state: Mutex<FeedState>,
    wake: Condvar,
}

#[derive(Default)]
struct FeedState {
    fragments: VecDeque<(u32, Vec<u8>)>,
    next_file: usize,
    /// The file that is being cut into pieces, and from where on.
    cut: Option<(FileNodeId, Arc<SourceFile>, u64)>,
    next_piece: u64,
    underway: u64,
    is_over: bool,
}

impl<'a> Feed<'a> {
    pub(crate) fn new(
        tree: &'a FileTree,
        order: &'a [FileNodeId],
        twins: &'a (dyn Fn(u64) -> bool + Sync),
        block_size: u32,
    ) -> Feed<'a> {
        let (state, wake) = (Mutex::default(), Condvar::new());
        Feed { tree, order, twins, block_size, state, wake }
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for work; none when all is over.
    pub(crate) fn next(&self) -> Option<PieceWork> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            // A full fragment first: all that comes after it waits for it.
            if let Some((number, block)) = state.fragments.pop_front() {
                return Some(PieceWork::Fragment(number, block));
            }
            if state.underway < MOST_UNDERWAY
                && let Some(piece) = self.cut(&mut state)
            {
                state.underway += piece.length;
                return Some(PieceWork::Read(piece));
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next piece.
    fn cut(&self, state: &mut FeedState) -> Option<Piece> {
        while state.cut.is_none() {
            let id = *self.order.get(state.next_file)?;
            state.next_file += 1;
            let node = &self.tree.nodes[id as usize];
            if let FileNodeKind::File { size, has_holes, ref given } = node.kind {
                let source = SourceFile {
                    path: self.tree.source(id),
                    attributes: node.attributes,
                    size,
                    has_holes,
                    given: given.clone(),
                    patches: node.patches.clone(),
                    has_twin: (self.twins)(size),
                    opened: OnceLock::new(),
                };
                state.cut = Some((id, Arc::new(source), 0));
            }
        }
        let (file, source, at) = state.cut.take()?;
        let length = (source.size - at).min(PIECE.max(u64::from(self.block_size)));
        let end = at + length;
        let is_last = end == source.size;
        if !is_last {
            state.cut = Some((file, source.clone(), end));
        }
        let number = state.next_piece;
        state.next_piece += 1;
        Some(Piece { number, file, at, length, is_first: at == 0, is_last, source })
    }

    /// Asks for a fragment block to be compressed.
    pub(crate) fn fragment(&self, number: u32, block: Vec<u8>) {
        let mut state = self.lock();
        state.underway += block.len() as u64;
        state.fragments.push_back((number, block));
        drop(state);
        self.wake.notify_one();
    }

    /// So many bytes are no longer underway.
    pub(crate) fn settle(&self, bytes: u64) {
        let mut state = self.lock();
        let was_full = state.underway >= MOST_UNDERWAY;
        state.underway = state.underway.saturating_sub(bytes);
        let has_room = state.underway < MOST_UNDERWAY;
        drop(state);
        if was_full && has_room {
            self.wake.notify_all();
        }
    }

    /// How many pieces there are, once all have been handed out.
    pub(crate) fn pieces(&self) -> Option<u64> {
        let state = self.lock();
        let is_cut = state.cut.is_none() && state.next_file == self.order.len();
        is_cut.then_some(state.next_piece)
    }

    /// No more work: each thread that asks is sent home.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.wake.notify_all();
    }
}
