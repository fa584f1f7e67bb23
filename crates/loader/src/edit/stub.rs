//! A library without code, that only needs others.
//!
//! What loaders insist on is in it: a string table, a symbol table with the null symbol, DT_HASH
//! (musl reads one of the hash tables always), PT_GNU_STACK (without it, the stack becomes
//! executable). One writable segment holds all, since loaders before glibc 2.35 write to the
//! dynamic section.

use ::object::elf;

use super::format::NumberFormat;
use super::records::{DynamicEntry, ElfHeader, ElfProgramHeader, Section};
use super::references::hash_word;
use super::{ElfIdentity, Hazard, Refused};

/// A library named `soname` without code that needs `needed`, in this order, for the machine of
/// `like`. For closure mode: an executable that needs just this.
///
/// # Errors
/// [`Refused::BadName`] for a name that is empty or has a NUL; [`Hazard::Mips`], where the loader
/// wants a global offset table, too.
pub fn stub(like: &ElfIdentity, soname: &[u8], needed: &[Vec<u8>]) -> Result<Vec<u8>, Refused> {
    if matches!(elf::Machine(like.machine), elf::EM_MIPS | elf::EM_MIPS_RS3_LE) {
        return Err(Hazard::Mips.into());
    }
    for name in needed.iter().map(Vec::as_slice).chain([soname]) {
        if name.is_empty() || name.contains(&0) {
            return Err(Refused::BadName(String::from_utf8_lossy(name).into_owned()));
        }
    }
    Ok(Stub::new(NumberFormat::of(like), like, soname, needed).write(like))
}

/// The parts of the library, each at its place.
struct Stub {
    format: NumberFormat,
    /// In the order of the section table, without the null section.
    parts: Vec<StubPart>,
    segment_align: u64,
}

struct StubPart {
    name: &'static [u8],
    section: Section,
    bytes: Vec<u8>,
}

/// PT_LOAD, PT_DYNAMIC, PT_GNU_STACK.
const SEGMENTS: u64 = 3;
/// The places of the parts.
const HASH: usize = 0;
const SYMBOLS: usize = 1;
const STRINGS: usize = 2;
const DYNAMIC: usize = 3;

impl Stub {
    fn new(format: NumberFormat, like: &ElfIdentity, soname: &[u8], needed: &[Vec<u8>]) -> Self {
        let mut strings = vec![0];
        let mut add = |text: &[u8]| {
            let at = strings.len() as u64;
            strings.extend_from_slice(text);
            strings.push(0);
            at
        };
        let needed: Vec<u64> = needed.iter().map(|name| add(name)).collect();
        let soname = add(soname);
        let (symbol, hash) =
            (if format.wide { 24 } else { 16 }, hash_word(format, elf::Machine(like.machine)));
        let mut hash_table = Vec::new();
        // One bucket, which is empty; one chain, of the null symbol.
        for word in [1, 1, 0, 0] {
            format.push(&mut hash_table, word, hash);
        }
        // Its entries hold addresses, which are known once all sizes are.
        let entries = needed.len() + 7;
        let dynamic = vec![0; entries * DynamicEntry::bytes(format) as usize];
        let parts = vec![
            part(b".hash", elf::SHT_HASH, 2, 0, hash as u64, hash_table),
            part(b".dynsym", elf::SHT_DYNSYM, 3, 1, symbol, vec![0; symbol as usize]),
            part(b".dynstr", elf::SHT_STRTAB, 0, 0, 0, strings),
            part(b".dynamic", elf::SHT_DYNAMIC, 3, 0, DynamicEntry::bytes(format), dynamic),
        ];
        let small_pages = [elf::EM_386, elf::EM_X86_64, elf::EM_S390, elf::EM_RISCV];
        let segment_align =
            if small_pages.contains(&elf::Machine(like.machine)) { 0x1000 } else { 0x10000 };
        let mut stub = Self { format, parts, segment_align };
        stub.place();
        stub.fill_dynamic(&needed, soname);
        stub
    }

    /// One part behind the other; address and offset are the same.
    fn place(&mut self) {
        let mut at =
            ElfHeader::bytes(self.format) + SEGMENTS * ElfProgramHeader::bytes(self.format);
        for part in &mut self.parts {
            at = at.next_multiple_of(8);
            part.section.address = at;
            part.section.offset = at;
            part.section.size = part.bytes.len() as u64;
            at += part.section.size;
        }
        self.parts[DYNAMIC].section.flags |= elf::SHF_WRITE.0;
    }

    fn fill_dynamic(&mut self, needed: &[u64], soname: u64) {
        let section = |index: usize| &self.parts[index].section;
        let mut entries: Vec<(elf::DynamicTag, u64)> =
            needed.iter().map(|name| (elf::DT_NEEDED, *name)).collect();
        entries.extend([
            (elf::DT_SONAME, soname),
            (elf::DT_HASH, section(HASH).address),
            (elf::DT_STRTAB, section(STRINGS).address),
            (elf::DT_SYMTAB, section(SYMBOLS).address),
            (elf::DT_STRSZ, section(STRINGS).size),
            (elf::DT_SYMENT, section(SYMBOLS).entry_size),
            (elf::DT_NULL, 0),
        ]);
        let mut bytes = Vec::new();
        for (tag, value) in entries {
            DynamicEntry { tag, value }.encode(self.format, &mut bytes);
        }
        self.parts[DYNAMIC].bytes = bytes;
    }

    fn write(&self, like: &ElfIdentity) -> Vec<u8> {
        let mut bytes = vec![0; ElfHeader::bytes(self.format) as usize];
        self.segments().iter().for_each(|segment| segment.encode(self.format, &mut bytes));
        for part in &self.parts {
            bytes.resize(part.section.offset as usize, 0);
            bytes.extend_from_slice(&part.bytes);
        }
        let mut names = vec![0];
        let mut sections = Vec::new();
        Section::default().encode(self.format, &mut sections);
        for part in &self.parts {
            let name = add_name(&mut names, part.name);
            Section { name, ..part.section.clone() }.encode(self.format, &mut sections);
        }
        let own_name = add_name(&mut names, b".shstrtab");
        let section = Section {
            name: own_name,
            kind: elf::SHT_STRTAB,
            offset: bytes.len() as u64,
            size: names.len() as u64,
            align: 1,
            ..Section::default()
        };
        section.encode(self.format, &mut sections);
        bytes.extend_from_slice(&names);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let header = self.header(like, bytes.len() as u64);
        bytes[..header.len()].copy_from_slice(&header);
        bytes.extend(sections);
        bytes
    }

    fn segments(&self) -> [ElfProgramHeader; SEGMENTS as usize] {
        let dynamic = &self.parts[DYNAMIC].section;
        let segment = |kind, flags, at, size, align| ElfProgramHeader {
            kind,
            flags,
            offset: at,
            address: at,
            physical: at,
            file_size: size,
            memory_size: size,
            align,
        };
        let flags = elf::PF_R.0 | elf::PF_W.0;
        [
            segment(elf::PT_LOAD, flags, 0, dynamic.file_end(), self.segment_align),
            segment(elf::PT_DYNAMIC, flags, dynamic.offset, dynamic.size, 8),
            segment(elf::PT_GNU_STACK, flags, 0, 0, 16),
        ]
    }

    fn header(&self, like: &ElfIdentity, sections_at: u64) -> Vec<u8> {
        let (format, push) = (self.format, |out: &mut Vec<u8>, values: &[u64], size| {
            for value in values {
                self.format.push(out, *value, size);
            }
        });
        let class = if like.wide { elf::ELFCLASS64 } else { elf::ELFCLASS32 };
        let data = if like.big_endian { elf::ELFDATA2MSB } else { elf::ELFDATA2LSB };
        let mut out = elf::ELFMAG.to_vec();
        out.extend([class.0, data.0, elf::EV_CURRENT.0, like.os_abi, like.abi_version]);
        out.resize(16, 0);
        push(&mut out, &[elf::ET_DYN.0.into(), like.machine.into()], 2);
        push(&mut out, &[elf::EV_CURRENT.0.into()], 4);
        push(&mut out, &[0, ElfHeader::bytes(format), sections_at], format.word());
        push(&mut out, &[like.flags.into()], 4);
        let sections = self.parts.len() as u64 + 2;
        let counts = [
            ElfHeader::bytes(format),
            ElfProgramHeader::bytes(format),
            SEGMENTS,
            Section::bytes(format),
            sections,
            sections - 1,
        ];
        push(&mut out, &counts, 2);
        out
    }
}

fn add_name(names: &mut Vec<u8>, name: &[u8]) -> u32 {
    let at = names.len() as u32;
    names.extend_from_slice(name);
    names.push(0);
    at
}

/// `link` and `info` are section indices, the null section counted.
fn part(
    name: &'static [u8],
    kind: elf::SectionType,
    link: u32,
    info: u32,
    entry_size: u64,
    bytes: Vec<u8>,
) -> StubPart {
    let flags = elf::SHF_ALLOC.0;
    let align = if kind == elf::SHT_STRTAB { 1 } else { 8 };
    let section = Section { kind, flags, link, info, entry_size, align, ..Section::default() };
    StubPart { name, section, bytes }
}
