//! The rest of a read-only segment's last page: it is mapped anyway, and holds nothing.
//!
//! Ways to use it, those first that keep the string table in one piece: a table that ends where
//! its segment ends grows; a table that is small moves there; version tables behind it move
//! there, and it grows over their place. Else the new names alone go there, under a section
//! header of their own, since `strip` clears what no section covers. (Tools that go by section
//! headers do not see these names then: readelf prints an offset. Loaders do.)

use ::object::elf;

use super::draft::Draft;
use super::elf::{ElfFile, PAGE, SLACK_SECTION};
use super::format::slice;
use super::records::{ElfProgramHeader, Section};
use super::references::References;
use super::yielding::{Distance, yielding};
use super::{Hazard, Refused};

/// Zero bytes behind a read-only segment, mapped with its last page.
#[derive(Debug, Clone, Copy)]
struct Slack {
    /// The index of the segment.
    segment: usize,
    /// Where it begins in the file, in bytes.
    offset: u64,
    /// Where it begins in memory.
    address: u64,
    /// In bytes.
    size: u64,
}

/// A draft with `missing` bytes more in its string table, and where in the table these are.
pub(super) fn stretch(
    elf: &ElfFile<'_>,
    references: &References,
    missing: u64,
) -> Result<Option<(Draft, u64)>, Refused> {
    let all: Vec<Slack> = slacks(elf);
    if let Some(made) = extend(elf, &all, missing) {
        return Ok(Some(made));
    }
    if let Some(made) = relocate(elf, &all, missing)? {
        return Ok(Some(made));
    }
    if let Some(made) = make_way(elf, references, &all, missing)? {
        return Ok(Some(made));
    }
    cover(elf, &all, missing)
}

/// The largest slack, in bytes.
pub(super) fn most(elf: &ElfFile<'_>) -> u64 {
    slacks(elf).iter().map(|slack| slack.size).max().unwrap_or(0)
}

/// A table (or what an earlier edit added to it) that ends where its segment ends.
fn extend(elf: &ElfFile<'_>, all: &[Slack], missing: u64) -> Option<(Draft, u64)> {
    let mut draft = Draft::of(elf);
    let own = [elf.strings.slack_section, elf.strings.section];
    let last = own.into_iter().flatten().next();
    let end = match last {
        Some(index) => elf.sections[index].file_end(),
        None => elf.strings.offset + elf.strings.size,
    };
    let slack = all.iter().find(|slack| slack.offset == end && slack.size >= missing)?;
    grow_segment(&mut draft.segments[slack.segment], missing);
    if let Some(index) = last {
        draft.sections[index].size += missing;
    }
    let at = end - elf.strings.offset;
    draft.size = draft.size.max(at + missing);
    Some((draft, at))
}

/// A table that fits into the slack as a whole. One that spans other sections stays.
fn relocate(
    elf: &ElfFile<'_>,
    all: &[Slack],
    missing: u64,
) -> Result<Option<(Draft, u64)>, Refused> {
    let whole = elf.strings.size + missing;
    let in_one_piece =
        elf.strings.section.is_none_or(|index| elf.sections[index].size == elf.strings.size);
    let Some(slack) = all.iter().find(|slack| in_one_piece && slack.size >= whole) else {
        return Ok(None);
    };
    let mut draft = Draft::of(elf);
    grow_segment(&mut draft.segments[slack.segment], whole);
    draft.move_table(elf, (slack.offset, slack.address), whole)?;
    Ok(Some((draft, elf.strings.size)))
}

/// The version tables behind the string table go, and it takes their place.
fn make_way(
    elf: &ElfFile<'_>,
    references: &References,
    all: &[Slack],
    missing: u64,
) -> Result<Option<(Draft, u64)>, Refused> {
    let Some(yielding) = yielding(elf, references, missing) else { return Ok(None) };
    // As aligned there as here: the strictest of these tables wants eight bytes.
    let padding = |slack: &Slack| yielding.range.start.wrapping_sub(slack.offset) % 8;
    let fits = |slack: &&Slack| {
        slack.offset > yielding.range.start && slack.size >= padding(slack) + yielding.size()
    };
    let Some(slack) = all.iter().find(fits) else { return Ok(None) };
    let (padding, mut draft) = (padding(slack), Draft::of(elf));
    grow_segment(&mut draft.segments[slack.segment], padding + yielding.size());
    let distance = slack.offset + padding - yielding.range.start;
    draft.size = yielding.range.end - elf.strings.offset;
    if let Some(index) = elf.strings.section {
        draft.sections[index].size = draft.size;
    }
    yielding.move_by(Distance { offset: distance, address: distance }, elf, &mut draft)?;
    Ok(Some((draft, elf.strings.size)))
}

/// The new names alone, under a section header of their own.
fn cover(elf: &ElfFile<'_>, all: &[Slack], missing: u64) -> Result<Option<(Draft, u64)>, Refused> {
    // A second section would be one that the next edit does not find.
    let behind = |slack: &&Slack| slack.offset > elf.strings.offset && slack.size >= missing;
    let Some(slack) = all.iter().find(behind).filter(|_| elf.strings.slack_section.is_none())
    else {
        return Ok(None);
    };
    let at = slack.offset - elf.strings.offset;
    if at + missing > u32::MAX.into() {
        return Ok(None);
    }
    let mut draft = Draft::of(elf);
    grow_segment(&mut draft.segments[slack.segment], missing);
    draft.size = draft.size.max(at + missing);
    if !elf.sections.is_empty() {
        let section = Section {
            name: 0,
            kind: elf::SHT_PROGBITS,
            flags: elf::SHF_ALLOC.0,
            address: slack.address,
            offset: slack.offset,
            size: missing,
            link: 0,
            info: 0,
            align: 1,
            entry_size: 0,
        };
        add_section(elf, &mut draft, section)?;
    }
    Ok(Some((draft, at)))
}

fn grow_segment(segment: &mut ElfProgramHeader, bytes: u64) {
    segment.file_size += bytes;
    segment.memory_size += bytes;
}

/// Every slack, that of the table's own segment first.
fn slacks(elf: &ElfFile<'_>) -> Vec<Slack> {
    let Some(own) = elf.load_of(elf.strings.offset) else { return Vec::new() };
    let others = (0..elf.segments.len()).filter(|index| *index != own);
    std::iter::once(own)
        .chain(others)
        .filter(|index| elf.segments[*index].in_step_with(&elf.segments[own]))
        .filter_map(|index| slack_of(elf, index))
        .collect()
}

fn slack_of(elf: &ElfFile<'_>, index: usize) -> Option<Slack> {
    let segment = &elf.segments[index];
    let writable = segment.flags & elf::PF_W.0 != 0;
    let readable = segment.flags & elf::PF_R.0 != 0;
    let whole = segment.file_size == segment.memory_size && segment.file_size > 0;
    if segment.kind != elf::PT_LOAD || writable || !readable || !whole {
        return None;
    }
    let (offset, address) = (segment.file_end(), segment.memory_end());
    let page_end = address.checked_next_multiple_of(PAGE)?;
    let overlaid = elf
        .loads()
        .any(|other| other.address > segment.address && other.address / PAGE * PAGE < page_end);
    let size = (page_end - address).min(free(elf, offset));
    let bytes = slice(elf.bytes, offset, size).ok()?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count() as u64;
    (zeros > 0 && !overlaid).then_some(Slack { segment: index, offset, address, size: zeros })
}

/// How many bytes of the file from `offset` belong to nothing that a header names.
fn free(elf: &ElfFile<'_>, offset: u64) -> u64 {
    let segments = elf.segments.iter().map(|segment| segment.offset..segment.file_end());
    let sections = elf.sections_in_file().map(|(_, section)| section.offset..section.file_end());
    let next = segments
        .chain(sections)
        .chain([elf.segment_table(), elf.section_table()])
        .filter(|range| range.start < range.end && range.end > offset)
        .map(|range| range.start)
        .min()
        .unwrap_or(u64::MAX);
    next.min(elf.bytes.len() as u64).saturating_sub(offset)
}

/// Puts `section` last into the table, under our name. The table has to move, and its names,
/// which usually precede it at the end of the file, grow.
fn add_section(elf: &ElfFile<'_>, draft: &mut Draft, mut section: Section) -> Result<(), Refused> {
    if elf.has_overlay() {
        return Err(Hazard::Overlay.into());
    }
    let damaged = Refused::Damaged("its section headers have no names");
    let index = usize::from(elf.header.names);
    let old = elf.sections.get(index).filter(|names| names.kind == elf::SHT_STRTAB);
    let old = old.filter(|names| names.flags & elf::SHF_ALLOC.0 == 0);
    let mut names = match old {
        Some(names) => slice(elf.bytes, names.offset, names.size)?.to_vec(),
        None => return Err(damaged),
    };
    if names.last() != Some(&0) || elf.sections.len() >= usize::from(elf::SHN_LORESERVE) - 1 {
        return Err(damaged);
    }
    section.name = u32::try_from(names.len()).map_err(|_| damaged)?;
    names.extend_from_slice(SLACK_SECTION);
    names.push(0);

    let at = names_at(elf, index);
    let place = usize::try_from(at).unwrap_or(usize::MAX).min(draft.bytes.len());
    draft.bytes.truncate(place);
    draft.sections[index].offset = draft.bytes.len() as u64;
    draft.sections[index].size = names.len() as u64;
    draft.bytes.extend(names);
    pad(&mut draft.bytes, elf.format.word());
    draft.sections_at = draft.bytes.len() as u64;
    draft.sections.push(section);
    let table = draft.sections.len() * Section::bytes(elf.format) as usize;
    draft.bytes.resize(draft.bytes.len() + table, 0);
    Ok(())
}

/// Where the section names go: to where they are, if only the table of sections follows.
fn names_at(elf: &ElfFile<'_>, index: usize) -> u64 {
    let (names, table) = (&elf.sections[index], elf.section_table());
    let end = elf.bytes.len() as u64;
    let sections = elf.sections_in_file().filter(|(other, _)| *other != index);
    let last = sections.map(|(_, section)| section.file_end());
    let last = last.chain(elf.segments.iter().map(ElfProgramHeader::file_end)).max().unwrap_or(0);
    let between = names.file_end()..table.start;
    let only_padding = slice(elf.bytes, between.start, between.end.saturating_sub(between.start))
        .is_ok_and(|bytes| bytes.len() < 16 && bytes.iter().all(|byte| *byte == 0));
    let follows = between.start <= between.end && only_padding && table.end == end;
    if follows && last <= names.offset && elf.segment_table().end <= names.offset {
        names.offset
    } else {
        end
    }
}

fn pad(bytes: &mut Vec<u8>, align: usize) {
    bytes.resize(bytes.len().next_multiple_of(align), 0);
}
