//! Reads a recording as a stream, trusting nothing in it.

use std::collections::HashMap;
use std::io::{self, Read};

use crate::budget::{self, Budget};
use crate::wire::{BLOCK_LIMIT, BlockKind, FRAME, MAGIC};
use crate::writer::unzigzag;
use crate::{Event, Header, Nanos, PathId, Record, RecordingSummary, Touch};

/// Why a recording could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingReadError {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Another kind of file.
    #[error("not a recording (it does not begin with 'becalm-record')")]
    Foreign,
    /// A recording of another version of the format.
    #[error("a recording of format {found}; this becalm reads format 1")]
    Version {
        /// What the file says.
        found: String,
    },
    /// The header is missing or makes no sense: nothing can be said about the rest.
    #[error("a recording without a readable header (it was cut before the command started)")]
    NoHeader,
    /// The recordings of several ranks: one has to be chosen.
    #[error("the recordings of several ranks")]
    Ranks,
    /// One recording where those of ranks are wanted.
    #[error("the recording of a command that no launcher started")]
    NoRank,
    /// A block with a right checksum holds nonsense: a hostile file, or a bug.
    #[error("damaged: {0}")]
    Damaged(&'static str),
}

/// Streams the records of a recording.
///
/// A recording that was cut (the recorder was killed, the disk was full) reads up to the cut;
/// then [`Reader::summary`] is none and [`Reader::cut`] says where it ends.
pub struct Reader<R> {
    source: R,
    header: Header,
    block: Vec<u8>,
    at: usize,
    canonical: Vec<PathId>,
    paths: Vec<Box<[u8]>>,
    known: HashMap<Box<[u8]>, PathId>,
    last_start: u64,
    last_touch: Touch,
    budget: Budget,
    summary: Option<RecordingSummary>,
    cut: Option<&'static str>,
}

enum RecordingBlock {
    /// What it is, how many bytes of the file it is, and what it unpacks to.
    Whole(BlockKind, usize, Vec<u8>),
    End,
    Cut(&'static str),
}

impl<R: Read> Reader<R> {
    /// Reads the magic and the header.
    ///
    /// # Errors
    /// [`RecordingReadError`], if the source is no recording or has no whole header.
    pub fn new(mut source: R) -> Result<Reader<R>, RecordingReadError> {
        let mut magic = [0; MAGIC.len()];
        let got = read_up_to(&mut source, &mut magic)?;
        check_magic(&magic[..got])?;
        let header = match read_block(&mut source)? {
            RecordingBlock::Whole(BlockKind::Header, _, json) => {
                serde_json::from_slice(&json).map_err(|_| RecordingReadError::NoHeader)?
            }
            _ => return Err(RecordingReadError::NoHeader),
        };
        Ok(Reader {
            source,
            header,
            block: Vec::new(),
            at: 0,
            canonical: Vec::new(),
            paths: Vec::new(),
            known: HashMap::new(),
            last_start: 0,
            last_touch: Touch::default(),
            budget: Budget::default(),
            summary: None,
            cut: None,
        })
    }

    /// Where and when the recording was made.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The bytes of a path of a record that was read from here.
    pub fn path(&self, id: PathId) -> &[u8] {
        self.paths.get(id.0 as usize).map_or(b"", |path| path)
    }

    /// The summary, once all was read; none where the recording was cut.
    pub fn summary(&self) -> Option<&RecordingSummary> {
        self.summary.as_ref()
    }

    /// Why there is no summary, once all was read.
    pub fn cut(&self) -> Option<&'static str> {
        self.cut
    }

    /// The next record; none at the end. `Path` records are taken in and not returned: ask
    /// [`Reader::path`]. A path has one number, however often it was recorded.
    ///
    /// # Errors
    /// [`RecordingReadError::Io`] and [`RecordingReadError::Damaged`]. After an error there is no more to read.
    pub fn next_record(&mut self) -> Result<Option<Record>, RecordingReadError> {
        loop {
            if self.at == self.block.len() && !self.next_block()? {
                return Ok(None);
            }
            let (record, rest) = postcard::take_from_bytes::<Record>(&self.block[self.at..])
                .map_err(|_| RecordingReadError::Damaged("a block with an unknown record"))?;
            self.at = self.block.len() - rest.len();
            self.budget.spend(&record, self.components(&record))?;
            match record {
                Record::Path(path) => self.learn(path),
                Record::Call(event) => return self.call(event).map(Some),
                Record::Exec { process, mut exec } => {
                    exec.path = self.canonical(exec.path)?;
                    exec.image = self.canonical(exec.image)?;
                    exec.cwd = self.canonical(exec.cwd)?;
                    exec.loader = self.canonical_option(exec.loader)?;
                    return Ok(Some(Record::Exec { process, exec }));
                }
                Record::Image { path, image } => {
                    let path = self.canonical(path)?;
                    return Ok(Some(Record::Image { path, image }));
                }
                Record::Origin { process, mut origin } => {
                    for frame in &mut origin.frames {
                        frame.file = self.canonical_option(frame.file)?;
                    }
                    return Ok(Some(Record::Origin { process, origin }));
                }
                Record::Touch(touch) => return self.touch(touch).map(Some),
                other => return Ok(Some(other)),
            }
        }
    }

    /// How many components the paths have that a call names.
    fn components(&self, record: &Record) -> usize {
        let Record::Call(event) = record else { return 0 };
        let named = [event.path, event.other_path].into_iter().flatten();
        let known = named.filter_map(|path| self.canonical.get(path.0 as usize));
        known.map(|path| budget::components(self.path(*path))).sum()
    }

    /// All paths read so far, by number.
    pub(crate) fn into_paths(self) -> Vec<Box<[u8]>> {
        self.paths
    }

    fn next_block(&mut self) -> Result<bool, RecordingReadError> {
        if self.summary.is_some() || self.cut.is_some() {
            return Ok(false);
        }
        match read_block(&mut self.source)? {
            RecordingBlock::Whole(BlockKind::Records, packed, bytes) => {
                self.budget.earn(packed);
                self.block = bytes;
                self.at = 0;
                Ok(true)
            }
            RecordingBlock::Whole(BlockKind::Summary, _, json) => {
                let summary = serde_json::from_slice(&json);
                let mut summary: RecordingSummary =
                    summary.map_err(|_| RecordingReadError::Damaged("an unreadable summary"))?;
                let reads = summary.unwatched_reads.iter_mut();
                for (path, _) in reads.flat_map(|reads| &mut reads.files) {
                    *path = self.canonical(*path)?;
                }
                self.summary = Some(summary);
                Ok(false)
            }
            RecordingBlock::Whole(BlockKind::Header, ..) => {
                Err(RecordingReadError::Damaged("a second header"))
            }
            RecordingBlock::End => {
                self.cut = Some(
                    "it was not ended: the recorder was killed, the disk was full, or it still records",
                );
                Ok(false)
            }
            RecordingBlock::Cut(why) => {
                self.cut = Some(why);
                Ok(false)
            }
        }
    }

    fn learn(&mut self, path: Vec<u8>) {
        let path = path.into_boxed_slice();
        let next = PathId(self.paths.len() as u32);
        let id = *self.known.entry(path.clone()).or_insert(next);
        if id == next {
            self.paths.push(path);
        }
        self.canonical.push(id);
    }

    fn call(&mut self, mut event: Event) -> Result<Record, RecordingReadError> {
        let start = self.last_start.wrapping_add(unzigzag(event.start.0) as u64);
        self.last_start = start;
        event.start = Nanos(start);
        event.path = self.canonical_option(event.path)?;
        event.other_path = self.canonical_option(event.other_path)?;
        event.site = self.canonical_option(event.site)?;
        Ok(Record::Call(event))
    }

    fn touch(&mut self, touch: Touch) -> Result<Record, RecordingReadError> {
        let sum = |last: u64, difference| last.wrapping_add(unzigzag(difference) as u64);
        let offset = sum(self.last_touch.offset, touch.offset);
        let at = Nanos(sum(self.last_touch.at.0, touch.at.0));
        let path = self.canonical(touch.path)?;
        self.last_touch = Touch { offset, at, path, ..touch };
        Ok(Record::Touch(self.last_touch))
    }

    fn canonical(&self, id: PathId) -> Result<PathId, RecordingReadError> {
        let known = self.canonical.get(id.0 as usize);
        known.copied().ok_or(RecordingReadError::Damaged("a path that was never given"))
    }

    fn canonical_option(&self, id: Option<PathId>) -> Result<Option<PathId>, RecordingReadError> {
        id.map(|id| self.canonical(id)).transpose()
    }
}

fn check_magic(found: &[u8]) -> Result<(), RecordingReadError> {
    if found == MAGIC {
        return Ok(());
    }
    if found.starts_with(b"becalm-ranked ") {
        return Err(RecordingReadError::Ranks);
    }
    match found.strip_prefix(b"becalm-record ") {
        Some(version) if version.ends_with(b"\n") => Err(RecordingReadError::Version {
            found: String::from_utf8_lossy(version).trim().to_owned(),
        }),
        _ => Err(RecordingReadError::Foreign),
    }
}

fn read_block(source: &mut impl Read) -> Result<RecordingBlock, RecordingReadError> {
    const SHORT: &str = "it ends within a block: the recorder was killed or the disk was full";
    let mut frame = [0; FRAME];
    match read_up_to(source, &mut frame)? {
        0 => return Ok(RecordingBlock::End),
        FRAME => {}
        _ => return Ok(RecordingBlock::Cut(SHORT)),
    }
    let word =
        |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let (unpacked, packed, sum) = (word(1) as usize, word(5) as usize, word(9));
    let Some(kind) = BlockKind::from_byte(frame[0]) else {
        return Ok(RecordingBlock::Cut("it has bytes after its last whole block"));
    };
    // zstd's worst case adds less than 1 % to what cannot be compressed.
    if unpacked > BLOCK_LIMIT || packed > BLOCK_LIMIT + (BLOCK_LIMIT >> 6) {
        return Ok(RecordingBlock::Cut("it has bytes after its last whole block"));
    }
    let mut bytes = Vec::new();
    source.by_ref().take(packed as u64).read_to_end(&mut bytes)?;
    if bytes.len() < packed {
        return Ok(RecordingBlock::Cut(SHORT));
    }
    if crc32fast::hash(&bytes) != sum {
        return Ok(RecordingBlock::Cut("a block's checksum is wrong"));
    }
    let bytes = zstd::bulk::decompress(&bytes, unpacked)
        .map_err(|_| RecordingReadError::Damaged("a block that does not unpack"))?;
    if bytes.len() != unpacked {
        return Err(RecordingReadError::Damaged("a block of another size than it says"));
    }
    Ok(RecordingBlock::Whole(kind, packed, bytes))
}

/// Fills `buffer` as far as the source goes, and says how far.
fn read_up_to(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
