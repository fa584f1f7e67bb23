//! One thread's work: reads pieces of files, and compresses what is in them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::Sender;

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::feed::{Feed, Piece, PieceWork};
use crate::SquashWriteError;
use crate::squash::Compression;
use crate::squash::compression::Packer;
use crate::squash::format::DATA_STORED;
use crate::tree::FileNodeId;

/// SHA-256.
pub(crate) type Hash = [u8; 32];

/// What a thread has done.
pub(crate) enum PieceDone {
    /// A piece was read.
    Piece(Ready),
    /// A fragment block was compressed.
    Fragment(u32, PackedBlock),
}

/// A piece that was read.
pub(crate) struct Ready {
    pub number: u64,
    pub file: FileNodeId,
    /// How many bytes it had in the file.
    pub length: u64,
    pub is_first: bool,
    pub is_last: bool,
    pub content: PieceContent,
    /// Of its bytes, where the file may have a twin.
    pub hash: Option<Hash>,
    /// What the file begins as, in its first piece.
    pub start: Option<KnownStart>,
}

/// What a file begins as, where whoever packs it wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownStart {
    Elf,
    /// Bytecode that Python takes without a look at its source (an unchecked hash, PEP 552).
    UncheckedBytecode,
}

impl KnownStart {
    fn of(bytes: &[u8]) -> Option<KnownStart> {
        match bytes {
            [0x7f, b'E', b'L', b'F', ..] => Some(KnownStart::Elf),
            // The version, which ends so whatever it is, and the flags.
            [_, _, b'\r', b'\n', 1, 0, 0, 0, ..] => Some(KnownStart::UncheckedBytecode),
            _ => None,
        }
    }
}

/// What was read.
pub(crate) enum PieceContent {
    /// A whole small file: it goes into a fragment block.
    Small(Vec<u8>),
    /// Blocks of a larger one.
    Blocks(Vec<PackedBlock>),
    /// The file may not be read, and is left out.
    Unreadable,
}

/// A block as it is in the image.
pub(crate) struct PackedBlock {
    pub bytes: Vec<u8>,
    /// How its size is written in the image; 0 for nothing but zeros.
    pub size: u32,
    /// How many bytes it stands for, if it is nothing but zeros.
    pub hole: u64,
}

impl PackedBlock {
    pub(crate) fn pack(packer: &mut Packer, block: Vec<u8>) -> io::Result<PackedBlock> {
        Ok(match packer.pack(&block)? {
            Some(packed) => PackedBlock { size: packed.len() as u32, bytes: packed, hole: 0 },
            None => PackedBlock { size: block.len() as u32 | DATA_STORED, bytes: block, hole: 0 },
        })
    }

    fn hole(length: u64) -> PackedBlock {
        PackedBlock { bytes: Vec::new(), size: 0, hole: length }
    }
}

/// What each thread knows.
#[derive(Clone, Copy)]
pub(crate) struct PieceSettings {
    pub compression: Compression,
    pub level: i32,
    pub block_size: u32,
    pub skip_unreadable: bool,
}

/// Works until there is nothing left, or nobody takes what is done.
pub(crate) fn work(
    feed: &Feed<'_>,
    how: PieceSettings,
    results: &Sender<Result<PieceDone, SquashWriteError>>,
) {
    let mut packer = match Packer::new(how.compression, how.level) {
        Ok(packer) => packer,
        Err(source) => {
            let path = std::path::PathBuf::from(how.compression.name());
            let _ = results.send(Err(SquashWriteError::At { operation: "compress", path, source }));
            return;
        }
    };
    while let Some(work) = feed.next() {
        let done = match work {
            PieceWork::Read(piece) => read(&piece, how, &mut packer).map(PieceDone::Piece),
            PieceWork::Fragment(number, block) => {
                let path = std::path::Path::new("a block");
                PackedBlock::pack(&mut packer, block)
                    .map(|block| PieceDone::Fragment(number, block))
                    .map_err(SquashWriteError::at("compress", path))
            }
        };
        if results.send(done).is_err() {
            return;
        }
    }
}

fn read(piece: &Piece, how: PieceSettings, packer: &mut Packer) -> Result<Ready, SquashWriteError> {
    let source = &*piece.source;
    let ready = |content, hash, start| Ready {
        number: piece.number,
        file: piece.file,
        length: piece.length,
        is_first: piece.is_first,
        is_last: piece.is_last,
        content,
        hash,
        start,
    };
    let bytes = match &source.given {
        Some(given) => {
            let (start, end) = (piece.at as usize, (piece.at + piece.length) as usize);
            Some(given[start..end].to_vec())
        }
        None => match from_disk(piece, how)? {
            Some(bytes) => bytes,
            None => return Ok(ready(PieceContent::Unreadable, None, None)),
        },
    };
    let start = bytes.as_deref().filter(|_| piece.is_first).and_then(KnownStart::of);
    let hash = source.has_twin.then(|| match &bytes {
        Some(bytes) => Sha256::digest(bytes).into(),
        // Whether zeros were read or known does not matter.
        None => zeros(piece.length),
    });
    Ok(ready(content(bytes, piece, how.block_size as usize, packer)?, hash, start))
}

/// The bytes of a piece as [`bytes`] says; none where the file may not be read and is left out.
fn from_disk(
    piece: &Piece,
    how: PieceSettings,
) -> Result<Option<Option<Vec<u8>>>, SquashWriteError> {
    let source = &*piece.source;
    let file = match source.opened.get_or_init(|| open(piece)) {
        Ok(file) => file,
        Err(Errno::ACCESS) if how.skip_unreadable => return Ok(None),
        // A symbolic link took its place, or nothing did.
        Err(Errno::LOOP | Errno::NOENT) => {
            return Err(SquashWriteError::Changed(source.path.clone()));
        }
        Err(error) => return Err(SquashWriteError::at("open", &source.path)(*error)),
    };
    let bytes = patched(bytes(file, piece)?, piece)?;
    let is_same = source.attributes.still_hold(file, source.size);
    match is_same.map_err(SquashWriteError::at("stat", &source.path))? {
        true => Ok(Some(bytes)),
        false => Err(SquashWriteError::Changed(source.path.clone())),
    }
}

/// The bytes of a piece as they are in the image.
fn patched(mut bytes: Option<Vec<u8>>, piece: &Piece) -> Result<Option<Vec<u8>>, SquashWriteError> {
    let all = piece.source.patches.as_deref().unwrap_or_default();
    for patch in all.iter().filter(|patch| patch.concerns(piece.at, piece.length)) {
        let bytes = bytes.get_or_insert_with(|| vec![0; piece.length as usize]);
        if !patch.apply(piece.at, bytes) {
            return Err(SquashWriteError::Changed(piece.source.path.clone()));
        }
    }
    Ok(bytes)
}

/// The bytes of a piece; none where it is nothing but a hole.
fn bytes(file: &File, piece: &Piece) -> Result<Option<Vec<u8>>, SquashWriteError> {
    let source = &*piece.source;
    if source.has_holes && is_hole(file, piece) {
        return Ok(None);
    }
    let mut bytes = vec![0; piece.length as usize];
    match file.read_exact_at(&mut bytes, piece.at) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(SquashWriteError::Changed(source.path.clone()))
        }
        read => read.map(|()| Some(bytes)).map_err(SquashWriteError::at("read", &source.path)),
    }
}

/// The same as it goes into the image.
fn content(
    bytes: Option<Vec<u8>>,
    piece: &Piece,
    block_size: usize,
    packer: &mut Packer,
) -> Result<PieceContent, SquashWriteError> {
    let is_small = piece.source.size < block_size as u64;
    let Some(bytes) = bytes else {
        if is_small {
            return Ok(PieceContent::Small(vec![0; piece.length as usize]));
        }
        let starts = (0..piece.length).step_by(block_size);
        let length = |start: u64| (piece.length - start).min(block_size as u64);
        return Ok(PieceContent::Blocks(
            starts.map(|start| PackedBlock::hole(length(start))).collect(),
        ));
    };
    if is_small {
        return Ok(PieceContent::Small(bytes));
    }
    let pack = |block: &[u8]| match block.iter().all(|byte| *byte == 0) {
        true => Ok(PackedBlock::hole(block.len() as u64)),
        false => PackedBlock::pack(packer, block.to_vec()),
    };
    let blocks = bytes.chunks(block_size).map(pack).collect::<io::Result<Vec<_>>>();
    Ok(PieceContent::Blocks(blocks.map_err(SquashWriteError::at("compress", &piece.source.path))?))
}

fn open(piece: &Piece) -> Result<File, Errno> {
    // Never waits for the other end of a pipe that took the file's place.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(&piece.source.path, flags, Mode::empty()).map(File::from)
}

/// Whether the filesystem knows that a piece is nothing but a hole.
fn is_hole(file: &File, piece: &Piece) -> bool {
    match rustix::fs::seek(file, SeekFrom::Data(piece.at)) {
        Ok(data) => data >= piece.at + piece.length,
        Err(Errno::NXIO) => true,
        Err(_) => false,
    }
}

fn zeros(length: u64) -> Hash {
    let mut hash = Sha256::new();
    let zeros = [0; 4096];
    let mut rest = length as usize;
    while rest > 0 {
        let part = rest.min(zeros.len());
        hash.update(&zeros[..part]);
        rest -= part;
    }
    hash.finalize().into()
}
