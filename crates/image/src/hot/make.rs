//! A hot part made of an image, or received from another node.

use std::fs::{Permissions, remove_file};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use image_format::ReadAt;
use image_format::ext3::Ext3Facts;
use launch::Unfinished;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::error::{HotPartError, file};
use super::format::{self, HotHeader, PIECE};
use super::identity::identity;
use super::part::{HotFile, HotPart};
use super::place::{self, HotPlace};
use super::ranges;
use crate::mount::plan::{self, OpenedImage};

/// Its owner's alone: an image need not be for everybody.
const MODE: u32 = 0o600;

/// A hot part under a name of its own, which goes again unless it is kept.
pub struct UnnamedHotPart {
    file: NamedTempFile,
    unfinished: Unfinished,
    /// The name that it is to have in this job.
    target: PathBuf,
    /// It, opened.
    pub part: HotPart,
}

impl UnnamedHotPart {
    /// Where it is for now.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The name that it is to have in this job, in its directory.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Gives it its name, in place of what has it.
    ///
    /// # Errors
    /// Those of renaming it.
    pub fn keep(self) -> Result<PathBuf, HotPartError> {
        let UnnamedHotPart { file: made, unfinished, target, .. } = self;
        let step = || made.persist(&target).map_err(|error| error.error);
        unfinished.finish(step).map_err(file(&target, "rename to it"))?;
        Ok(target)
    }
}

/// Makes the hot part of an image, in the first of these places that has room: what its trace read, at
/// most so many bytes of content, or `all` of it.
///
/// # Errors
/// [`HotPartError`]. Nothing is left then.
pub fn make(
    image: &Path,
    among: &[HotPlace],
    all: bool,
    most: u64,
) -> Result<UnnamedHotPart, HotPartError> {
    // Before anything is opened here: it says no to what would have to be waited for.
    let OpenedImage { layers, is_sif, .. } = plan::layers(image)?;
    let opened = std::fs::File::open(image).map_err(file(image, "open"))?;
    // An ext3 is shown as if it were a squashfs, and has other places for what it holds.
    if !is_sif && Ext3Facts::read(&opened).map_err(file(image, "read"))?.is_some() {
        let mut magic = [0; 4];
        ReadAt::read_exact_at(&opened, &mut magic, 0).map_err(file(image, "read"))?;
        if &magic != b"hsqs" {
            return Err(HotPartError::Ext3(image.to_owned()));
        }
    }
    let look = || opened.metadata().map_err(file(image, "look at"));
    let there = look()?;
    for layer in &layers {
        let read = layer.file.metadata().map_err(file(image, "look at"))?;
        if identity(&read) != identity(&there) {
            return Err(HotPartError::Changed(image.to_owned()));
        }
    }
    let ranges = ranges::hot(image, there.len(), &layers, all, most)?;
    let header = HotHeader { identity: identity(&there), size: there.len(), ranges };
    let hot = layers.first().and_then(|layer| layer.hot.clone());
    let source = HotFile { file: &opened, hot: hot.as_deref() };
    let whole = header.content() + header.bytes();
    let (made, unfinished) =
        begin(&HotPlace::with_room(among, whole, &header.identity)?, &header.identity)?;
    write(&header, &source, image, &made)?;
    let now = look()?;
    if identity(&now) != header.identity {
        return Err(HotPartError::Changed(image.to_owned()));
    }
    finished(made, unfinished)
}

/// Copies the content piece by piece, and writes the header last: without it, it is none.
fn write(
    header: &HotHeader,
    source: &HotFile<'_>,
    image: &Path,
    made: &NamedTempFile,
) -> Result<(), HotPartError> {
    let wrong = |error| file(made.path(), "write")(error);
    let (mut piece, mut digests) = (Vec::with_capacity(PIECE as usize), Vec::new());
    let mut at = header.content();
    let mut flush = |piece: &mut Vec<u8>| {
        digests.extend_from_slice(&Sha256::digest(&piece[..]));
        made.as_file().write_all_at(piece, at).map_err(wrong)?;
        at += piece.len() as u64;
        piece.clear();
        Ok::<(), HotPartError>(())
    };
    for range in &header.ranges {
        let (mut from, end) = (range.offset, range.offset + range.length);
        while from < end {
            let (old, room) = (piece.len(), PIECE - piece.len() as u64);
            let length = room.min(end - from);
            piece.resize(old + length as usize, 0);
            source.read_exact_at(&mut piece[old..], from).map_err(file(image, "read"))?;
            from += length;
            if piece.len() as u64 == PIECE {
                flush(&mut piece)?;
            }
        }
    }
    if !piece.is_empty() {
        flush(&mut piece)?;
    }
    made.as_file().write_all_at(&header.encode(&digests).0, 0).map_err(wrong)
}

/// Takes a hot part from a stream that another node sends, in the first of these places that has
/// room, and holds all of it against its digests.
///
/// # Errors
/// [`HotPartError`]. Nothing is left then.
pub fn receive(from: &mut dyn Read, among: &[HotPlace]) -> Result<UnnamedHotPart, HotPartError> {
    let stream = || PathBuf::from("what is received");
    let damaged = |why: &str| HotPartError::Damaged { path: stream(), why: why.to_owned() };
    let begun = format::announced(from).map_err(|why| damaged(&why))?;
    // One of this job that cannot be used keeps room.
    for place in HotPlace::ALL {
        let old = place.directory().join(place::name(&begun.identity));
        if matches!(HotPart::open(&old), Err(HotPartError::Damaged { .. })) {
            let _ = remove_file(old);
        }
    }
    let (made, unfinished) =
        begin(&HotPlace::with_room(among, begun.whole, &begun.identity)?, &begun.identity)?;
    let wrong = |error| file(made.path(), "write")(error);
    let mut out = made.as_file();
    out.write_all(&begun.start).map_err(wrong)?;
    let mut left = begun.whole - begun.start.len() as u64;
    let mut buffer = vec![0; PIECE as usize];
    while left > 0 {
        let most = buffer.len().min(left.try_into().unwrap_or(usize::MAX));
        match from.read(&mut buffer[..most]) {
            Ok(0) => return Err(damaged(&format!("{left} bytes of {} are missing", begun.whole))),
            Ok(got) => {
                out.write_all(&buffer[..got]).map_err(wrong)?;
                left -= got as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(file(stream(), "read")(error)),
        }
    }
    // Whoever sends more sent something else as well.
    if io::copy(&mut from.take(1), &mut io::sink()).map_err(file(stream(), "read"))? > 0 {
        return Err(damaged("more follows than it says"));
    }
    let received = finished(made, unfinished)?;
    received.part.check()?;
    Ok(received)
}

fn begin(directory: &Path, identity: &str) -> Result<(NamedTempFile, Unfinished), HotPartError> {
    let make = || {
        tempfile::Builder::new()
            .prefix(&place::unfinished(identity))
            .permissions(Permissions::from_mode(MODE))
            .tempfile_in(directory)
    };
    Unfinished::begin(make, |path| remove_file(path)).map_err(file(directory, "write a file in"))
}

fn finished(
    mut made: NamedTempFile,
    unfinished: Unfinished,
) -> Result<UnnamedHotPart, HotPartError> {
    let part = HotPart::open(made.path())?;
    let directory = made.path().parent().unwrap_or(Path::new("/"));
    let target = directory.join(place::name(part.identity()));
    made.as_file_mut().seek(SeekFrom::Start(0)).map_err(file(&target, "read"))?;
    Ok(UnnamedHotPart { file: made, unfinished, target, part })
}
