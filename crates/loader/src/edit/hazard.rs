//! What makes an edit of a sound file dangerous.

use std::ops::Range;

use ::object::elf;

use super::elf::ElfFile;
use super::records::Section;
use super::yielding::{VERSION_TAGS, is_version_table, tag_of};
use super::{Hazard, Refused};

const DT_GNU_PRELINKED: elf::DynamicTag = elf::DynamicTag(0x6fff_fdf5);

/// The dynamic loader's own names: glibc's `ld.so` of all machines, musl's (which is also its
/// libc), uClibc's.
const LOADERS: &[&[u8]] =
    &[b"ld-linux", b"ld-musl-", b"ld64.so", b"ld.so", b"ld-uClibc", b"ld64-uClibc", b"libc.musl-"];

/// Whether a library of this name, with or without directories, is the dynamic loader;
/// `interpreter` is the file's own.
pub(super) fn is_loader(name: &[u8], interpreter: Option<&[u8]>) -> bool {
    let base = base(name);
    // musl's linker name: what it calls its SONAME, too.
    base == b"libc.so"
        || LOADERS.iter().any(|loader| base.starts_with(loader))
        || interpreter.is_some_and(|path| self::base(path) == base)
}

fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Refuses files that must be left alone whatever the request.
pub(super) fn check(elf: &ElfFile<'_>) -> Result<(), Refused> {
    let head = &elf.bytes[..elf.bytes.len().min(1024)];
    // UPX's header follows the program headers (UPX, src/p_lx_elf.cpp).
    if memchr::memmem::find(head, b"UPX!").is_some() {
        return Err(Hazard::Packed.into());
    }
    if matches!(elf.header.machine, elf::EM_MIPS | elf::EM_MIPS_RS3_LE) {
        return Err(Hazard::Mips.into());
    }
    let has = |tag: elf::DynamicTag| elf.dynamic.value(tag).is_some();
    let prelink = [DT_GNU_PRELINKED, elf::DT_GNU_CONFLICT, elf::DT_GNU_LIBLIST];
    let liblist = elf.sections.iter().any(|section| section.kind == elf::SHT_GNU_LIBLIST);
    if liblist || prelink.into_iter().any(has) {
        return Err(Hazard::Prelinked.into());
    }
    let soname = elf.dynamic.value(elf::DT_SONAME).map(|offset| elf.text(offset)).transpose()?;
    if soname.is_some_and(|soname| is_loader(soname, None)) {
        return Err(Refused::Loader);
    }
    let needs = has(elf::DT_NEEDED);
    let flags = elf.dynamic.value(elf::DT_FLAGS_1).unwrap_or(0);
    if !needs && elf.interpreter().is_none() && flags & elf::DF_1_PIE.0 != 0 {
        return Err(Refused::Static);
    }
    check_links(elf)?;
    check_agreement(elf)
}

/// The tables that an edit reads or moves are, in the section headers, where the loader finds
/// them, each once.
fn check_agreement(elf: &ElfFile<'_>) -> Result<(), Refused> {
    let disagree = Refused::Damaged("its section headers and its segments disagree");
    let read = |section: &&Section| is_version_table(section) || section.kind == elf::SHT_DYNSYM;
    for section in elf.sections.iter().filter(read) {
        let (at, left) = elf.file_offset(section.address)?;
        let there = at == section.offset && (1..=left).contains(&section.size);
        let alone = elf.sections.iter().filter(|other| other.kind == section.kind).count() == 1;
        let pointed_to = tag_of(section).and_then(|tag| elf.dynamic.value(tag));
        if pointed_to != Some(section.address) || !there || !alone {
            return Err(disagree);
        }
    }
    let lost = VERSION_TAGS.iter().any(|tag| {
        elf.dynamic.value(*tag).is_some()
            && !elf.sections.iter().any(|section| tag_of(section) == Some(*tag))
    });
    if lost && !elf.sections.is_empty() { Err(disagree) } else { Ok(()) }
}

/// Only the sections that hold the known references may be linked to the string table.
fn check_links(elf: &ElfFile<'_>) -> Result<(), Refused> {
    let Some(strings) = elf.strings.section else { return Ok(()) };
    if usize::from(elf.header.names) == strings {
        return Err(Hazard::SharedStrings.into());
    }
    for section in elf.sections.iter().filter(|section| section.link as usize == strings) {
        let tag = match section.kind {
            elf::SHT_NULL | elf::SHT_NOBITS => continue,
            elf::SHT_DYNAMIC if section.offset == elf.dynamic.at => continue,
            elf::SHT_DYNSYM => elf::DT_SYMTAB,
            elf::SHT_GNU_VERNEED => elf::DT_VERNEED,
            elf::SHT_GNU_VERDEF => elf::DT_VERDEF,
            _ => return Err(Hazard::SharedStrings.into()),
        };
        if elf.dynamic.value(tag) != Some(section.address) {
            return Err(Hazard::SharedStrings.into());
        }
    }
    Ok(())
}

/// Refuses where anything but the string table, or the segment that loads it, has bytes in
/// `range` of the file.
pub(super) fn check_alone(elf: &ElfFile<'_>, range: &Range<u64>) -> Result<(), Refused> {
    let meets = |other: Range<u64>| other.start < range.end && range.start < other.end;
    let own = [elf.strings.section, elf.strings.slack_section];
    let section = elf.sections_in_file().any(|(index, section)| {
        !own.contains(&Some(index)) && meets(section.offset..section.file_end())
    });
    let loads = elf.loads().filter(|load| meets(load.offset..load.file_end())).count();
    let other = elf.segments.iter().any(|segment| {
        !matches!(segment.kind, elf::PT_LOAD | elf::PT_NULL | elf::PT_GNU_RELRO)
            && meets(segment.offset..segment.file_end())
    });
    let tables = [0..u64::from(elf.header.size), elf.segment_table(), elf.section_table()];
    if section || other || loads > 1 || tables.into_iter().any(meets) {
        return Err(Hazard::Overlap.into());
    }
    Ok(())
}
