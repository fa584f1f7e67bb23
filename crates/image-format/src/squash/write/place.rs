//! Puts what was read in its order, and into the image: small files into fragment blocks,
//! larger ones as blocks, what is there already not again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use sha2::{Digest, Sha256};

use super::feed::Feed;
use super::piece::{Hash, KnownStart, PackedBlock, PieceContent, PieceDone, Ready};
use crate::ImageWriter;
use crate::SquashWriteError;
use crate::squash::format::DATA_STORED;
use crate::squash::read::MOST_BLOCKS;
use crate::tree::FileNodeId;

/// Where a file's content is.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContentPosition {
    /// Its first block.
    pub start: u64,
    /// How the sizes of its blocks are written.
    pub blocks: Vec<u32>,
    /// Bytes in blocks of nothing but zeros.
    pub sparse: u64,
    /// Number of a fragment block, and the offset in it.
    pub fragment: Option<(u32, u32)>,
}

/// What is known once all is placed.
#[derive(Default)]
pub(crate) struct StoredContent {
    /// Files with bytes.
    pub files: HashMap<FileNodeId, ContentPosition>,
    /// Fragment blocks: where, and how the size is written.
    pub fragments: Vec<(u64, u32)>,
    pub unreadable: Vec<FileNodeId>,
    pub elf: Vec<FileNodeId>,
    pub unchecked: Vec<FileNodeId>,
    /// Files that were there already, under another name.
    pub duplicates: u64,
    /// Their bytes.
    pub duplicate_bytes: u64,
}

impl StoredContent {
    /// How many bytes from the image's start on hold the content of these files.
    pub fn front(&self, files: &[FileNodeId]) -> u64 {
        let end = |(start, size): (u64, u32)| start + u64::from(size & !DATA_STORED);
        let ends = files.iter().filter_map(|id| self.files.get(id)).map(|placed| {
            let blocks = placed.blocks.iter().fold(placed.start, |at, size| end((at, *size)));
            let shared =
                placed.fragment.and_then(|(number, _)| self.fragments.get(number as usize));
            blocks.max(shared.map_or(0, |fragment| end(*fragment)))
        });
        ends.max().unwrap_or(0)
    }

    /// Where in the image the parts of these files lie, as they begin and end, in order. Of a file
    /// without a part all of it is meant.
    pub fn used(
        &self,
        files: &[(FileNodeId, Vec<&Range<u64>>)],
        block_size: u32,
    ) -> Vec<(u64, u64)> {
        let mut used = Vec::new();
        for (id, parts) in files {
            let Some(placed) = self.files.get(id) else { continue };
            let is_used = |block: &Range<u64>| {
                let meets = |part: &&Range<u64>| part.start < block.end && block.start < part.end;
                parts.is_empty() || parts.iter().any(meets)
            };
            let (mut at, mut block) = (placed.start, 0..u64::from(block_size));
            for size in &placed.blocks {
                let end = at + u64::from(size & !DATA_STORED);
                if is_used(&block) && end > at {
                    used.push((at, end));
                }
                (at, block) = (end, block.end..block.end + u64::from(block_size));
            }
            let tail = placed.fragment.filter(|_| is_used(&block));
            let tail = tail.and_then(|(number, _)| self.fragments.get(number as usize));
            used.extend(tail.map(|(at, size)| (*at, at + u64::from(size & !DATA_STORED))));
        }
        used.sort_unstable();
        used.dedup_by(|next, last| {
            let is_near = next.0 <= last.1 + GAP;
            if is_near {
                last.1 = last.1.max(next.1);
            }
            is_near
        });
        used
    }
}

/// Parts of an image with no more between them are one: that costs less than another request.
const GAP: u64 = 128 << 10;

/// Something that goes into the image when its turn comes.
enum OutputSlot {
    /// The fragment block of this number and length, once it is compressed.
    Fragment(u32, u64),
    Blocks(Ready, Vec<PackedBlock>),
}

/// Takes what the threads have done, in any order.
pub(crate) struct Placer<'a, 'w> {
    feed: &'a Feed<'a>,
    out: &'a mut ImageWriter<'w>,
    block_size: usize,
    /// The first file that the trace did not open: it shares no fragment block with those that it did, so
    /// that they are told apart by where they lie.
    first_of_rest: Option<FileNodeId>,
    /// Pieces whose turn has not come.
    early: BTreeMap<u64, Ready>,
    next: u64,
    /// The fragment block that is being filled.
    fragment: Vec<u8>,
    /// How many before it.
    fragments: u32,
    /// What is to be written, in order.
    slots: VecDeque<OutputSlot>,
    /// Compressed fragment blocks whose turn has not come.
    packed: HashMap<u32, PackedBlock>,
    seen: HashMap<(u64, Hash), ContentPosition>,
    /// The large file that is being written, and the hashes of its pieces.
    open: (ContentPosition, Sha256, u64),
    content: StoredContent,
    /// Bytes of files that are placed.
    pub placed: u64,
}

impl<'a, 'w> Placer<'a, 'w> {
    pub(crate) fn new(
        feed: &'a Feed<'a>,
        out: &'a mut ImageWriter<'w>,
        block_size: u32,
        first_of_rest: Option<FileNodeId>,
    ) -> Placer<'a, 'w> {
        Placer {
            feed,
            out,
            block_size: block_size as usize,
            first_of_rest,
            early: BTreeMap::new(),
            next: 0,
            fragment: Vec::new(),
            fragments: 0,
            slots: VecDeque::new(),
            packed: HashMap::new(),
            seen: HashMap::new(),
            open: Default::default(),
            content: StoredContent::default(),
            placed: 0,
        }
    }

    /// Takes one result. Says whether that was all.
    pub(crate) fn take(&mut self, done: PieceDone) -> Result<bool, SquashWriteError> {
        match done {
            PieceDone::Piece(ready) => drop(self.early.insert(ready.number, ready)),
            PieceDone::Fragment(number, block) => drop(self.packed.insert(number, block)),
        }
        while let Some(ready) = self.early.remove(&self.next) {
            self.next += 1;
            self.line_up(ready)?;
        }
        let is_all = self.feed.pieces() == Some(self.next);
        if is_all {
            self.end_fragment()?;
        }
        self.write()?;
        Ok(is_all && self.slots.is_empty())
    }

    /// What is known of all.
    pub(crate) fn finish(self) -> StoredContent {
        self.content
    }

    fn line_up(&mut self, mut ready: Ready) -> Result<(), SquashWriteError> {
        match ready.start {
            Some(KnownStart::Elf) => self.content.elf.push(ready.file),
            Some(KnownStart::UncheckedBytecode) => self.content.unchecked.push(ready.file),
            None => {}
        }
        if ready.is_first && self.first_of_rest == Some(ready.file) {
            self.end_fragment()?;
        }
        match std::mem::replace(&mut ready.content, PieceContent::Unreadable) {
            PieceContent::Small(bytes) => {
                self.place_small(&ready, &bytes)?;
                self.settle(ready.length);
            }
            PieceContent::Blocks(blocks) => self.slots.push_back(OutputSlot::Blocks(ready, blocks)),
            PieceContent::Unreadable => {
                if ready.is_first {
                    self.content.unreadable.push(ready.file);
                }
                self.settle(ready.length);
            }
        }
        Ok(())
    }

    fn settle(&mut self, bytes: u64) {
        self.placed += bytes;
        self.feed.settle(bytes);
    }

    fn place_small(&mut self, ready: &Ready, bytes: &[u8]) -> Result<(), SquashWriteError> {
        let key = ready.hash.map(|hash| (ready.length, hash));
        if let Some(placed) = key.and_then(|key| self.seen.get(&key)) {
            self.content.files.insert(ready.file, placed.clone());
            self.content.duplicates += 1;
            self.content.duplicate_bytes += ready.length;
            return Ok(());
        }
        if self.fragment.len() + bytes.len() > self.block_size {
            self.end_fragment()?;
        }
        let at = (self.fragments, self.fragment.len() as u32);
        self.fragment.extend_from_slice(bytes);
        let placed = ContentPosition { fragment: Some(at), ..ContentPosition::default() };
        if let Some(key) = key {
            self.seen.insert(key, placed.clone());
        }
        self.content.files.insert(ready.file, placed);
        Ok(())
    }

    /// Hands the fragment block to be compressed; it keeps its place in the image.
    fn end_fragment(&mut self) -> Result<(), SquashWriteError> {
        if self.fragment.is_empty() {
            return Ok(());
        }
        let block = std::mem::replace(&mut self.fragment, Vec::with_capacity(self.block_size));
        self.slots.push_back(OutputSlot::Fragment(self.fragments, block.len() as u64));
        self.feed.fragment(self.fragments, block);
        self.fragments =
            self.fragments.checked_add(1).ok_or(SquashWriteError::TooMuch("fragments"))?;
        Ok(())
    }

    /// Writes all whose turn has come.
    fn write(&mut self) -> Result<(), SquashWriteError> {
        while let Some(slot) = self.slots.pop_front() {
            match slot {
                OutputSlot::Fragment(number, length) => {
                    let Some(block) = self.packed.remove(&number) else {
                        self.slots.push_front(slot);
                        return Ok(());
                    };
                    self.content.fragments.push((self.out.position(), block.size));
                    self.out.put(&block.bytes)?;
                    self.feed.settle(length);
                }
                OutputSlot::Blocks(ready, blocks) => self.write_blocks(&ready, blocks)?,
            }
        }
        Ok(())
    }

    fn write_blocks(
        &mut self,
        ready: &Ready,
        blocks: Vec<PackedBlock>,
    ) -> Result<(), SquashWriteError> {
        if ready.is_first {
            let start = self.out.position();
            self.open = (ContentPosition { start, ..ContentPosition::default() }, Sha256::new(), 0);
        }
        let (placed, hash, length) = &mut self.open;
        *length += ready.length;
        ready.hash.inspect(|piece| hash.update(piece));
        if placed.blocks.len() as u64 + blocks.len() as u64 > MOST_BLOCKS {
            return Err(SquashWriteError::TooManyBlocks);
        }
        for block in blocks {
            placed.blocks.push(block.size);
            placed.sparse += block.hole;
            self.out.put(&block.bytes)?;
        }
        if ready.is_last {
            let (mut placed, hash, length) = std::mem::take(&mut self.open);
            let key = ready.hash.map(|_| (length, hash.finalize().into()));
            match key.and_then(|key| self.seen.get(&key)) {
                Some(earlier) => {
                    self.out.take_back(placed.start);
                    placed = earlier.clone();
                    self.content.duplicates += 1;
                    self.content.duplicate_bytes += length;
                }
                None => drop(key.map(|key| self.seen.insert(key, placed.clone()))),
            }
            self.content.files.insert(ready.file, placed);
        }
        self.settle(ready.length);
        Ok(())
    }
}
