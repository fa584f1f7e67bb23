//! The versions that an object asks of others (DT_VERNEED).

use ::object::Endianness;
use ::object::endian::Endian;

use super::texts::StringTable;
use super::{ElfError, VersionNeed};
use crate::source::ByteSource;

/// Both kinds of entries have 16 bytes, in 32-bit and 64-bit files.
const ENTRY: usize = 16;
/// Files and versions, all together. Large programs have some hundred.
const ENTRIES_LIMIT: usize = 16 << 10;

/// Reads `count` entries from offset `at` of the file. The entries are linked by distances,
/// which only go forward.
pub(super) fn needs(
    texts: &mut StringTable<'_, impl ByteSource>,
    mut at: u64,
    count: u64,
    endian: Endianness,
) -> Result<Vec<VersionNeed>, ElfError> {
    let mut needs = Vec::new();
    let mut budget = ENTRIES_LIMIT;
    for _ in 0..count {
        let entry = read(texts.source, at, &mut budget)?;
        let file = texts.at(word(&entry, 4, endian).into())?;
        let mut names = Vec::new();
        let mut version = step(at, word(&entry, 8, endian))?;
        for _ in 0..half(&entry, 2, endian) {
            let entry = read(texts.source, version, &mut budget)?;
            names.push(texts.at(word(&entry, 8, endian).into())?);
            match word(&entry, 12, endian) {
                0 => break,
                next => version = step(version, next)?,
            }
        }
        needs.push(VersionNeed { file, names });
        match word(&entry, 12, endian) {
            0 => break,
            next => at = step(at, next)?,
        }
    }
    Ok(needs)
}

fn step(at: u64, distance: u32) -> Result<u64, ElfError> {
    at.checked_add(distance.into()).ok_or(ElfError::Truncated)
}

fn read(source: &impl ByteSource, at: u64, budget: &mut usize) -> Result<[u8; ENTRY], ElfError> {
    *budget = budget.checked_sub(1).ok_or(ElfError::Excessive)?;
    let bytes = source.exactly(at, ENTRY as u64, ENTRY)?;
    bytes.try_into().map_err(|_| ElfError::Truncated)
}

fn half(entry: &[u8; ENTRY], at: usize, endian: Endianness) -> u16 {
    endian.read_u16([entry[at], entry[at + 1]])
}

fn word(entry: &[u8; ENTRY], at: usize, endian: Endianness) -> u32 {
    endian.read_u32([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
}
