//! Parts of a file that make way, and go elsewhere.
//!
//! What may go is what only headers and the dynamic section point to: no code knows where it is.
//! GNU ld puts .gnu.version, .gnu.version_d and .gnu.version_r right behind .dynstr. One dynamic
//! entry points to each, and they are small: moved into slack, they leave their bytes to the
//! string table, which stays in one piece. So every tool that goes by section headers (readelf,
//! objdump, strip) reads the new names.

use std::ops::Range;

use ::object::elf;

use super::Refused;
use super::draft::Draft;
use super::elf::ElfFile;
use super::format::{slice, write};
use super::records::{ElfProgramHeader, Section};
use super::references::References;

/// Bytes of the file that go elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Yielding {
    /// Where they are, in the file.
    pub(super) range: Range<u64>,
    /// Where they are in memory.
    pub(super) addresses: Range<u64>,
    /// The indices of their sections.
    pub(super) sections: Vec<usize>,
}

/// Where they went: what is added to a place in the file, and to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Distance {
    pub(super) offset: u64,
    pub(super) address: u64,
}

/// The tags of the tables of versions.
pub(super) const VERSION_TAGS: &[elf::DynamicTag] =
    &[elf::DT_VERSYM, elf::DT_VERDEF, elf::DT_VERNEED];

/// The tags of all tables that may move: the loader finds them by nothing else.
pub(super) const TABLE_TAGS: &[elf::DynamicTag] = &[
    elf::DT_VERSYM,
    elf::DT_VERDEF,
    elf::DT_VERNEED,
    elf::DT_SYMTAB,
    elf::DT_HASH,
    elf::DT_GNU_HASH,
];

/// The tag that points to such a table.
pub(super) fn tag_of(section: &Section) -> Option<elf::DynamicTag> {
    match section.kind {
        elf::SHT_GNU_VERSYM => Some(elf::DT_VERSYM),
        elf::SHT_GNU_VERDEF => Some(elf::DT_VERDEF),
        elf::SHT_GNU_VERNEED => Some(elf::DT_VERNEED),
        elf::SHT_DYNSYM => Some(elf::DT_SYMTAB),
        elf::SHT_HASH => Some(elf::DT_HASH),
        elf::SHT_GNU_HASH => Some(elf::DT_GNU_HASH),
        _ => None,
    }
}

/// Whether a section holds a table of versions.
pub(super) fn is_version_table(section: &Section) -> bool {
    tag_of(section).is_some_and(|tag| VERSION_TAGS.contains(&tag))
}

/// Whether a section may move: a table, the interpreter's name, a note. A note whose name is one
/// of C stays: for such names linkers define `__start_NAME`, by which code finds it.
pub(super) fn may_move(elf: &ElfFile<'_>, section: &Section) -> bool {
    let is_table =
        || tag_of(section).is_some_and(|tag| elf.dynamic.value(tag) == Some(section.address));
    let is_note = || {
        section.kind == elf::SHT_NOTE
            && elf.section_name(section).is_some_and(|name| name.starts_with(b"."))
    };
    let is_interpreter = || {
        section.kind == elf::SHT_PROGBITS
            && elf.segments.iter().any(|segment| {
                segment.kind == elf::PT_INTERP
                    && (segment.offset, segment.file_size) == (section.offset, section.size)
            })
    };
    section.flags & elf::SHF_ALLOC.0 != 0 && (is_table() || is_note() || is_interpreter())
}

/// Whether a program header shows bytes, and follows them.
pub(super) fn follows(segment: &ElfProgramHeader) -> bool {
    matches!(segment.kind, elf::PT_INTERP | elf::PT_NOTE | elf::PT_GNU_PROPERTY)
        && segment.file_size > 0
}

/// The version tables behind the string table: as few as yield `missing` bytes.
pub(super) fn yielding(
    elf: &ElfFile<'_>,
    references: &References,
    missing: u64,
) -> Option<Yielding> {
    let table = &elf.sections[elf.strings.section?];
    if table.size != elf.strings.size {
        return None;
    }
    let step = elf.strings.address.wrapping_sub(elf.strings.offset);
    let (mut sections, mut end) = (Vec::new(), table.file_end());
    while end - table.file_end() < missing {
        let behind = elf.sections_in_file().filter(|(_, section)| section.offset >= end);
        let (index, next) = behind.min_by_key(|(_, section)| section.offset)?;
        let pointed_to = elf.dynamic.value(tag_of(next)?) == Some(next.address);
        let padding = slice(elf.bytes, end, next.offset - end).ok()?;
        let only_padding = padding.len() < 16 && padding.iter().all(|byte| *byte == 0);
        let in_step = next.address.wrapping_sub(next.offset) == step;
        if !is_version_table(next) || !pointed_to || !only_padding || !in_step {
            return None;
        }
        sections.push(index);
        end = next.file_end();
    }
    let first = elf.sections.get(*sections.first()?)?;
    let addresses = first.address..first.address.checked_add(end - first.offset)?;
    let yielding = Yielding { range: first.offset..end, addresses, sections };
    yielding.is_whole(elf, references).then_some(yielding)
}

impl Yielding {
    /// In bytes.
    pub(super) fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Its sections.
    pub(super) fn parts<'s>(&'s self, elf: &'s ElfFile<'_>) -> impl Iterator<Item = &'s Section> {
        self.sections.iter().map(|index| &elf.sections[*index])
    }

    /// Whether all that is there, and no less, is those sections, whole, and the dynamic section
    /// points to nothing else in it.
    pub(super) fn is_whole(&self, elf: &ElfFile<'_>, references: &References) -> bool {
        let meets =
            |other: &Range<u64>| other.start < self.range.end && self.range.start < other.end;
        let others = elf.sections_in_file().filter(|(index, _)| !self.sections.contains(index));
        let alone = others.into_iter().all(|(_, other)| !meets(&(other.offset..other.file_end())));
        let own = || self.parts(elf);
        // Records that run out of their section would be torn apart.
        let whole = |records: &Range<u64>| {
            own().any(|own| own.offset <= records.start && records.end <= own.file_end())
        };
        let is_shown = |tag: &elf::DynamicTag| {
            let pointed_to = elf.dynamic.value(*tag).filter(|to| self.addresses.contains(to));
            pointed_to
                .is_none_or(|to| own().any(|own| own.address == to && tag_of(own) == Some(*tag)))
        };
        alone
            && !meets(&elf.section_table())
            && TABLE_TAGS.iter().all(is_shown)
            && references.records.iter().filter(|records| meets(records)).all(whole)
    }

    /// Moves the bytes, and all headers that show them.
    pub(super) fn move_by(
        self,
        distance: Distance,
        elf: &ElfFile<'_>,
        draft: &mut Draft,
    ) -> Result<(), Refused> {
        let block = slice(elf.bytes, self.range.start, self.size())?;
        write(&mut draft.bytes, self.range.start, &vec![0; block.len()])?;
        write(&mut draft.bytes, self.range.start.wrapping_add(distance.offset), block)?;
        for index in &self.sections {
            let section = &mut draft.sections[*index];
            section.offset = section.offset.wrapping_add(distance.offset);
            section.address = section.address.wrapping_add(distance.address);
        }
        let shown = |segment: &&mut ElfProgramHeader| {
            follows(segment) && self.range.contains(&segment.offset)
        };
        for segment in draft.segments.iter_mut().filter(shown) {
            segment.offset = segment.offset.wrapping_add(distance.offset);
            segment.address = segment.address.wrapping_add(distance.address);
            segment.physical = segment.physical.wrapping_add(distance.address);
        }
        draft.moved = Some((self, distance));
        Ok(())
    }
}
