//! Writes a SIF, byte for byte the same from the same parts.
//!
//! What siftool leaves to chance and to the clock is given or made from the content: the time is
//! the caller's, the UUID a hash. The rest is laid out as siftool lays it out: 48 descriptors,
//! all of one group, partitions at multiples of 4096.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

use super::format::{
    ALIGNMENT, Arch, CAPACITY, DATA, DESCRIPTOR, Descriptor, EXTRA, GROUP, LAUNCH, MAGIC, NAME,
    Partition, Role, SifHeader, SifObjectKind, TABLE, VERSION,
};
use super::reader::SifObject;
use super::sparse::{Chunk, Chunks};

/// The group that all objects of a new image belong to, as siftool has it.
const ONLY_GROUP: u32 = 1;

/// Why a SIF was not written.
#[derive(Debug, thiserror::Error)]
pub enum SifWriteError {
    /// The table of a SIF has 48 places.
    #[error("{0} objects: a SIF has places for {CAPACITY}")]
    TooMany(usize),
    /// One root is what a container is started in.
    #[error("more than one primary system")]
    TwoPrimaries,
    /// A name does not fit its field.
    #[error("the name '{0}' of an object is longer than {NAME} bytes")]
    LongName(String),
    /// A part became shorter while it was read.
    #[error("part {0} became shorter while it was read")]
    Shrunk(usize),
    /// Reading a part or writing the image failed.
    #[error("part {part}: {operation}: {error}")]
    Call {
        /// The number of the part, from 1; 0 for the image itself.
        part: usize,
        /// What was done.
        operation: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// Where a part's bytes come from.
#[derive(Debug)]
enum PartContent<'a> {
    /// Memory.
    Bytes(&'a [u8]),
    /// A file, or a part of one: an object of another SIF, for example. Holes stay holes.
    File {
        /// The file, open for reading.
        file: &'a File,
        /// Where the part begins in it, in bytes.
        offset: u64,
        /// How many bytes it has.
        size: u64,
    },
    /// The image itself: so many bytes are where they belong already.
    InPlace(u64),
}

/// A data object to be.
#[derive(Debug)]
pub struct SifPart<'a> {
    kind: SifObjectKind,
    name: &'a str,
    content: PartContent<'a>,
    extra: [u8; EXTRA],
}

impl<'a> SifPart<'a> {
    /// Text or JSON from memory. Its name has at most 128 bytes, and may be empty.
    pub fn of_bytes(kind: SifObjectKind, name: &'a str, bytes: &'a [u8]) -> SifPart<'a> {
        SifPart { kind, name, content: PartContent::Bytes(bytes), extra: [0; EXTRA] }
    }

    /// A partition: all of a file that holds a filesystem.
    ///
    /// # Errors
    /// Those of asking for the file's size.
    pub fn of_image(
        file: &'a File,
        name: &'a str,
        partition: Partition,
    ) -> io::Result<SifPart<'a>> {
        let content = PartContent::File { file, offset: 0, size: file.metadata()?.len() };
        Ok(SifPart { kind: SifObjectKind::Partition, name, content, extra: partition.extra() })
    }

    /// A partition that was written into the image already, at [`next_partition`].
    pub fn in_place(size: u64, partition: Partition) -> SifPart<'static> {
        let content = PartContent::InPlace(size);
        SifPart { kind: SifObjectKind::Partition, name: "", content, extra: partition.extra() }
    }

    /// An object of the SIF in `file`, as it is there but for number, group, link and times.
    pub fn of_object(object: &'a SifObject, file: &'a File) -> SifPart<'a> {
        let content = PartContent::File { file, offset: object.offset, size: object.size };
        SifPart { kind: object.kind, name: &object.name, content, extra: *object.extra }
    }

    pub(super) fn partition(&self) -> Option<Partition> {
        (self.kind == SifObjectKind::Partition).then(|| Partition::parse(&self.extra))
    }

    fn size(&self) -> u64 {
        match self.content {
            PartContent::Bytes(bytes) => bytes.len() as u64,
            PartContent::File { size, .. } | PartContent::InPlace(size) => size,
        }
    }

    fn alignment(&self) -> u64 {
        if self.kind == SifObjectKind::Partition { ALIGNMENT } else { 1 }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug)]
pub struct WrittenSif {
    /// The image's number.
    pub uuid: [u8; 16],
    /// Bytes of the file.
    pub size: u64,
}

/// Writes the parts, in their order, as a SIF into `out`, an empty file open for writing.
/// `created` is what all times in it say, in seconds since 1970.
///
/// Overlays are laid over the root in the order of the parts: the last one is on top. apptainer
/// takes at most one that can be written to (ext3).
///
/// # Errors
/// Where the parts cannot make a SIF, or reading or writing fails. `out` is then of no use.
pub fn write(out: &File, parts: &[SifPart<'_>], created: i64) -> Result<WrittenSif, SifWriteError> {
    write_telling(out, parts, created, &|_, _| {})
}

/// As [`write()`]; `tell` is told how many bytes are done, of how many.
///
/// # Errors
/// As [`write()`].
pub fn write_telling(
    out: &File,
    parts: &[SifPart<'_>],
    created: i64,
    tell: &dyn Fn(u64, u64),
) -> Result<WrittenSif, SifWriteError> {
    check(parts)?;
    let mut hash = Sha256::new();
    let mut descriptors = Vec::new();
    let mut end = DATA;
    let of = parts.iter().map(SifPart::size).sum();
    let mut done = 0;
    for (number, part) in (1..).zip(parts) {
        let offset = end.next_multiple_of(part.alignment());
        copy(out, number, part, offset, &mut hash, &|at| tell(done + at, of))?;
        done += part.size();
        descriptors.push(descriptor(number, part, offset, end, created).bytes());
        end = offset + part.size();
    }
    let mut table = descriptors.concat();
    hash.update(&table);
    let uuid = uuid(hash);
    table.resize(CAPACITY * DESCRIPTOR, 0);

    let header = header(parts, uuid, created, end).bytes();
    let whole = || {
        out.write_all_at(&header, 0)?;
        out.write_all_at(&table, TABLE)?;
        // A hole at the end, or parts without any byte.
        out.set_len(end)
    };
    let failed = |error| SifWriteError::Call { part: 0, operation: "write the image", error };
    whole().map_err(failed)?;
    Ok(WrittenSif { uuid, size: end })
}

/// Where in the image a partition begins that comes after these parts.
pub fn next_partition(parts: &[SifPart<'_>]) -> u64 {
    let end =
        parts.iter().fold(DATA, |end, part| end.next_multiple_of(part.alignment()) + part.size());
    end.next_multiple_of(ALIGNMENT)
}

fn check(parts: &[SifPart<'_>]) -> Result<(), SifWriteError> {
    if parts.len() > CAPACITY {
        return Err(SifWriteError::TooMany(parts.len()));
    }
    if parts.iter().filter(|part| is_primary(part)).count() > 1 {
        return Err(SifWriteError::TwoPrimaries);
    }
    match parts.iter().find(|part| part.name.len() > NAME) {
        Some(part) => Err(SifWriteError::LongName(part.name.to_owned())),
        None => Ok(()),
    }
}

fn is_primary(part: &SifPart<'_>) -> bool {
    part.partition().is_some_and(|partition| partition.role == Role::PrimarySystem)
}

/// Copies a part's bytes to `offset`, without those that are zero, which are there already.
fn copy(
    out: &File,
    number: usize,
    part: &SifPart<'_>,
    offset: u64,
    hash: &mut Sha256,
    tell: &dyn Fn(u64),
) -> Result<(), SifWriteError> {
    let failed = |operation| move |error| SifWriteError::Call { part: number, operation, error };
    let mut take = |chunk: Chunk<'_>, is_there: bool| {
        hash.update(chunk.at.to_le_bytes());
        hash.update(chunk.bytes);
        tell(chunk.at);
        match is_there {
            true => Ok(()),
            false => out.write_all_at(chunk.bytes, offset + chunk.at).map_err(failed("write")),
        }
    };
    let (mut chunks, is_there) = match part.content {
        PartContent::Bytes(bytes) => return take(Chunk { at: 0, bytes }, false),
        PartContent::File { file, offset, size } => (Chunks::of(file, offset, size), false),
        PartContent::InPlace(size) => (Chunks::of(out, offset, size), true),
    };
    loop {
        match chunks.next() {
            Ok(Some(chunk)) => take(chunk, is_there)?,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(SifWriteError::Shrunk(number));
            }
            Err(error) => return Err(failed("read")(error)),
        }
    }
}

fn descriptor(
    number: usize,
    part: &SifPart<'_>,
    offset: u64,
    end_of_last: u64,
    created: i64,
) -> Descriptor {
    let mut name = [0; NAME];
    name[..part.name.len()].copy_from_slice(part.name.as_bytes());
    Descriptor {
        kind: part.kind.number(),
        used: 1,
        id: number as u32,
        group: GROUP | ONLY_GROUP,
        link: 0,
        offset: offset as i64,
        size: part.size() as i64,
        size_with_padding: (offset - end_of_last + part.size()) as i64,
        created,
        modified: created,
        owner: [0; 2],
        name,
        extra: part.extra,
    }
}

fn header(parts: &[SifPart<'_>], uuid: [u8; 16], created: i64, end: u64) -> SifHeader {
    let mut launch = [0; 32];
    launch[..LAUNCH.len()].copy_from_slice(LAUNCH);
    let primary = parts.iter().find(|part| is_primary(part)).and_then(SifPart::partition);
    SifHeader {
        launch,
        magic: *MAGIC,
        version: *VERSION,
        arch: primary.map_or(Arch::UNKNOWN, |partition| partition.arch).field(),
        uuid,
        created,
        modified: created,
        descriptors_free: (CAPACITY - parts.len()) as i64,
        descriptors_total: CAPACITY as i64,
        descriptors_offset: TABLE as i64,
        descriptors_size: (CAPACITY * DESCRIPTOR) as i64,
        data_offset: DATA as i64,
        data_size: (end - DATA) as i64,
    }
}

/// A UUID of version 8, made from a hash as RFC 9562, B.2 makes one.
pub(crate) fn uuid(hash: Sha256) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&hash.finalize()[..16]);
    uuid[6] = 0x80 | (uuid[6] & 0x0f);
    uuid[8] = 0x80 | (uuid[8] & 0x3f);
    uuid
}
