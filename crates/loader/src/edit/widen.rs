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
use super::records::ElfProgramHeader;
use super::references::References;
use super::yielding::{Yielding, follows, holds_all, may_move};

/// What lies between parts of a file: padding, and what patchelf leaves where something was that it
/// has moved.
const FILLER: [u8; 3] = [0, b'X', b'Z'];

/// What has to go so that the table of program headers has room for one more; nothing where
/// something follows that cannot move.
pub(super) fn behind_the_table(elf: &ElfFile<'_>, references: &References) -> Option<Yielding> {
    let table = elf.segment_table();
    let load = &elf.segments[elf.load_of(table.start)?];
    let end = whole(elf, table.end, table.end + ElfProgramHeader::bytes(elf.format));
    if elf.sections.is_empty() || elf.segments.len() + 1 >= elf::PN_XNUM.into() {
        return None;
    }
    let range = table.end..end;
    let inside = |offset: u64, end: u64| range.start <= offset && end <= range.end;
    let sections: Vec<usize> = elf
        .sections_in_file()
        .filter(|(_, section)| inside(section.offset, section.file_end()))
        .map(|(index, _)| index)
        .collect();
    let step = load.address.wrapping_sub(load.offset);
    let movable = sections.iter().map(|index| &elf.sections[*index]).all(|section| {
        may_move(elf, section) && section.address.wrapping_sub(section.offset) == step
    });
    let segments_follow = elf.segments.iter().filter(|segment| is_part(segment)).all(|segment| {
        segment.file_end() <= range.start
            || range.end <= segment.offset
            || follows(segment)
                && inside(segment.offset, segment.file_end())
                && segment.address.wrapping_sub(segment.offset) == step
    });
    let covered = |at: u64| {
        sections.iter().any(|index| {
            (elf.sections[*index].offset..elf.sections[*index].file_end()).contains(&at)
        })
    };
    let bytes = slice(elf.bytes, range.start, range.end - range.start).ok()?;
    let only_filler =
        range.clone().zip(bytes).all(|(at, byte)| FILLER.contains(byte) || covered(at));
    let all = range.end <= load.file_end()
        && movable
        && segments_follow
        && only_filler
        && holds_all(elf, references, &sections, &range);
    let addresses = range.start.wrapping_add(step)..range.end.wrapping_add(step);
    all.then_some(Yielding { range, addresses, sections })
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
