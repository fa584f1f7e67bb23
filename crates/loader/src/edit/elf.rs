//! The parts of a file that an edit has to know: headers, dynamic section, string table.
//!
//! The loader's view counts (program headers, DT_STRTAB); section headers, where there are any,
//! have to agree with it.

use std::ops::Range;

use ::object::elf;

use super::format::{NumberFormat, slice};
use super::records::{DynamicEntry, ElfHeader, ElfProgramHeader, Section};
use super::{ElfIdentity, Hazard, Refused};

/// The section that this module adds over the slack that it takes.
pub(super) const SLACK_SECTION: &[u8] = b".becalm.dynstr";

/// Libraries have some 30 entries, and one more for each DT_NEEDED.
const MOST_ENTRIES: u64 = 1 << 16;

/// A file, read.
pub(super) struct ElfFile<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) format: NumberFormat,
    pub(super) header: ElfHeader,
    pub(super) segments: Vec<ElfProgramHeader>,
    pub(super) sections: Vec<Section>,
    pub(super) dynamic: DynamicSection,
    pub(super) strings: Strings,
}

/// The dynamic section.
pub(super) struct DynamicSection {
    /// Where it is in the file, in bytes.
    pub(super) at: u64,
    /// Its entries, without the DT_NULL at its end.
    pub(super) entries: Vec<DynamicEntry>,
    /// How many entries it has room for, DT_NULL included.
    pub(super) capacity: usize,
}

impl DynamicSection {
    /// The value of a tag that counts once.
    pub(super) fn value(&self, tag: elf::DynamicTag) -> Option<u64> {
        self.entries.iter().rev().find(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// The bytes that it takes in the file.
    pub(super) fn range(&self, format: NumberFormat) -> Range<u64> {
        self.at..self.at + self.capacity as u64 * DynamicEntry::bytes(format)
    }
}

/// The string table of the dynamic section.
pub(super) struct Strings {
    /// DT_STRTAB.
    pub(super) address: u64,
    /// The same place in the file, in bytes.
    pub(super) offset: u64,
    /// DT_STRSZ, in bytes.
    pub(super) size: u64,
    /// The index of its section header.
    pub(super) section: Option<usize>,
    /// The index of the header of the section that an earlier edit added.
    pub(super) slack_section: Option<usize>,
}

impl<'a> ElfFile<'a> {
    /// Reads `bytes`.
    ///
    /// # Errors
    /// Where it is no sound executable or library that a loader links.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Refused> {
        let format = NumberFormat::of(&ElfIdentity::of(bytes)?);
        let header = ElfHeader::read(format, bytes)?;
        if !matches!(header.kind, elf::ET_EXEC | elf::ET_DYN) {
            return Err(Refused::NotLoadable);
        }
        let segments = read_segments(format, &header, bytes)?;
        let sections = read_sections(format, &header, bytes)?;
        let dynamic = read_dynamic(format, &segments, bytes)?;
        let mut strings = read_strings(&segments, &dynamic, bytes)?;
        find_sections(&header, &sections, bytes, &mut strings)?;
        Ok(Self { bytes, format, header, segments, sections, dynamic, strings })
    }

    /// The text at `offset` of the string table, without its NUL.
    pub(super) fn text(&self, offset: u64) -> Result<&'a [u8], Refused> {
        let damaged = Refused::Damaged("a name beyond its string table");
        let table = slice(self.bytes, self.strings.offset, self.strings.size)?;
        let from = usize::try_from(offset).map_err(|_| damaged.clone())?;
        let rest = table.get(from..).ok_or_else(|| damaged.clone())?;
        let end = memchr::memchr(0, rest).ok_or(damaged)?;
        Ok(&rest[..end])
    }

    /// Where in the file the byte at `address` is, and how many follow it in its segment.
    pub(super) fn file_offset(&self, address: u64) -> Result<(u64, u64), Refused> {
        file_offset(&self.segments, address)
    }

    /// The text of PT_INTERP, without its NUL.
    pub(super) fn interpreter(&self) -> Option<&'a [u8]> {
        let segment = self.segments.iter().find(|segment| segment.kind == elf::PT_INTERP)?;
        let text = slice(self.bytes, segment.offset, segment.file_size).ok()?;
        text.split(|byte| *byte == 0).next()
    }

    /// The name of a section, without its NUL.
    pub(super) fn section_name(&self, section: &Section) -> Option<&'a [u8]> {
        section_name(&self.header, &self.sections, self.bytes, section)
    }

    /// The segments that are loaded.
    pub(super) fn loads(&self) -> impl Iterator<Item = &ElfProgramHeader> {
        self.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD)
    }

    /// The index of the PT_LOAD whose file bytes hold the offset.
    pub(super) fn load_of(&self, offset: u64) -> Option<usize> {
        self.segments.iter().position(|segment| {
            segment.kind == elf::PT_LOAD && (segment.offset..segment.file_end()).contains(&offset)
        })
    }

    /// The table of program headers, in the file.
    pub(super) fn segment_table(&self) -> Range<u64> {
        let from = self.header.segments_at;
        from..from + self.segments.len() as u64 * ElfProgramHeader::bytes(self.format)
    }

    /// The table of section headers, in the file.
    pub(super) fn section_table(&self) -> Range<u64> {
        let from = self.header.sections_at;
        from..from + self.sections.len() as u64 * Section::bytes(self.format)
    }

    /// The sections that have bytes in the file.
    pub(super) fn sections_in_file(&self) -> impl Iterator<Item = (usize, &Section)> {
        self.sections.iter().enumerate().filter(|(_, section)| {
            !matches!(section.kind, elf::SHT_NULL | elf::SHT_NOBITS) && section.size > 0
        })
    }

    /// Where the last part of the file ends that its headers name.
    pub(super) fn end(&self) -> u64 {
        let segments = self.segments.iter().map(ElfProgramHeader::file_end);
        let sections = self.sections_in_file().map(|(_, section)| section.file_end());
        let tables = [self.segment_table().end, self.section_table().end];
        segments.chain(sections).chain(tables).max().unwrap_or(0)
    }

    /// Whether bytes follow that no header names. Zeros are none: patchelf leaves one.
    pub(super) fn has_overlay(&self) -> bool {
        let behind = usize::try_from(self.end()).ok().and_then(|end| self.bytes.get(end..));
        behind.is_some_and(|behind| behind.iter().any(|byte| *byte != 0))
    }
}

/// The tables are read whole, so they must be of the size that elf(5) says, and in the file.
fn read_segments(
    format: NumberFormat,
    header: &ElfHeader,
    bytes: &[u8],
) -> Result<Vec<ElfProgramHeader>, Refused> {
    if header.segments == 0 {
        return Err(Refused::Static);
    }
    if header.segments == elf::PN_XNUM {
        return Err(Refused::Damaged("too many program headers"));
    }
    let size = ElfProgramHeader::bytes(format);
    if u64::from(header.segment_size) != size {
        return Err(Refused::Damaged("its program headers' size"));
    }
    slice(bytes, header.segments_at, u64::from(header.segments) * size)?;
    let segments = (0..u64::from(header.segments))
        .map(|index| ElfProgramHeader::read(format, bytes, header.segments_at + index * size))
        .collect::<Result<Vec<_>, _>>()?;
    check_loads(format, &segments, bytes)?;
    Ok(segments)
}

/// PT_LOAD ascending and apart, each whole and where its address says: else the kernel and the
/// loader map other bytes than those that are read here.
fn check_loads(
    format: NumberFormat,
    segments: &[ElfProgramHeader],
    bytes: &[u8],
) -> Result<(), Refused> {
    let mut end = 0;
    for load in segments.iter().filter(|segment| segment.kind == elf::PT_LOAD) {
        if load.file_size > 0 {
            slice(bytes, load.offset, load.file_size)?;
        }
        if load.memory_size < load.file_size {
            return Err(Refused::Damaged("a segment smaller in memory than in the file"));
        }
        let memory_end = load.address.checked_add(load.memory_size);
        let memory_end = memory_end
            .filter(|end| *end <= format.largest())
            .ok_or(Refused::Damaged("a segment beyond the address space"))?;
        if load.file_size > 0 && load.address % PAGE != load.offset % PAGE {
            return Err(Refused::Damaged("a segment that cannot be mapped"));
        }
        if load.address < end {
            return Err(Hazard::Overlap.into());
        }
        end = memory_end;
    }
    Ok(())
}

/// The smallest page, in bytes: what it holds beside a segment's bytes, any larger page holds.
pub(super) const PAGE: u64 = 4096;

fn read_sections(
    format: NumberFormat,
    header: &ElfHeader,
    bytes: &[u8],
) -> Result<Vec<Section>, Refused> {
    if header.sections_at == 0 {
        return Ok(Vec::new());
    }
    let size = Section::bytes(format);
    if header.sections == 0 || u64::from(header.section_size) != size {
        return Err(Refused::Damaged("its section headers"));
    }
    slice(bytes, header.sections_at, u64::from(header.sections) * size)?;
    let sections = (0..u64::from(header.sections))
        .map(|index| Section::read(format, bytes, header.sections_at + index * size))
        .collect::<Result<Vec<_>, _>>()?;
    for section in &sections {
        if !matches!(section.kind, elf::SHT_NULL | elf::SHT_NOBITS) {
            slice(bytes, section.offset, section.size)?;
        }
    }
    Ok(sections)
}

fn read_dynamic(
    format: NumberFormat,
    segments: &[ElfProgramHeader],
    bytes: &[u8],
) -> Result<DynamicSection, Refused> {
    let mut found = segments.iter().filter(|segment| segment.kind == elf::PT_DYNAMIC);
    let segment = found.next().ok_or(Refused::Static)?;
    if found.next().is_some() {
        return Err(Refused::Damaged("two dynamic sections"));
    }
    let (at, left) = file_offset(segments, segment.address)?;
    if at != segment.offset || left < segment.file_size {
        return Err(Refused::Damaged("its dynamic section is elsewhere in memory"));
    }
    let count = segment.file_size / DynamicEntry::bytes(format);
    if count > MOST_ENTRIES {
        return Err(Refused::Damaged("a dynamic section that is too large"));
    }
    let all = (0..count)
        .map(|index| DynamicEntry::read(format, bytes, at + index * DynamicEntry::bytes(format)))
        .collect::<Result<Vec<_>, _>>()?;
    let used = all.iter().position(|entry| entry.tag == elf::DT_NULL);
    let used = used.ok_or(Refused::Damaged("a dynamic section without end"))?;
    let spare = all[used..]
        .iter()
        .take_while(|entry| entry.tag == elf::DT_NULL && entry.value == 0)
        .count();
    let entries = all[..used].to_vec();
    // A DT_NULL with a value ends the list as well, but is nobody's to write to.
    Ok(DynamicSection { at, entries, capacity: used + spare.max(1) })
}

fn read_strings(
    segments: &[ElfProgramHeader],
    dynamic: &DynamicSection,
    bytes: &[u8],
) -> Result<Strings, Refused> {
    for tag in ONCE {
        let with = dynamic.entries.iter().filter(|entry| entry.tag == *tag);
        if with.count() > 1 {
            return Err(Refused::Damaged("a dynamic entry that is there twice"));
        }
    }
    let lacks = Refused::Damaged("it has no string table");
    let address = dynamic.value(elf::DT_STRTAB).ok_or_else(|| lacks.clone())?;
    let size = dynamic.value(elf::DT_STRSZ).ok_or_else(|| lacks.clone())?;
    let (offset, _) = file_offset(segments, address)?;
    // An edit may have stretched it into the slack of a later segment.
    let last = address.checked_add(size).and_then(|end| end.checked_sub(1)).ok_or(lacks)?;
    let (end, _) = file_offset(segments, last)?;
    if size == 0 || end.wrapping_sub(offset) != last - address {
        return Err(Refused::Damaged("its string table is not in one piece"));
    }
    slice(bytes, offset, size)?;
    Ok(Strings { address, offset, size, section: None, slack_section: None })
}

const ONCE: &[elf::DynamicTag] = &[
    elf::DT_STRTAB,
    elf::DT_STRSZ,
    elf::DT_SYMTAB,
    elf::DT_HASH,
    elf::DT_GNU_HASH,
    elf::DT_VERSYM,
    elf::DT_VERNEED,
    elf::DT_VERDEF,
];

/// Finds the headers of the string table's sections.
fn find_sections(
    header: &ElfHeader,
    sections: &[Section],
    bytes: &[u8],
    strings: &mut Strings,
) -> Result<(), Refused> {
    if sections.is_empty() {
        return Ok(());
    }
    let allocated = |section: &Section| section.flags & elf::SHF_ALLOC.0 != 0;
    let index = sections
        .iter()
        .position(|section| {
            section.kind == elf::SHT_STRTAB
                && allocated(section)
                && section.address == strings.address
        })
        .ok_or(Refused::Damaged("its section headers do not show its string table"))?;
    let section = &sections[index];
    let compressed = section.flags & elf::SHF_COMPRESSED.0 != 0;
    if section.offset != strings.offset || section.size > strings.size || compressed {
        return Err(Refused::Damaged("its section headers show another string table"));
    }
    strings.section = Some(index);
    // What an earlier edit added lies behind the table.
    let table = section.file_end()..strings.offset + strings.size;
    strings.slack_section = sections.iter().position(|section| {
        section.kind == elf::SHT_PROGBITS
            && allocated(section)
            && table.contains(&section.offset)
            && section.file_end() <= table.end
            && section.offset - strings.offset == section.address.wrapping_sub(strings.address)
            && section_name(header, sections, bytes, section) == Some(SLACK_SECTION)
    });
    Ok(())
}

fn section_name<'a>(
    header: &ElfHeader,
    sections: &[Section],
    bytes: &'a [u8],
    section: &Section,
) -> Option<&'a [u8]> {
    let names = sections.get(usize::from(header.names))?;
    let names = slice(bytes, names.offset, names.size).ok()?;
    names.get(usize::try_from(section.name).ok()?..)?.split(|byte| *byte == 0).next()
}

fn file_offset(segments: &[ElfProgramHeader], address: u64) -> Result<(u64, u64), Refused> {
    segments
        .iter()
        .filter(|segment| segment.kind == elf::PT_LOAD)
        .find_map(|segment| {
            let within = address.checked_sub(segment.address)?;
            let left = segment.file_size.checked_sub(within).filter(|left| *left > 0)?;
            Some((segment.offset + within, left))
        })
        .ok_or(Refused::Damaged("an address in no segment"))
}
