//! The recordings of several ranks in one file (docs/recording-format.md, "Several ranks").
//!
//! Each recording is in it byte for byte, so that one that was cut stays what it is, and joining
//! files costs no more than copying them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Rank, Reader, Recording, RecordingReadError};

/// The first bytes of a file of ranks; the digit is the format's version.
const MAGIC: &[u8; 16] = b"becalm-ranked 1\n";

/// A frame: what follows, the label's length, the recording's, and the label's checksum.
const FRAME: usize = 4 + 4 + 8 + 4;
const MEMBER: &[u8; 4] = b"RANK";
const END: &[u8; 4] = b"END\n";

/// No label is longer; a reader refuses one that claims to be.
const LABEL_LIMIT: u32 = 64 << 10;

/// Whether a file that begins so is one of ranks, or one recording.
pub fn is_recording(start: &[u8]) -> bool {
    start.starts_with(b"becalm-record ") || start.starts_with(b"becalm-ranked ")
}

/// One rank's recording, where it lies.
#[derive(Clone, Debug)]
pub struct RankRecording {
    /// Whose it is.
    pub rank: Rank,
    file: Arc<File>,
    at: u64,
    bytes: u64,
}

/// The recordings of a file.
#[derive(Clone, Debug)]
pub struct RankedRecordings {
    /// By their number.
    pub members: Vec<RankRecording>,
    /// Whether the file is all that was written: it has its end.
    pub whole: bool,
}

/// Why recordings cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// They are not of one run.
    #[error("{first} is of {first_run}, {second} of {second_run}: they are not of one run")]
    OtherRun {
        /// A file.
        first: PathBuf,
        /// Its run.
        first_run: String,
        /// Another.
        second: PathBuf,
        /// Its run.
        second_run: String,
    },
    /// One rank is there twice.
    #[error("rank {rank} is in {first} and in {second}")]
    Twice {
        /// Which.
        rank: u32,
        /// A file that has it.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
}

impl RankRecording {
    /// A recording in a file of its own.
    ///
    /// # Errors
    /// Where its length cannot be known.
    pub fn alone(rank: Rank, file: File) -> io::Result<RankRecording> {
        let bytes = file.metadata()?.len();
        Ok(RankRecording { rank, file: Arc::new(file), at: 0, bytes })
    }

    /// Its bytes.
    pub fn bytes(&self) -> impl Read + '_ {
        FileSlice { file: &self.file, at: self.at, left: self.bytes }
    }

    /// Its records, as a stream.
    ///
    /// # Errors
    /// [`RecordingReadError`].
    pub fn reader(&self) -> Result<Reader<impl Read + '_>, RecordingReadError> {
        Reader::new(BufReader::new(self.bytes()))
    }

    /// All of it.
    ///
    /// # Errors
    /// [`RecordingReadError`].
    pub fn recording(&self) -> Result<Recording, RecordingReadError> {
        Recording::read(BufReader::new(self.bytes()))
    }
}

impl RankedRecordings {
    /// Opens a file of ranks, or the recording of a single one.
    ///
    /// # Errors
    /// [`RecordingReadError`]: [`RecordingReadError::NoRank`] for the recording of a command that was no rank.
    pub fn open(path: &Path) -> Result<RankedRecordings, RecordingReadError> {
        let file = Arc::new(File::open(path)?);
        let length = file.metadata()?.len();
        let mut magic = [0; MAGIC.len()];
        let got = FileSlice { file: &file, at: 0, left: length }.read_exact(&mut magic);
        if got.is_ok() && magic == *MAGIC {
            return members(&file, length);
        }
        match magic.strip_prefix(b"becalm-ranked ") {
            Some(version) if got.is_ok() => {
                let found = String::from_utf8_lossy(version).trim().to_owned();
                return Err(RecordingReadError::Version { found });
            }
            _ => {}
        }
        let mut alone = RankRecording { rank: Rank::default(), file, at: 0, bytes: length };
        let rank = alone.reader()?.header().rank.clone();
        alone.rank = rank.ok_or(RecordingReadError::NoRank)?;
        Ok(RankedRecordings { members: vec![alone], whole: true })
    }

    /// One rank's recording, if it is there.
    pub fn of(&self, rank: u32) -> Option<&RankRecording> {
        let at = self.members.binary_search_by_key(&rank, |member| member.rank.rank).ok()?;
        self.members.get(at)
    }

    /// The recordings of several files as one.
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn join(files: Vec<(PathBuf, RankedRecordings)>) -> Result<RankedRecordings, MergeError> {
        let mut joined: BTreeMap<u32, (PathBuf, RankRecording)> = BTreeMap::new();
        let mut whole = true;
        for (path, ranks) in files {
            whole &= ranks.whole;
            for member in ranks.members {
                if let Some((first, known)) = joined.values().next()
                    && !known.rank.may_be_with(&member.rank)
                {
                    return Err(MergeError::OtherRun {
                        first: first.clone(),
                        first_run: known.rank.run.clone(),
                        second: path,
                        second_run: member.rank.run,
                    });
                }
                let rank = member.rank.rank;
                if let Some((first, _)) = joined.insert(rank, (path.clone(), member)) {
                    return Err(MergeError::Twice { rank, first, second: path });
                }
            }
        }
        let members = joined.into_values().map(|(_, member)| member).collect();
        Ok(RankedRecordings { members, whole })
    }

    /// Writes them as one file.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn write(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        out.write_all(MAGIC)?;
        for member in &self.members {
            let label = serde_json::to_vec(&member.rank)?;
            let length = u32::try_from(label.len()).ok().filter(|length| *length <= LABEL_LIMIT);
            let length = length.ok_or_else(|| io::Error::other("a rank's names are too long"))?;
            out.write_all(&frame(MEMBER, length, member.bytes, &label))?;
            out.write_all(&label)?;
            let copied = io::copy(&mut member.bytes(), out)?;
            if copied != member.bytes {
                // Somebody cut the file meanwhile; what is written must stay readable.
                io::copy(&mut io::repeat(0).take(member.bytes - copied), out)?;
            }
        }
        out.write_all(&frame(END, 0, self.members.len() as u64, b""))
    }
}

fn frame(kind: &[u8; 4], label: u32, bytes: u64, content: &[u8]) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..4].copy_from_slice(kind);
    frame[4..8].copy_from_slice(&label.to_le_bytes());
    frame[8..16].copy_from_slice(&bytes.to_le_bytes());
    let mut sum = crc32fast::Hasher::new();
    sum.update(&frame[..16]);
    sum.update(content);
    frame[16..].copy_from_slice(&sum.finalize().to_le_bytes());
    frame
}

/// The members of a file of ranks, up to its end or to where it was cut.
fn members(file: &Arc<File>, length: u64) -> Result<RankedRecordings, RecordingReadError> {
    let mut ranks = RankedRecordings { members: Vec::new(), whole: false };
    let mut at = MAGIC.len() as u64;
    loop {
        let mut found = [0; FRAME];
        if (FileSlice { file, at, left: length.saturating_sub(at) }).read_exact(&mut found).is_err()
        {
            break;
        }
        at += FRAME as u64;
        let four = [found[4], found[5], found[6], found[7]];
        let label_length = u32::from_le_bytes(four);
        let mut eight = [0; 8];
        eight.copy_from_slice(&found[8..16]);
        let bytes = u64::from_le_bytes(eight);
        if label_length > LABEL_LIMIT {
            return Err(RecordingReadError::Damaged("a rank's label of an impossible length"));
        }
        let mut label = vec![0; label_length as usize];
        if (FileSlice { file, at, left: length.saturating_sub(at) }).read_exact(&mut label).is_err()
        {
            break;
        }
        at += u64::from(label_length);
        let (Ok(kind), Some(end)) = (<&[u8; 4]>::try_from(&found[..4]), at.checked_add(bytes))
        else {
            return Err(RecordingReadError::Damaged("a rank's recording of an impossible length"));
        };
        if frame(kind, label_length, bytes, &label) != found {
            return Err(RecordingReadError::Damaged("a rank's label with a wrong checksum"));
        }
        if kind == END {
            ranks.whole = bytes == ranks.members.len() as u64;
            break;
        }
        let Ok(rank) = serde_json::from_slice(&label) else {
            return Err(RecordingReadError::Damaged("an unreadable label of a rank"));
        };
        let left = length.saturating_sub(at);
        let file = Arc::clone(file);
        ranks.members.push(RankRecording { rank, file, at, bytes: bytes.min(left) });
        at = end;
    }
    // Lookups rely on the order.
    ranks.members.sort_by_key(|member| member.rank.rank);
    let twice = |pair: &[RankRecording]| pair[0].rank.rank == pair[1].rank.rank;
    if ranks.members.windows(2).any(twice) {
        return Err(RecordingReadError::Damaged("a rank that is there twice"));
    }
    Ok(ranks)
}

/// Some bytes of a file, read by offsets of their own.
struct FileSlice<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for FileSlice<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let got = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += got as u64;
        self.left -= got as u64;
        Ok(got)
    }
}
