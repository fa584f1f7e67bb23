//! A file in the making: the headers and the string table as they shall be.

use ::object::elf;

use super::Refused;
use super::elf::ElfFile;
use super::format::write;
use super::goal::{FieldValue, Goal};
use super::hazard::check_alone;
use super::names::NewStrings;
use super::records::{DynamicEntry, ElfHeader, ElfProgramHeader, Section};
use super::references::References;
use super::yielding::{Distance, TABLE_TAGS, Yielding};

/// The parts of a file that an edit may change.
pub(super) struct Draft {
    pub(super) bytes: Vec<u8>,
    pub(super) segments: Vec<ElfProgramHeader>,
    pub(super) sections: Vec<Section>,
    pub(super) sections_at: u64,
    /// DT_STRTAB.
    pub(super) address: u64,
    /// The same place in the file, in bytes.
    pub(super) offset: u64,
    /// DT_STRSZ, in bytes.
    pub(super) size: u64,
    /// What made way, and how far it went.
    pub(super) moved: Option<(Yielding, Distance)>,
}

impl Draft {
    /// The file as it is.
    pub(super) fn of(elf: &ElfFile<'_>) -> Self {
        Self {
            bytes: elf.bytes.to_vec(),
            segments: elf.segments.clone(),
            sections: elf.sections.clone(),
            sections_at: elf.header.sections_at,
            address: elf.strings.address,
            offset: elf.strings.offset,
            size: elf.strings.size,
            moved: None,
        }
    }

    /// Moves the string table, its bytes and its section header; `size` is its new one, and what
    /// is more than before stays as it is there.
    pub(super) fn move_table(
        &mut self,
        elf: &ElfFile<'_>,
        (offset, address): (u64, u64),
        size: u64,
    ) -> Result<(), Refused> {
        let table = super::format::slice(elf.bytes, elf.strings.offset, elf.strings.size)?;
        write(&mut self.bytes, offset, table)?;
        (self.offset, self.address, self.size) = (offset, address, size);
        if let Some(section) = elf.strings.section.and_then(|index| self.sections.get_mut(index)) {
            (section.offset, section.address, section.size) = (offset, address, size);
        }
        Ok(())
    }

    /// PT_PHDR shows the table of program headers, which is one longer.
    pub(super) fn lengthen_segment_table(&mut self, elf: &ElfFile<'_>) {
        let header = ElfProgramHeader::bytes(elf.format);
        for segment in self.segments.iter_mut().filter(|segment| segment.kind == elf::PT_PHDR) {
            segment.file_size += header;
            segment.memory_size += header;
        }
    }

    /// The file that says what `goal` wants, its names placed by `names`.
    pub(super) fn finish(
        mut self,
        elf: &ElfFile<'_>,
        references: &References,
        goal: &Goal,
        names: &NewStrings,
    ) -> Result<Vec<u8>, Refused> {
        self.write_headers(elf)?;
        self.write_names(elf, names)?;
        self.write_entries(elf, goal, names)?;
        for (provider, value) in references.providers.iter().zip(&goal.providers) {
            let name = offset_of(value, names)?;
            if name > u32::MAX.into() {
                return Err(Refused::SelfCheck("a name that a version need cannot reach"));
            }
            let field = match &self.moved {
                Some((moved, distance)) if moved.range.contains(&provider.field) => {
                    provider.field.wrapping_add(distance.offset)
                }
                _ => provider.field,
            };
            elf.format.put(&mut self.bytes, field, name, 4)?;
        }
        Ok(self.bytes)
    }

    fn write_headers(&mut self, elf: &ElfFile<'_>) -> Result<(), Refused> {
        let format = elf.format;
        let mut segments = Vec::with_capacity(self.segments.len() * 56);
        self.segments.iter().for_each(|item| item.encode(format, &mut segments));
        write(&mut self.bytes, elf.header.segments_at, &segments)?;
        let mut sections = Vec::with_capacity(self.sections.len() * 64);
        self.sections.iter().for_each(|item| item.encode(format, &mut sections));
        if !sections.is_empty() {
            write(&mut self.bytes, self.sections_at, &sections)?;
        }
        let count = self.segments.len() as u64;
        format.put(&mut self.bytes, ElfHeader::segments_field(format), count, 2)?;
        let (at, count) = (ElfHeader::sections_at_field(format), self.sections.len() as u64);
        format.put(&mut self.bytes, at, self.sections_at, format.word())?;
        if count > 0 {
            format.put(&mut self.bytes, ElfHeader::sections_field(format), count, 2)?;
        }
        Ok(())
    }

    /// The address of a table, now.
    fn address_of(&self, table: u64) -> u64 {
        match &self.moved {
            Some((moved, distance)) if moved.addresses.contains(&table) => {
                table.wrapping_add(distance.address)
            }
            _ => table,
        }
    }

    /// New names; into the old table only where nothing else has its bytes.
    fn write_names(&mut self, elf: &ElfFile<'_>, names: &NewStrings) -> Result<(), Refused> {
        for (at, text) in names.fresh() {
            let from = self.offset + at;
            let end = from + text.len() as u64 + 1;
            if self.offset == elf.strings.offset && at + (end - from) <= elf.strings.size {
                check_alone(elf, &(from..end))?;
            }
            write(&mut self.bytes, from, text)?;
            write(&mut self.bytes, end - 1, &[0])?;
        }
        Ok(())
    }

    /// The dynamic section: as many entries as before, the last ones DT_NULL.
    fn write_entries(
        &mut self,
        elf: &ElfFile<'_>,
        goal: &Goal,
        names: &NewStrings,
    ) -> Result<(), Refused> {
        let mut table = Vec::new();
        for (tag, value) in &goal.entries {
            let value = match *tag {
                elf::DT_STRTAB => self.address,
                elf::DT_STRSZ => self.size,
                tag if TABLE_TAGS.contains(&tag) => self.address_of(offset_of(value, names)?),
                _ => offset_of(value, names)?,
            };
            if value > elf.format.largest() {
                return Err(Refused::SelfCheck("a number that does not fit its class"));
            }
            DynamicEntry { tag: *tag, value }.encode(elf.format, &mut table);
        }
        for _ in goal.entries.len()..elf.dynamic.entries.len() {
            DynamicEntry { tag: elf::DT_NULL, value: 0 }.encode(elf.format, &mut table);
        }
        write(&mut self.bytes, elf.dynamic.at, &table)
    }
}

fn offset_of(value: &FieldValue, names: &NewStrings) -> Result<u64, Refused> {
    match value {
        FieldValue::Same(number) => Ok(*number),
        FieldValue::Text(text) => names.at(text),
    }
}
