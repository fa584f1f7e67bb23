//! A block of an xz image: a whole .xz file of one block (the xz file format, 1.2.1), as the kernel
//! reads it: LZMA2, and before it at most one filter that turns jumps of machine code back
//! (mksquashfs's `-Xbcj`).
//!
//! The file says how large a dictionary it wants, up to 4 GiB. So its few fields are read here, and
//! only the stream in it is left to the decompressor.

use std::io::Read;

use lzma_rust2::Lzma2Reader;
use lzma_rust2::filter::bcj::BcjReader;

use super::decompress::{needed_dictionary, read_block};

const MAGIC: &[u8] = b"\xfd7zXZ\0";
const END_MAGIC: &[u8] = b"YZ";
/// Bytes of the header, and of the footer.
const HEADER: usize = 12;
/// Filter numbers: those for machine code are 4 to 11.
const LZMA2: u64 = 0x21;
/// The largest dictionary's number.
const DICTIONARY_MAX: u8 = 40;

/// What a block's header says.
struct XzFilters {
    /// The filter for machine code, and where the code is said to begin.
    code: Option<(u64, u32)>,
    /// Bytes.
    dictionary: u32,
}

/// Unpacks a file into a block that has room for all of it; says how many bytes it has.
pub(super) fn unpack(packed: &[u8], block: &mut [u8]) -> Option<usize> {
    let (header, rest) = packed.split_at_checked(HEADER)?;
    let flags = header.strip_prefix(MAGIC)?.get(..2)?;
    let check = check_length(*flags.get(1)?)?;
    if flags[0] != 0 || !sum_is(flags, &header[8..]) {
        return None;
    }
    let (filters, stream) = block_header(rest)?;
    let dictionary = needed_dictionary(filters.dictionary, block.len());
    let (length, after) = match filters.code {
        None => {
            let mut reader = Lzma2Reader::new(stream, dictionary, None);
            (read_block(&mut reader, block)?, reader.into_inner())
        }
        Some((filter, start)) => {
            let reader = Lzma2Reader::new(stream, dictionary, None);
            let mut reader = code_reader(reader, filter, start as usize)?;
            (read_block(&mut reader, block)?, reader.into_inner().into_inner())
        }
    };
    // The stream ends at a multiple of four bytes, with a sum of what was packed.
    let used = rest.len() - after.len();
    let after = after.get(used.next_multiple_of(4) - used..)?;
    let (sum, index) = after.split_at_checked(check)?;
    // mksquashfs writes CRC32; the others are left to those who make other images.
    let is_right = check != 4 || sum_is(&block[..length], sum);
    (is_right && ends(index, flags)).then_some(length)
}

fn code_reader<R: Read>(inner: R, filter: u64, start: usize) -> Option<BcjReader<R>> {
    Some(match filter {
        4 => BcjReader::new_x86(inner, start),
        5 => BcjReader::new_ppc(inner, start),
        6 => BcjReader::new_ia64(inner, start),
        7 => BcjReader::new_arm(inner, start),
        8 => BcjReader::new_arm_thumb(inner, start),
        9 => BcjReader::new_sparc(inner, start),
        10 => BcjReader::new_arm64(inner, start),
        11 => BcjReader::new_riscv(inner, start),
        _ => return None,
    })
}

/// Bytes of the sum behind a block, by the number of its kind.
fn check_length(kind: u8) -> Option<usize> {
    match kind {
        0 => Some(0),
        1 => Some(4),
        4 => Some(8),
        10 => Some(32),
        _ => None,
    }
}

/// Whether these four bytes are the CRC32 of those.
fn sum_is(of: &[u8], sum: &[u8]) -> bool {
    sum == crc32fast::hash(of).to_le_bytes()
}

/// A block's filters, and what is behind its header.
fn block_header(from: &[u8]) -> Option<(XzFilters, &[u8])> {
    // Nought would begin the index: there is no block.
    let size = from.first().filter(|size| **size != 0)?;
    let (header, stream) = from.split_at_checked((usize::from(*size) + 1) * 4)?;
    let (fields, sum) = header.split_at_checked(header.len() - 4)?;
    if !sum_is(fields, sum) {
        return None;
    }
    let mut fields = fields.get(1..)?;
    let (flags, rest) = fields.split_first()?;
    fields = rest;
    if flags & 0x3c != 0 {
        return None;
    }
    // How long it is, packed and not: what is read shows it.
    for is_given in [flags & 0x40 != 0, flags & 0x80 != 0] {
        if is_given {
            number(&mut fields)?;
        }
    }
    let mut filters = XzFilters { code: None, dictionary: 0 };
    let last = flags & 3;
    for place in 0..=last {
        let filter = number(&mut fields)?;
        let length = usize::try_from(number(&mut fields)?).ok()?;
        let (properties, rest) = fields.split_at_checked(length)?;
        fields = rest;
        match (filter, properties) {
            (LZMA2, [size]) if place == last => filters.dictionary = dictionary(*size)?,
            (4..=11, []) if place == 0 && place < last => filters.code = Some((filter, 0)),
            (4..=11, [a, b, c, d]) if place == 0 && place < last => {
                filters.code = Some((filter, u32::from_le_bytes([*a, *b, *c, *d])));
            }
            _ => return None,
        }
    }
    fields.iter().all(|byte| *byte == 0).then_some((filters, stream))
}

fn dictionary(size: u8) -> Option<u32> {
    match size {
        DICTIONARY_MAX => Some(u32::MAX),
        0..DICTIONARY_MAX => Some((2 | u32::from(size & 1)) << (size / 2 + 11)),
        _ => None,
    }
}

/// A number of the format: seven bits a byte, the lowest first.
fn number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..9 {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Whether a file ends with this: an index, and a footer that knows it.
fn ends(from: &[u8], flags: &[u8]) -> bool {
    let Some((index, footer)) = from.len().checked_sub(HEADER).map(|at| from.split_at(at)) else {
        return false;
    };
    let (sum, known) = footer.split_at(4);
    let Some(known) = known.strip_suffix(END_MAGIC) else { return false };
    let size = known.first_chunk::<4>().map_or(0, |size| u64::from(u32::from_le_bytes(*size)));
    let Some((fields, index_sum)) = index.len().checked_sub(4).map(|at| index.split_at(at)) else {
        return false;
    };
    sum_is(known, sum)
        && known.ends_with(flags)
        && (size + 1) * 4 == index.len() as u64
        && sum_is(fields, index_sum)
}
