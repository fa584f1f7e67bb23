//! Everything in a file that refers to a text of its dynamic string table.
//!
//! What is not found here counts as dead, and may be overwritten. So a file of which something
//! is unknown is refused.

use std::ops::Range;

use ::object::elf;

use super::elf::ElfFile;
use super::format::NumberFormat;
use super::{Hazard, Refused};

/// Who refers to what: offsets are relative to the string table, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct References {
    /// Names of symbols, in their order.
    pub(super) symbols: Vec<u64>,
    /// Names of versions: `vna_name` and `vda_name`, in their order.
    pub(super) versions: Vec<u64>,
    /// The files that versions are needed of, in their order.
    pub(super) providers: Vec<Provider>,
    /// Where what the loader reads is in the file: symbols, hash tables, and the records of
    /// versions from the first to the last of each kind. Section headers may say less.
    pub(super) records: Vec<Range<u64>>,
}

/// A version need's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Provider {
    /// Where `vn_file` is in the file, in bytes.
    pub(super) field: u64,
    /// What it holds: the offset of the name.
    pub(super) name: u64,
}

/// Tags whose value is an offset into the string table: elf(5), glibc's `elf/elf.h`, and what
/// Solaris defined (Oracle, "Linker and Libraries Guide", Dynamic Section).
pub(super) const TEXT_TAGS: &[elf::DynamicTag] = &[
    elf::DT_NEEDED,
    elf::DT_SONAME,
    elf::DT_RPATH,
    elf::DT_RUNPATH,
    elf::DT_CONFIG,
    elf::DT_DEPAUDIT,
    elf::DT_AUDIT,
    elf::DT_AUXILIARY,
    DT_USED,
    elf::DT_FILTER,
];

/// An old name of DT_FILTER's kin in the range of processors.
const DT_USED: elf::DynamicTag = elf::DynamicTag(0x7fff_fffe);

/// Tags of operating systems below those that glibc knows: some hold names.
const FOREIGN: Range<i64> = 0x6000_000d..0x6fff_f000;

/// More version records than any file has.
const MOST_VERSIONS: usize = 1 << 18;
/// More text, in bytes, than the dynamic entries and version needs of any file name. An RPATH of
/// 1000 Spack prefixes is some 100 kB.
const MOST_TEXT: usize = 16 << 20;

/// Whether the value of `tag` is an offset into the string table.
pub(super) fn is_text(tag: elf::DynamicTag) -> bool {
    TEXT_TAGS.contains(&tag)
}

impl References {
    /// All of `elf`, except the entries of its dynamic section: those it shows itself.
    pub(super) fn of(elf: &ElfFile<'_>) -> Result<Self, Refused> {
        if let Some(entry) = elf.dynamic.entries.iter().find(|entry| FOREIGN.contains(&entry.tag.0))
        {
            return Err(Hazard::UnknownTag(entry.tag.0 as u64).into());
        }
        let mut references = Self::default();
        references.symbols = symbols(elf, &mut references.records)?;
        needed_versions(elf, &mut references)?;
        defined_versions(elf, &mut references)?;
        check_texts(elf, &references)?;
        Ok(references)
    }

    /// The offsets of all that an edit never changes, `with` others, sorted, each once.
    pub(super) fn offsets(&self, with: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut offsets: Vec<u64> =
            self.symbols.iter().chain(&self.versions).copied().chain(with).collect();
        // The text of no name: where the table begins.
        offsets.push(0);
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }
}

/// The bytes that the texts at `offsets` (sorted) take, their NULs included: sorted and apart.
pub(super) fn live_ranges(elf: &ElfFile<'_>, offsets: &[u64]) -> Result<Vec<Range<u64>>, Refused> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for offset in offsets {
        match ranges.last_mut() {
            // A suffix of the text before.
            Some(last) if *offset < last.end => {}
            last => {
                let end = offset + elf.text(*offset)?.len() as u64 + 1;
                match last {
                    Some(last) if last.end == *offset => last.end = end,
                    _ => ranges.push(*offset..end),
                }
            }
        }
    }
    Ok(ranges)
}

fn symbols(elf: &ElfFile<'_>, records: &mut Vec<Range<u64>>) -> Result<Vec<u64>, Refused> {
    let Some(address) = elf.dynamic.value(elf::DT_SYMTAB) else { return Ok(Vec::new()) };
    let size: u64 = if elf.format.wide { 24 } else { 16 };
    if elf.dynamic.value(elf::DT_SYMENT).is_some_and(|entry| entry != size) {
        return Err(Refused::Damaged("its symbols' size"));
    }
    let (at, left) = elf.file_offset(address)?;
    let count = symbol_count(elf, address, records)?;
    if count > left / size {
        return Err(Refused::Damaged("more symbols than there is room for"));
    }
    records.push(at..at + count * size);
    if let Some(Ok((at, _))) = elf.dynamic.value(elf::DT_VERSYM).map(|it| elf.file_offset(it)) {
        records.push(at..at + 2 * count);
    }
    (0..count)
        .map(|index| {
            let name = elf.format.number(elf.bytes, at + index * size, 4)?;
            // Tested here, where it is cheap: all are live, and most are suffixes of none.
            if name < elf.strings.size { Ok(name) } else { Err(BEYOND) }
        })
        .collect()
}

const BEYOND: Refused = Refused::Damaged("a name beyond its string table");

/// How many dynamic symbols there are: the most that any of its witnesses says.
fn symbol_count(
    elf: &ElfFile<'_>,
    address: u64,
    records: &mut Vec<Range<u64>>,
) -> Result<u64, Refused> {
    let section = elf
        .sections
        .iter()
        .find(|section| section.kind == elf::SHT_DYNSYM && section.address == address)
        .map(|section| section.size / if elf.format.wide { 24 } else { 16 });
    let counts = [section, hash_count(elf, records)?, gnu_hash_count(elf, records)?];
    counts.into_iter().flatten().max().ok_or(Hazard::UnknownSymbols.into())
}

/// DT_HASH has a chain for each symbol.
fn hash_count(elf: &ElfFile<'_>, records: &mut Vec<Range<u64>>) -> Result<Option<u64>, Refused> {
    let Some(address) = elf.dynamic.value(elf::DT_HASH) else { return Ok(None) };
    let (at, _) = elf.file_offset(address)?;
    let size = hash_word(elf.format, elf.header.machine);
    let number = |index: u64| elf.format.number(elf.bytes, at + index * size as u64, size);
    let (buckets, chains) = (number(0)?, number(1)?);
    let words = buckets.saturating_add(chains).saturating_add(2);
    records.push(at..at.saturating_add(words.saturating_mul(size as u64)));
    Ok(Some(chains))
}

/// The bytes of a word of DT_HASH: on two machines as many as an address has, as
/// readelf(1) of binutils knows.
pub(super) fn hash_word(format: NumberFormat, machine: elf::Machine) -> usize {
    if format.wide && matches!(machine, elf::EM_S390 | elf::EM_ALPHA) { 8 } else { 4 }
}

/// The highest symbol that DT_GNU_HASH reaches, plus one. Unknown where it holds none: symbols
/// that are only needed are not in it.
fn gnu_hash_count(
    elf: &ElfFile<'_>,
    records: &mut Vec<Range<u64>>,
) -> Result<Option<u64>, Refused> {
    let Some(address) = elf.dynamic.value(elf::DT_GNU_HASH) else { return Ok(None) };
    let (at, left) = elf.file_offset(address)?;
    let number = |offset: u64| elf.format.number(elf.bytes, at + offset, 4);
    let (buckets, first, bloom) = (number(0)?, number(4)?, number(8)?);
    let buckets_at = 16 + bloom * elf.format.word() as u64;
    let chains_at = buckets_at + buckets * 4;
    if chains_at > left {
        return Err(Refused::Damaged("its hash table"));
    }
    let mut highest = 0;
    for bucket in 0..buckets {
        highest = highest.max(number(buckets_at + bucket * 4)?);
    }
    if highest == 0 {
        records.push(at..at + chains_at);
        return Ok(None);
    }
    let mut index = highest.checked_sub(first).ok_or(Refused::Damaged("its hash table"))?;
    // The end of a chain has its lowest bit set.
    while chains_at + index * 4 < left && number(chains_at + index * 4)? & 1 == 0 {
        index += 1;
    }
    records.push(at..at + chains_at + (index + 1) * 4);
    Ok(Some(first + index + 1))
}

/// The records of DT_VERNEED, as glibc walks them (elf/dl-version.c): to the one without a next.
fn needed_versions(elf: &ElfFile<'_>, references: &mut References) -> Result<(), Refused> {
    let Some(address) = elf.dynamic.value(elf::DT_VERNEED) else { return Ok(()) };
    let (mut need, _) = elf.file_offset(address)?;
    let mut records = need..need;
    loop {
        check_version(elf, need)?;
        let name = elf.format.number(elf.bytes, need + 4, 4)?;
        references.providers.push(Provider { field: need + 4, name });
        let mut version = need + elf.format.number(elf.bytes, need + 8, 4)?;
        loop {
            references.versions.push(elf.format.number(elf.bytes, version + 8, 4)?);
            check_versions(references)?;
            records.end = records.end.max(version + 16);
            match elf.format.number(elf.bytes, version + 12, 4)? {
                0 => break,
                next => version += next,
            }
        }
        records.end = records.end.max(need + 16);
        match elf.format.number(elf.bytes, need + 12, 4)? {
            0 => break,
            next => need += next,
        }
    }
    references.records.push(records);
    Ok(())
}

/// The records of DT_VERDEF.
fn defined_versions(elf: &ElfFile<'_>, references: &mut References) -> Result<(), Refused> {
    let Some(address) = elf.dynamic.value(elf::DT_VERDEF) else { return Ok(()) };
    let (mut definition, _) = elf.file_offset(address)?;
    let mut records = definition..definition;
    loop {
        check_version(elf, definition)?;
        let mut version = definition + elf.format.number(elf.bytes, definition + 12, 4)?;
        loop {
            references.versions.push(elf.format.number(elf.bytes, version, 4)?);
            check_versions(references)?;
            records.end = records.end.max(version + 8);
            match elf.format.number(elf.bytes, version + 4, 4)? {
                0 => break,
                next => version += next,
            }
        }
        records.end = records.end.max(definition + 20);
        match elf.format.number(elf.bytes, definition + 16, 4)? {
            0 => break,
            next => definition += next,
        }
    }
    references.records.push(records);
    Ok(())
}

/// Both kinds of records begin with their version, which is 1.
fn check_version(elf: &ElfFile<'_>, at: u64) -> Result<(), Refused> {
    if elf.format.number(elf.bytes, at, 2)? == 1 {
        Ok(())
    } else {
        Err(Refused::Damaged("version records of an unknown kind"))
    }
}

/// Entries may all name the same long text: what follows reads each of them.
fn check_texts(elf: &ElfFile<'_>, references: &References) -> Result<(), Refused> {
    let tags = elf.dynamic.entries.iter().filter(|entry| is_text(entry.tag));
    let providers = references.providers.iter().map(|provider| provider.name);
    let mut left = MOST_TEXT;
    for offset in tags.map(|entry| entry.value).chain(providers) {
        let text = elf.text(offset)?;
        left =
            left.checked_sub(text.len() + 1).ok_or(Refused::Damaged("names that are too long"))?;
    }
    Ok(())
}

/// Records that lie on each other could make the walk very long.
fn check_versions(references: &References) -> Result<(), Refused> {
    let damaged = Refused::Damaged("too many version records");
    if references.versions.len() > MOST_VERSIONS { Err(damaged) } else { Ok(()) }
}
