//! One program header more: what follows the table makes way.
//!
//! The table stays where it is. At the end of the file, where others put it, it is not found by
//! all: Linux before 5.18 and qemu tell a program (AT_PHDR) that it is as far behind the first
//! segment's beginning as `e_phoff` says, and `strip` puts it back behind the ELF header, over
//! what is there. What follows it there is, with every linker, what only headers and the dynamic
//! section point to: PT_INTERP's text, notes, symbols and their hash table.

use ::object::elf;

use super::elf::ElfFile;
use super::format::slice;
use super::records::{ElfProgramHeader, Section};
use super::references::References;
use super::yielding::{Yielding, follows, may_move, tag_of};

/// What lies between parts of a file: padding, and what patchelf leaves where something was that it
/// has moved.
const FILLER: [u8; 3] = [0, b'X', b'Z'];

/// What has to go so that the table of program headers has room for one more; nothing where
/// something follows that cannot move.
pub(super) fn behind_the_table(elf: &ElfFile<'_>, references: &References) -> Option<Yielding> {
    let table = elf.segment_table();
    let load = &elf.segments[elf.load_of(table.start)?];
    let end = whole(elf, table.end, table.end + ElfProgramHeader::bytes(elf.format));
    if elf.sections.is_empty() || end > load.file_end() {
        return None;
    }
    let range = table.end..end;
    let inside = |section: &Section| range.start <= section.offset && section.file_end() <= end;
    let sections = elf.sections_in_file().filter(|(_, section)| inside(section));
    let sections: Vec<usize> = sections.map(|(index, _)| index).collect();
    let step = load.address.wrapping_sub(load.offset);
    let addresses = range.start.wrapping_add(step)..range.end.wrapping_add(step);
    let yielding = Yielding { range, addresses, sections };
    let yields = yielding.is_whole(elf, references)
        && sections_may_move(elf, &yielding, step)
        && segments_follow(elf, &yielding, step)
        && only_filler_between(elf, &yielding)?;
    yields.then_some(yielding)
}

fn sections_may_move(elf: &ElfFile<'_>, yielding: &Yielding, step: u64) -> bool {
    yielding.parts(elf).all(|section| {
        may_move(elf, section) && section.address.wrapping_sub(section.offset) == step
    })
}

/// Whether no segment but those that follow their bytes show any of these. What such a segment
/// shows stays as it is; of tables, the names of files may change.
fn segments_follow(elf: &ElfFile<'_>, yielding: &Yielding, step: u64) -> bool {
    let meets = |segment: &ElfProgramHeader, from: u64, end: u64| {
        from < segment.file_end() && segment.offset < end
    };
    let shows_table = |segment: &ElfProgramHeader| {
        let mut tables = yielding.parts(elf).filter(|section| tag_of(section).is_some());
        tables.any(|table| meets(segment, table.offset, table.file_end()))
    };
    let range = &yielding.range;
    let mut parts = elf.segments.iter().filter(|segment| is_part(segment));
    parts.all(|segment| {
        !meets(segment, range.start, range.end)
            || follows(segment)
                && range.start <= segment.offset
                && segment.file_end() <= range.end
                && segment.address.wrapping_sub(segment.offset) == step
                && !shows_table(segment)
    })
}

fn only_filler_between(elf: &ElfFile<'_>, yielding: &Yielding) -> Option<bool> {
    let bytes = slice(elf.bytes, yielding.range.start, yielding.size()).ok()?;
    let covered = |at: u64| {
        yielding.parts(elf).any(|section| (section.offset..section.file_end()).contains(&at))
    };
    let mut all = yielding.range.clone().zip(bytes);
    Some(all.all(|(at, byte)| FILLER.contains(byte) || covered(at)))
}

/// The end of the sections and segments, whole, that begin before `end`.
fn whole(elf: &ElfFile<'_>, from: u64, mut end: u64) -> u64 {
    loop {
        let sections =
            elf.sections_in_file().map(|(_, section)| (section.offset, section.file_end()));
        let segments = elf
            .segments
            .iter()
            .filter(|segment| is_part(segment))
            .map(|segment| (segment.offset, segment.file_end()));
        let reach = sections
            .chain(segments)
            .filter(|(offset, reach)| *offset < end && from < *reach)
            .map(|(_, reach)| reach)
            .max();
        match reach {
            Some(reach) if reach > end => end = reach,
            _ => return end,
        }
    }
}

/// Whether a program header shows a part of a segment, rather than a segment.
fn is_part(segment: &ElfProgramHeader) -> bool {
    segment.kind != elf::PT_LOAD && segment.file_size > 0
}
