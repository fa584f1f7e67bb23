//! /etc/ld.so.cache, which ldconfig(8) makes (sysdeps/generic/dl-cache.h, elf/dl-cache.c).
//!
//! Three formats: the old one (libc5, glibc 2.0), the new one, and the old with the new behind
//! it. Whatever the bytes are, a lookup ends and reads nothing outside them.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::object::ElfClass;
use crate::setting::GlibcProfile;
use crate::setting::machine::{self, Chars};

const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
/// The magic, then padding up to `nlibs`.
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;
const NEW_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const NEW_HEADER: usize = 48;
const NEW_ENTRY: usize = 24;
const EXTENSION_MAGIC: u32 = -358_342_284_i32 as u32;
/// `cache_extension_tag_glibc_hwcaps`.
const HWCAPS_TAG: u32 = 1;
/// `DL_CACHE_HWCAP_EXTENSION` in the upper half of an entry's hwcap, and the bits beside it
/// that say a level.
const EXTENSION: u32 = 1 << 30;
const LEVEL_MASK: u32 = (1 << 10) - 1;

/// A cache that can be asked.
#[derive(Debug, Clone)]
pub struct LdSoCache {
    bytes: Arc<[u8]>,
    /// Where offsets of texts count from.
    texts: usize,
    entries: usize,
    entry_size: usize,
    count: usize,
    /// How bytes compared for who sorted the names: as this machine's do.
    chars: Chars,
    /// Of each name below glibc-hwcaps in the cache: its rank, 1 the best; 0 not for this CPU.
    ranks: Vec<u32>,
}

impl LdSoCache {
    /// Reads the header; nothing if the loader would not use the file.
    pub fn parse(bytes: Arc<[u8]>, profile: &GlibcProfile) -> Option<LdSoCache> {
        if let Some(cache) = LdSoCache::new_format(&bytes, 0, profile) {
            return cache;
        }
        if !bytes.starts_with(OLD_MAGIC) || bytes.len() <= OLD_HEADER {
            return None;
        }
        let count = word(&bytes, 12)? as usize;
        if (bytes.len() - OLD_HEADER) / OLD_ENTRY < count {
            return None;
        }
        let texts = OLD_HEADER + count * OLD_ENTRY;
        // The new format is aligned as its 64-bit fields are (`ALIGN_CACHE`).
        let align = if profile.class == ElfClass::Elf64 || profile.machine != machine::I386 {
            8
        } else {
            4
        };
        if let Some(cache) = LdSoCache::new_format(&bytes, texts.next_multiple_of(align), profile) {
            return cache;
        }
        let (entries, entry_size) = (OLD_HEADER, OLD_ENTRY);
        let chars = machine::chars(profile);
        Some(LdSoCache { bytes, texts, entries, entry_size, count, chars, ranks: Vec::new() })
    }

    /// The new format from `at` on; nothing if it is not there. What is inside is nothing if it
    /// is there, but for another byte order.
    fn new_format(
        bytes: &Arc<[u8]>,
        at: usize,
        profile: &GlibcProfile,
    ) -> Option<Option<LdSoCache>> {
        let here = bytes.get(at..)?;
        if !here.starts_with(NEW_MAGIC) || here.len() < NEW_HEADER {
            return None;
        }
        let count = word(here, 20)? as usize;
        let room = (here.len() - NEW_HEADER) / NEW_ENTRY;
        if at == 0 && (room < count || here.len() <= NEW_HEADER) {
            return None;
        }
        // `cache_file_new_matches_endian`, since 2.33: unset, or as this machine has it.
        let order = here[28];
        if profile.version >= (2, 33) && order != 0 && order & 3 != 2 {
            return Some(None);
        }
        let mut cache = LdSoCache {
            bytes: bytes.clone(),
            texts: at,
            entries: at + NEW_HEADER,
            entry_size: NEW_ENTRY,
            count: count.min(room),
            chars: machine::chars(profile),
            ranks: Vec::new(),
        };
        cache.ranks = cache.hwcap_ranks(at, profile).unwrap_or_default();
        Some(Some(cache))
    }

    /// The ranks of the names in the extension (`glibc_hwcaps_priorities_init`). All offsets
    /// count from the start of the file.
    fn hwcap_ranks(&self, header: usize, profile: &GlibcProfile) -> Option<Vec<u32>> {
        if profile.version < (2, 33) {
            return None;
        }
        let at = word(&self.bytes, header + 32)? as usize;
        if at == 0 || !at.is_multiple_of(4) || word(&self.bytes, at)? != EXTENSION_MAGIC {
            return None;
        }
        let sections = (0..word(&self.bytes, at + 4)? as usize).map_while(|number| {
            let section = at.checked_add(8)?.checked_add(number.checked_mul(16)?)?;
            Some((word(&self.bytes, section)?, section))
        });
        let (_, section) = sections.into_iter().find(|(tag, _)| *tag == HWCAPS_TAG)?;
        let from = word(&self.bytes, section + 8)? as usize;
        let size = word(&self.bytes, section + 12)? as usize;
        let names = self.bytes.get(from..from.checked_add(size)?)?;
        let rank = |name: &[u8]| {
            let at = profile.hwcaps.iter().position(|known| known.as_bytes() == name);
            at.map_or(0, |at| at as u32 + 1)
        };
        let names = names.chunks_exact(4).map(|offset| {
            let offset = u32::from_le_bytes([offset[0], offset[1], offset[2], offset[3]]);
            text(&self.bytes, offset as usize).map_or(0, rank)
        });
        Some(names.collect())
    }

    /// Where the library called `name` is, for this profile (`search_cache`). `no_hwcap` leaves
    /// out what is for some CPUs only.
    pub fn lookup(&self, name: &OsStr, profile: &GlibcProfile, no_hwcap: bool) -> Option<&OsStr> {
        let name = name.as_bytes();
        let first = self.first(name)?;
        let mut best: Option<&[u8]> = None;
        let mut best_rank = u32::MAX;
        for at in first..self.count {
            if !self.is_called(at, name) {
                break;
            }
            let entry = self.entries + at * self.entry_size;
            let flags = word(&self.bytes, entry)?;
            let Some(value) = self.text(word(&self.bytes, entry + 8)?) else { continue };
            if !machine::takes_cache_flags(profile, flags) {
                continue;
            }
            let (low, high) = match self.entry_size {
                NEW_ENTRY => (word(&self.bytes, entry + 16)?, word(&self.bytes, entry + 20)?),
                _ => (0, 0),
            };
            let named = profile.version >= (2, 33) && high & !LEVEL_MASK == EXTENSION;
            let hwcap = u64::from(high) << 32 | u64::from(low);
            if named {
                let rank = self.ranks.get(low as usize).copied().unwrap_or(0);
                let level = 1u32.wrapping_shl(high & LEVEL_MASK);
                let fits = profile.cpu.levels() & level == level && rank != 0;
                if fits && rank < best_rank && !(no_hwcap && hwcap != 0) {
                    (best, best_rank) = (Some(value), rank);
                }
                continue;
            }
            // Named entries come first; the best of them wins over all others.
            if best_rank != u32::MAX {
                break;
            }
            if !profile.takes_legacy(hwcap) || (no_hwcap && hwcap != 0) {
                continue;
            }
            best = Some(value);
            if flags == machine::cache_flags(profile) {
                break;
            }
        }
        best.map(OsStr::from_bytes)
    }

    /// The first entry with this name. The entries are sorted by name, backwards.
    fn first(&self, name: &[u8]) -> Option<usize> {
        let (mut left, mut right) = (0, self.count);
        while left < right {
            let middle = (left + right - 1) / 2;
            match compare(name, self.key(middle)?, self.chars) {
                Ordering::Equal => {
                    let same = |at: &usize| self.is_called(*at, name);
                    let before = (0..middle).rev().take_while(same).count();
                    return Some(middle - before);
                }
                Ordering::Less => left = middle + 1,
                Ordering::Greater => right = middle,
            }
        }
        None
    }

    fn is_called(&self, at: usize, name: &[u8]) -> bool {
        self.key(at).is_some_and(|key| compare(name, key, self.chars) == Ordering::Equal)
    }

    fn key(&self, at: usize) -> Option<&[u8]> {
        self.text(word(&self.bytes, self.entries + at * self.entry_size + 4)?)
    }

    fn text(&self, offset: u32) -> Option<&[u8]> {
        text(&self.bytes, self.texts.checked_add(offset as usize)?)
    }
}

/// The text at `at`, up to its NUL.
fn text(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    Some(&rest[..rest.iter().position(|byte| *byte == 0)?])
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes))
}

/// `_dl_cache_libcmp`: numbers compare as numbers, and the NUL at a name's end as a character.
fn compare(mut left: &[u8], mut right: &[u8], chars: Chars) -> Ordering {
    loop {
        let first = |name: &[u8]| name.first().copied().unwrap_or(0);
        let (one, two) = (first(left), first(right));
        if one == 0 {
            return chars.compare(one, two);
        }
        match (one.is_ascii_digit(), two.is_ascii_digit()) {
            (true, true) => {
                let (one, two) = (number(&mut left), number(&mut right));
                if one != two {
                    // As the difference of two ints, which wraps, decides.
                    return one.wrapping_sub(two).cmp(&0);
                }
            }
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) if one != two => return chars.compare(one, two),
            (false, false) => (left, right) = (&left[1..], &right[1..]),
        }
    }
}

fn number(digits: &mut &[u8]) -> i32 {
    let mut value = 0i32;
    while let Some(digit) = digits.first().filter(|byte| byte.is_ascii_digit()) {
        value = value.wrapping_mul(10).wrapping_add(i32::from(digit - b'0'));
        *digits = &digits[1..];
    }
    value
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
