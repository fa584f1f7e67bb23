//! The records of an ELF file that an edit reads and writes (elf(5)), the same for both classes.

use ::object::elf::{DynamicTag, FileType, Machine, ProgramType, SectionType};

use super::Refused;
use super::format::{NumberFormat, NumberReader};

/// The ELF header, without what an edit never looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ElfHeader {
    pub(super) kind: FileType,
    pub(super) machine: Machine,
    pub(super) segments_at: u64,
    pub(super) sections_at: u64,
    pub(super) flags: u32,
    pub(super) size: u16,
    pub(super) segment_size: u16,
    pub(super) segments: u16,
    pub(super) section_size: u16,
    pub(super) sections: u16,
    pub(super) names: u16,
}

/// `e_type` follows the identification.
const IDENTIFICATION: u64 = 16;

impl ElfHeader {
    pub(super) fn read(format: NumberFormat, bytes: &[u8]) -> Result<Self, Refused> {
        let mut read = NumberReader::new(format, bytes, IDENTIFICATION);
        let (kind, machine) = (FileType(read.half()?), Machine(read.half()?));
        let (_version, _entry) = (read.u32()?, read.word()?);
        Ok(Self {
            kind,
            machine,
            segments_at: read.word()?,
            sections_at: read.word()?,
            flags: read.u32()?,
            size: read.half()?,
            segment_size: read.half()?,
            segments: read.half()?,
            section_size: read.half()?,
            sections: read.half()?,
            names: read.half()?,
        })
    }

    /// Where `e_shoff` is.
    pub(super) fn sections_at_field(format: NumberFormat) -> u64 {
        IDENTIFICATION + 8 + 2 * format.word() as u64
    }

    /// Where `e_phnum` is.
    pub(super) fn segments_field(format: NumberFormat) -> u64 {
        Self::bytes(format) - 8
    }

    /// Where `e_shnum` is.
    pub(super) fn sections_field(format: NumberFormat) -> u64 {
        Self::bytes(format) - 4
    }

    /// Its size in bytes.
    pub(super) fn bytes(format: NumberFormat) -> u64 {
        if format.wide { 64 } else { 52 }
    }
}

/// A program header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ElfProgramHeader {
    pub(super) kind: ProgramType,
    pub(super) flags: u32,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) physical: u64,
    pub(super) file_size: u64,
    pub(super) memory_size: u64,
    pub(super) align: u64,
}

impl ElfProgramHeader {
    /// Its size in bytes.
    pub(super) fn bytes(format: NumberFormat) -> u64 {
        if format.wide { 56 } else { 32 }
    }

    pub(super) fn read(format: NumberFormat, bytes: &[u8], at: u64) -> Result<Self, Refused> {
        let mut read = NumberReader::new(format, bytes, at);
        let kind = ProgramType(read.u32()?);
        let before = if format.wide { read.u32()? } else { 0 };
        let (offset, address, physical) = (read.word()?, read.word()?, read.word()?);
        let (file_size, memory_size) = (read.word()?, read.word()?);
        let flags = if format.wide { before } else { read.u32()? };
        let align = read.word()?;
        Ok(Self { kind, flags, offset, address, physical, file_size, memory_size, align })
    }

    pub(super) fn encode(&self, format: NumberFormat, out: &mut Vec<u8>) {
        format.push(out, self.kind.0.into(), 4);
        if format.wide {
            format.push(out, self.flags.into(), 4);
        }
        for word in [self.offset, self.address, self.physical, self.file_size, self.memory_size] {
            format.push(out, word, format.word());
        }
        if !format.wide {
            format.push(out, self.flags.into(), 4);
        }
        format.push(out, self.align, format.word());
    }

    /// Where its bytes end in the file.
    pub(super) fn file_end(&self) -> u64 {
        self.offset.saturating_add(self.file_size)
    }

    /// Where it ends in memory.
    pub(super) fn memory_end(&self) -> u64 {
        self.address.saturating_add(self.memory_size)
    }

    /// Whether file offset and address differ by as much as in `other`, so that tools which know
    /// one difference only (ldconfig(8)) find strings of both.
    pub(super) fn in_step_with(&self, other: &Self) -> bool {
        self.address.wrapping_sub(self.offset) == other.address.wrapping_sub(other.offset)
    }
}

/// A section header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: u32,
    pub(super) kind: SectionType,
    pub(super) flags: u64,
    pub(super) address: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) link: u32,
    pub(super) info: u32,
    pub(super) align: u64,
    pub(super) entry_size: u64,
}

impl Section {
    /// Its size in bytes.
    pub(super) fn bytes(format: NumberFormat) -> u64 {
        if format.wide { 64 } else { 40 }
    }

    pub(super) fn read(format: NumberFormat, bytes: &[u8], at: u64) -> Result<Self, Refused> {
        let mut read = NumberReader::new(format, bytes, at);
        Ok(Self {
            name: read.u32()?,
            kind: SectionType(read.u32()?),
            flags: read.word()?,
            address: read.word()?,
            offset: read.word()?,
            size: read.word()?,
            link: read.u32()?,
            info: read.u32()?,
            align: read.word()?,
            entry_size: read.word()?,
        })
    }

    pub(super) fn encode(&self, format: NumberFormat, out: &mut Vec<u8>) {
        format.push(out, self.name.into(), 4);
        format.push(out, self.kind.0.into(), 4);
        for word in [self.flags, self.address, self.offset, self.size] {
            format.push(out, word, format.word());
        }
        format.push(out, self.link.into(), 4);
        format.push(out, self.info.into(), 4);
        format.push(out, self.align, format.word());
        format.push(out, self.entry_size, format.word());
    }

    /// Where its bytes end in the file.
    pub(super) fn file_end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

/// An entry of the dynamic section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DynamicEntry {
    pub(super) tag: DynamicTag,
    pub(super) value: u64,
}

impl DynamicEntry {
    /// Its size in bytes.
    pub(super) fn bytes(format: NumberFormat) -> u64 {
        2 * format.word() as u64
    }

    pub(super) fn read(format: NumberFormat, bytes: &[u8], at: u64) -> Result<Self, Refused> {
        let mut read = NumberReader::new(format, bytes, at);
        Ok(Self { tag: DynamicTag(read.word()? as i64), value: read.word()? })
    }

    pub(super) fn encode(&self, format: NumberFormat, out: &mut Vec<u8>) {
        format.push(out, self.tag.0 as u64, format.word());
        format.push(out, self.value, format.word());
    }
}
