//! What an image of becalm's says of itself: a trailer behind the squashfs.
//!
//! Readers of squashfs stop at the number of bytes that its superblock names, so the trailer
//! changes nothing in the tree. It begins at the next multiple of 4 KiB: a line of text
//! (`becalm-image 1 LENGTH CRC32`), and LENGTH bytes of JSON whose checksum that is.

use image_format::ReadAt;
use image_format::squash::{SquashImage, SquashReadError};
use image_format::tree::{Fingerprint, ImageLayout};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OutsideReference;
use crate::heal::{BoundSource, ReplaceableLibrary};

/// Before version and length.
const MAGIC: &str = "becalm-image 1 ";
/// No manifest is longer.
const MOST: usize = 16 << 20;
/// No first line is longer.
const LINE: usize = 64;

/// What an image says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// What it was made of, and where it belongs.
    pub layout: ImageLayout,
    /// What the sources looked like.
    pub fingerprint: Fingerprint,
    /// What the order of its files comes from; none: they are ordered by path.
    pub trace: Option<String>,
    /// The working directory of the command that the order comes from; none: it comes from a recording, or
    /// nobody noted it.
    #[serde(default)]
    pub traced_in: Option<String>,
    /// The words by which the traced command is known again: its program, and what follows up to the
    /// first word that is no option; none: nobody knows.
    #[serde(default)]
    pub command: Vec<String>,
    /// How many files come in that order.
    pub traced: u64,
    /// Bytes from the start of the squashfs on that their content lies in; 0: nobody counted.
    #[serde(default)]
    pub front: u64,
    /// The parts of that which the trace used, as they begin and end; none: nobody knows.
    #[serde(default)]
    pub used: Vec<(u64, u64)>,
    /// Modules whose bytecode was compiled while it was packed: it is none of the sources'.
    #[serde(default)]
    pub healed: u64,
    /// Libraries that were bound while they were packed: their bytes are none of the sources'.
    #[serde(default)]
    pub bound: Vec<BoundSource>,
    /// Names that are bound in these, where the loader would have searched LD_LIBRARY_PATH before what
    /// they were found by.
    #[serde(default)]
    pub replaceable: Vec<ReplaceableLibrary>,
    /// Whether a PYTHONPATH was joined in it: what that made is none of the sources'.
    #[serde(default)]
    pub joined: bool,
    /// When anything last happened to what was packed (the newest ctime), in nanoseconds since
    /// 1970; 0: nobody looked.
    #[serde(default)]
    pub changed_ns: u64,
    /// The inodes of the packed paths, in their order; none: nobody looked.
    #[serde(default)]
    pub inodes: Vec<u64>,
    /// The inodes of bytecode in it that Python takes without a look at its source (an unchecked hash,
    /// PEP 552), sorted; null: nobody looked.
    #[serde(default)]
    pub unchecked: Option<Vec<u32>>,
    /// The inodes of files in it that the trace opened, sorted; null: nobody noted them, and they are
    /// those whose content begins within `front`.
    #[serde(default)]
    pub opened: Option<Vec<u32>>,
    /// What was used from it and lay outside, or the first of that.
    pub outside: Vec<OutsideReference>,
}

impl Manifest {
    /// What an image of becalm's says of itself; none of another's.
    ///
    /// # Errors
    /// Where the image cannot be read, or its manifest is damaged: nothing says then what the image
    /// stands for, and whether it is as its sources are.
    pub fn of(image: &SquashImage) -> Result<Option<Manifest>, SquashReadError> {
        let Some(trailer) = image.trailer()? else { return Ok(None) };
        let room = trailer.size()?;
        let mut line = vec![0; (LINE as u64).min(room) as usize];
        trailer.read_exact_at(&mut line, 0)?;
        if !Manifest::is_meant(&line) {
            return Ok(None);
        }
        let at = image.facts()?.bytes.next_multiple_of(4096);
        let damaged = || SquashReadError::Damaged { what: "what it says of its sources", at };
        let found = Manifest::decode_line(&line);
        let (begin, length, checksum) = found
            .filter(|(begin, length, _)| (begin + length) as u64 <= room)
            .ok_or_else(damaged)?;
        let mut json = vec![0; length];
        trailer.read_exact_at(&mut json, begin as u64)?;
        Manifest::decode(&json, checksum).ok_or_else(damaged).map(Some)
    }

    /// The trailer.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        let line = format!("{MAGIC}{} {}\n", json.len(), crc32fast::hash(&json));
        [line.as_bytes(), &json, b"\n"].concat()
    }

    /// Whether what is at a trailer's place was meant as one, also where a few of its bytes are
    /// others by now: that it says nothing must not be taken for an image of somebody else's.
    fn is_meant(start: &[u8]) -> bool {
        let same = start.iter().zip(MAGIC.as_bytes()).filter(|(there, meant)| there == meant);
        same.count() + 4 >= MAGIC.len()
    }

    /// From the start of what may be a trailer: where its JSON begins, its length and checksum.
    fn decode_line(start: &[u8]) -> Option<(usize, usize, u32)> {
        let end = start.iter().take(LINE).position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&start[..end]).ok()?.strip_prefix(MAGIC)?;
        let (length, checksum) = line.split_once(' ')?;
        let length = length.parse().ok().filter(|length| *length <= MOST)?;
        Some((end + 1, length, checksum.parse().ok()?))
    }

    /// The manifest, if this is one.
    fn decode(json: &[u8], checksum: u32) -> Option<Manifest> {
        (crc32fast::hash(json) == checksum).then(|| serde_json::from_slice(json).ok())?
    }
}
