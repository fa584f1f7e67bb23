//! The last resort: a segment of its own for the string table, at the end of the file.
//!
//! It takes a program header. One is spared that nothing needs: PT_NULL, or a PT_NOTE whose bytes
//! PT_GNU_PROPERTY or another PT_NOTE shows as well. (glibc reads the PT_NOTE of a property only
//! where there is no PT_GNU_PROPERTY: `_dl_process_pt_gnu_property` in elf/dl-load.c.) Where there
//! is none, the table becomes one longer, and what follows it moves into the new segment, too.

use ::object::elf;

use super::draft::Draft;
use super::elf::{ElfFile, PAGE};
use super::records::ElfProgramHeader;
use super::references::References;
use super::widen::behind_the_table;
use super::yielding::Distance;
use super::{Hazard, Refused};

/// A draft with `missing` bytes more in its string table, and where in the table these are.
pub(super) fn grow(
    elf: &ElfFile<'_>,
    references: &References,
    missing: u64,
) -> Result<(Draft, u64), Refused> {
    if elf.has_overlay() {
        return Err(Hazard::Overlay.into());
    }
    if !table_is_alone(elf, references) {
        return Err(Hazard::Overlap.into());
    }
    let spared = spare_header(elf);
    let evicted = match spared {
        Some(_) => None,
        None => Some(behind_the_table(elf, references).ok_or(Refused::NoSpareHeader)?),
    };
    // What an earlier edit stretched over other sections moves with them: offsets hold.
    // What is evicted is as aligned there as here.
    let padding = evicted.as_ref().map_or(0, |evicted| evicted.range.start % PAGE);
    let ahead = evicted.as_ref().map_or(0, |evicted| padding + evicted.size());
    let size = elf.strings.size + missing;
    let offset = (elf.bytes.len() as u64).next_multiple_of(PAGE);
    let segment = segment(elf, offset, ahead + size)?;
    let address = segment.address;

    let mut draft = Draft::of(elf);
    if let Some(spared) = spared {
        draft.segments.remove(spared);
    }
    // PT_LOAD ascend by address: elf(5), and the loader counts on it.
    let last = draft.segments.iter().rposition(|segment| segment.kind == elf::PT_LOAD);
    draft.segments.insert(last.map_or(0, |last| last + 1), segment);
    let end = offset.checked_add(ahead + size).and_then(|end| usize::try_from(end).ok());
    draft.bytes.resize(end.ok_or(Refused::NoRoom { missing })?, 0);
    if let Some(evicted) = evicted {
        let distance = Distance {
            offset: (offset + padding).wrapping_sub(evicted.range.start),
            address: (address + padding).wrapping_sub(evicted.addresses.start),
        };
        evicted.move_by(distance, elf, &mut draft)?;
        draft.lengthen_segment_table(elf);
    }
    draft.move_table(elf, (offset + ahead, address + ahead), size)?;
    Ok((draft, elf.strings.size))
}

/// Whether the program headers lie on nothing that the loader reads: else they cannot be written.
fn table_is_alone(elf: &ElfFile<'_>, references: &References) -> bool {
    let table = elf.segment_table();
    let strings = elf.strings.offset..elf.strings.offset + elf.strings.size;
    let mut parts = references.records.iter().chain([&strings]);
    parts.all(|part| part.end <= table.start || table.end <= part.start)
}

/// A read-only segment behind all others, aligned as the strictest of them.
fn segment(elf: &ElfFile<'_>, offset: u64, size: u64) -> Result<ElfProgramHeader, Refused> {
    let too_far = Refused::Damaged("no address is left for a new segment");
    let align = elf.loads().map(|load| load.align).max().unwrap_or(PAGE).max(PAGE);
    if !align.is_power_of_two() {
        return Err(Refused::Damaged("a segment's alignment"));
    }
    let end = elf.loads().map(ElfProgramHeader::memory_end).max().unwrap_or(0);
    let address = end
        .checked_next_multiple_of(align)
        .and_then(|address| address.checked_add(offset % align))
        .ok_or_else(|| too_far.clone())?;
    // Half of the address space is the kernel's.
    if address.checked_add(size).is_none_or(|end| end > elf.format.largest() / 2) {
        return Err(too_far);
    }
    Ok(ElfProgramHeader {
        kind: elf::PT_LOAD,
        flags: elf::PF_R.0,
        offset,
        address,
        physical: address,
        file_size: size,
        memory_size: size,
        align,
    })
}

/// The index of a program header that nothing needs.
fn spare_header(elf: &ElfFile<'_>) -> Option<usize> {
    let last_load = elf.segments.iter().rposition(|segment| segment.kind == elf::PT_LOAD)?;
    elf.segments
        .iter()
        .enumerate()
        .rposition(|(index, segment)| {
            let shown_by = |other: &ElfProgramHeader| {
                other.offset == segment.offset
                    && other.file_size == segment.file_size
                    && other.address == segment.address
            };
            let mut others = elf.segments.iter().enumerate().filter(|(other, _)| *other != index);
            match segment.kind {
                elf::PT_NULL => true,
                elf::PT_NOTE => others.any(|(_, other)| {
                    matches!(other.kind, elf::PT_GNU_PROPERTY | elf::PT_NOTE) && shown_by(other)
                }),
                _ => false,
            }
        })
        // One before the loads would shift them: harmless, but not proven with every loader.
        .filter(|index| *index > last_load)
}
