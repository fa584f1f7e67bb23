//! Version tables that make way for the string table.
//!
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
use super::records::Section;
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

/// The tags of the tables that may move.
pub(super) const VERSION_TAGS: &[elf::DynamicTag] =
    &[elf::DT_VERSYM, elf::DT_VERDEF, elf::DT_VERNEED];

/// Whether a section holds such a table.
pub(super) fn is_version_table(section: &Section) -> bool {
    tag_of(section).is_some()
}

/// The tag that points to such a table.
pub(super) fn tag_of(section: &Section) -> Option<elf::DynamicTag> {
    match section.kind {
        elf::SHT_GNU_VERSYM => Some(elf::DT_VERSYM),
        elf::SHT_GNU_VERDEF => Some(elf::DT_VERDEF),
        elf::SHT_GNU_VERNEED => Some(elf::DT_VERNEED),
        _ => None,
    }
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
        if !pointed_to || !only_padding || next.address.wrapping_sub(next.offset) != step {
            return None;
        }
        sections.push(index);
        end = next.file_end();
    }
    let first = elf.sections.get(*sections.first()?)?;
    if !holds_all(elf, references, &sections, first.offset..end) {
        return None;
    }
    let addresses = first.address..first.address.checked_add(end - first.offset)?;
    Some(Yielding { range: first.offset..end, addresses, sections })
}

/// Whether all that is in `range` of the file, and no less, is those tables, whole.
fn holds_all(
    elf: &ElfFile<'_>,
    references: &References,
    sections: &[usize],
    range: Range<u64>,
) -> bool {
    let others = elf.sections_in_file().filter(|(index, _)| !sections.contains(index));
    let alone = others
        .into_iter()
        .all(|(_, other)| other.file_end() <= range.start || range.end <= other.offset);
    // Records that run out of their section would be torn apart.
    let whole = |records: &Range<u64>| {
        elf.sections
            .iter()
            .filter(|section| is_version_table(section))
            .any(|section| section.offset <= records.start && records.end <= section.file_end())
    };
    let versions_of_symbols =
        elf.sections.iter().find(|section| section.kind == elf::SHT_GNU_VERSYM);
    alone
        && references.records.iter().all(whole)
        && versions_of_symbols
            .is_none_or(|section| section.size == 2 * references.symbols.len() as u64)
}

impl Yielding {
    /// In bytes.
    pub(super) fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Moves the tables by `distance` and gives their bytes to the string table.
    pub(super) fn move_by(
        self,
        distance: u64,
        elf: &ElfFile<'_>,
        draft: &mut Draft,
    ) -> Result<(), Refused> {
        let block = slice(elf.bytes, self.range.start, self.size())?;
        write(&mut draft.bytes, self.range.start, &vec![0; block.len()])?;
        write(&mut draft.bytes, self.range.start.wrapping_add(distance), block)?;
        for index in &self.sections {
            let section = &mut draft.sections[*index];
            section.offset = section.offset.wrapping_add(distance);
            section.address = section.address.wrapping_add(distance);
        }
        draft.size = self.range.end - elf.strings.offset;
        if let Some(index) = elf.strings.section {
            draft.sections[index].size = draft.size;
        }
        draft.moved = Some((self, distance));
        Ok(())
    }
}
