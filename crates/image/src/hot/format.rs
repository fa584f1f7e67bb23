//! The file of a hot part: a line of text, `becalm-hot 1 LENGTH SHA256`; LENGTH bytes of JSON; the
//! SHA-256 of each piece of the content, which the first line's covers as well; and the
//! content, from the next multiple of 4 KiB on.

use std::io::Read;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::identity::hex;
use super::ranges::ByteRange;

/// Before length and digest.
const MAGIC: &str = "becalm-hot 1 ";
/// The first line is as long as this, filled up with blanks: where the content begins is known
/// before its digests are.
const LINE: u64 = 128;
/// No JSON is longer.
const MOST_JSON: u64 = 64 << 10;
/// Bytes that one digest is of: what is read of the image is read in pieces of about that size.
pub(super) const PIECE: u64 = 128 << 10;
/// Bytes of a digest.
pub(super) const DIGEST: u64 = 32;
/// No more content than that is believed: 64 GiB.
const MOST: u64 = 64 << 30;

/// What the header says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HotHeader {
    /// Which image's file, as it was ([`identity`](super::identity)).
    pub identity: String,
    /// How many bytes that has.
    pub size: u64,
    /// Which of them follow, in order.
    pub ranges: Vec<ByteRange>,
}

/// A header that was read, its digests, and where the content begins.
pub(super) struct DecodedHeader {
    pub header: HotHeader,
    pub digests: Vec<[u8; DIGEST as usize]>,
    pub content: u64,
    /// The digest of all that, and so of the content.
    pub digest: String,
}

impl HotHeader {
    /// How many bytes of the image follow.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().fold(0, |sum, range| sum.saturating_add(range.length))
    }

    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Where the content begins.
    pub fn content(&self) -> u64 {
        content(self.json().len() as u64, self.bytes())
    }

    /// All before the content, and its digest.
    pub fn encode(&self, digests: &[u8]) -> (Vec<u8>, String) {
        let json = self.json();
        let rest = [&json[..], digests].concat();
        let digest = hex(&Sha256::digest(&rest));
        let line = format!("{MAGIC}{} {digest}", json.len());
        let line = format!("{line:<width$}\n", width = LINE as usize - 1);
        ([line.as_bytes(), &rest].concat(), digest)
    }

    /// Whether its numbers can be true.
    fn is_possible(&self) -> bool {
        let mut before = 0;
        let is_next = |range: &ByteRange| {
            let is_next = range.length > 0 && range.offset >= before;
            before = range.end().unwrap_or(u64::MAX);
            is_next && before <= self.size
        };
        // It becomes a part of a file's name.
        let is_plain = self.identity.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_plain && self.ranges.iter().all(is_next) && self.bytes() <= MOST
    }
}

fn content(json: u64, bytes: u64) -> u64 {
    (LINE + json + bytes.div_ceil(PIECE) * DIGEST).next_multiple_of(4096)
}

/// Reads a header through `read`, which fills a buffer with what lies at an offset, of a file of
/// so many bytes. The words say what is wrong.
pub(super) fn decode(
    size: u64,
    mut read: impl FnMut(&mut [u8], u64) -> std::io::Result<()>,
) -> Result<DecodedHeader, String> {
    let mut fill = |length: u64, at: u64| {
        let mut bytes = vec![0; length as usize];
        read(&mut bytes, at).map(|()| bytes).map_err(|error| error.to_string())
    };
    if size < LINE {
        return Err("its header is not there".to_owned());
    }
    let line = fill(LINE, 0)?;
    let (length, digest) = first_line(&line).ok_or("its first line is not that of a hot part")?;
    if length > MOST_JSON || LINE + length > size {
        return Err("its header is cut".to_owned());
    }
    let json = fill(length, LINE)?;
    let header: HotHeader =
        serde_json::from_slice(&json).map_err(|_| "its header is damaged".to_owned())?;
    if !header.is_possible() {
        return Err("its header cannot be true".to_owned());
    }
    let content = content(length, header.bytes());
    // Nothing is allocated before the file is as long as the header says.
    match content + header.bytes() {
        whole if whole == size => {}
        whole => return Err(format!("it has {size} bytes of {whole}")),
    }
    let digests = fill(header.bytes().div_ceil(PIECE) * DIGEST, LINE + length)?;
    let mut hash = Sha256::new();
    hash.update(&json);
    hash.update(&digests);
    if hex(&hash.finalize()) != digest {
        return Err("its header is not as its digest says".to_owned());
    }
    let (digests, _) = digests.as_chunks();
    Ok(DecodedHeader { header, digests: digests.to_vec(), content, digest: digest.to_owned() })
}

/// The start of a hot part that comes through a stream.
pub(super) struct AnnouncedPart {
    /// What has been read of it.
    pub start: Vec<u8>,
    /// Bytes of all of it.
    pub whole: u64,
    pub identity: String,
}

/// Reads so much that it is known how much is to come. The words say what is wrong.
pub(super) fn announced(from: &mut dyn Read) -> Result<AnnouncedPart, String> {
    let mut start = vec![0; LINE as usize];
    from.read_exact(&mut start).map_err(|_| "its header is not there".to_owned())?;
    let (length, _) = first_line(&start).ok_or("its first line is not that of a hot part")?;
    if length > MOST_JSON {
        return Err("its header cannot be true".to_owned());
    }
    start.resize((LINE + length) as usize, 0);
    from.read_exact(&mut start[LINE as usize..]).map_err(|_| "its header is cut".to_owned())?;
    let header: HotHeader = serde_json::from_slice(&start[LINE as usize..])
        .map_err(|_| "its header is damaged".to_owned())?;
    if !header.is_possible() {
        return Err("its header cannot be true".to_owned());
    }
    let whole = content(length, header.bytes()) + header.bytes();
    Ok(AnnouncedPart { start, whole, identity: header.identity })
}

/// The length of the JSON, and the digest.
fn first_line(line: &[u8]) -> Option<(u64, &str)> {
    let words = std::str::from_utf8(line).ok()?.strip_prefix(MAGIC)?;
    let (length, digest) = words.trim_end().split_once(' ')?;
    Some((length.parse().ok()?, digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(file: &[u8]) -> Result<DecodedHeader, String> {
        decode(file.len() as u64, |buffer, at| {
            let there = file.get(at as usize..at as usize + buffer.len());
            buffer.copy_from_slice(there.ok_or(std::io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn file(header: &HotHeader) -> Vec<u8> {
        let digests = vec![7; (header.bytes().div_ceil(PIECE) * DIGEST) as usize];
        let mut file = header.encode(&digests).0;
        file.resize((header.content() + header.bytes()) as usize, 1);
        file
    }

    fn header(ranges: &[(u64, u64)]) -> HotHeader {
        let range = |(offset, length): &(u64, u64)| ByteRange { offset: *offset, length: *length };
        let ranges = ranges.iter().map(range).collect();
        HotHeader { identity: "17e".to_owned(), size: 1 << 20, ranges }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let written = header(&[(0, 200_000), (900_000, 1000)]);
        let read = decoded(&file(&written)).unwrap();
        assert_eq!((read.header, read.digests.len()), (written, 2));
    }

    #[test]
    fn a_header_that_was_cut_or_has_another_byte_anywhere_or_cannot_be_true_is_refused() {
        let whole = file(&header(&[(0, 5000)]));
        let end = whole.len();
        for cut in [0, 1, 127, 128, 150, 4096, end - 1] {
            assert!(decoded(&whole[..cut]).is_err(), "{cut}");
        }
        assert!(decoded(&[&whole[..], b"x"].concat()).is_err());
        let json = header(&[(0, 5000)]).json().len();
        for at in (0..MAGIC.len() + 60).chain(128..128 + json + 32) {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert!(decoded(&other).is_err(), "{at}");
        }
        for wrong in [&[(1000, 1000), (1500, 10)][..], &[(0, 1 << 30)], &[(u64::MAX, 2)], &[(5, 0)]]
        {
            let header = header(wrong);
            let file = header.encode(&[]).0;
            assert!(decoded(&file).is_err_and(|why| why.contains("cannot be true")), "{wrong:?}");
        }
    }
}
