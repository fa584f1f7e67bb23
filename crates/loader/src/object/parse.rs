//! From bytes to an [`ElfObject`].
//!
//! The rules are those of the loader, not of the linker: only program headers count (section
//! headers may be stripped), and addresses are found through the PT_LOAD segments.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use ::object::elf::{
    DT_AUDIT, DT_AUXILIARY, DT_DEPAUDIT, DT_FILTER, DT_FLAGS_1, DT_NEEDED, DT_NULL, DT_RPATH,
    DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, DT_VERNEED, DT_VERNEEDNUM, DynamicTag,
    FileHeader32, FileHeader64, PF_X, PN_XNUM, PT_DYNAMIC, PT_GNU_PROPERTY, PT_GNU_STACK,
    PT_INTERP, PT_LOAD, PT_NOTE,
};
use ::object::read::elf::{Dyn, FileHeader, ProgramHeader};
use ::object::{Endianness, FileKind, pod};

use super::notes::{abi_tag, isa_needed};
use super::texts::StringTable;
use super::{Dependency, ElfClass, ElfError, ElfObject, Identity, LoadHeader, Tag, versions};
use crate::source::ByteSource;

/// One read that usually holds all headers.
const HEAD: usize = 4096;
/// The dynamic section: libraries have some 30 entries of 16 bytes, and one more for each
/// DT_NEEDED.
const DYNAMIC_LIMIT: usize = 1 << 20;
/// All notes of one segment; those that count are some 100 bytes.
const NOTES_LIMIT: usize = 64 << 10;

/// The smallest page that is mapped.
const PAGE: u64 = 4096;
/// The bytes of `e_ident` that nothing uses.
const PADDING: std::ops::Range<usize> = 9..16;
/// The smallest file that a loader takes for one of another machine: a 64-bit ELF header.
const HEADER: usize = 64;

/// What the file is for, where it is long enough that a loader looks.
pub(super) fn identity(source: &impl ByteSource) -> Option<Identity> {
    let head = source.at_most(0, HEAD).ok()?;
    let ident = head.get(..HEADER)?;
    let class = match ident[4] {
        1 => ElfClass::Elf32,
        2 => ElfClass::Elf64,
        _ => return None,
    };
    let machine = [ident[18], ident[19]];
    let big_endian = ident[5] == 2;
    let machine =
        if big_endian { u16::from_be_bytes(machine) } else { u16::from_le_bytes(machine) };
    ident.starts_with(b"\x7fELF").then_some(Identity { class, big_endian, machine })
}

/// Reads the whole object.
pub(super) fn object(source: &impl ByteSource) -> Result<ElfObject, ElfError> {
    let head = source.at_most(0, HEAD)?;
    match FileKind::parse(&head[..]) {
        Ok(FileKind::Elf32) => read::<FileHeader32<Endianness>>(source, &head, ElfClass::Elf32),
        Ok(FileKind::Elf64) => read::<FileHeader64<Endianness>>(source, &head, ElfClass::Elf64),
        _ if head.starts_with(b"\x7fELF") => Err(ElfError::Truncated),
        _ => Err(ElfError::NotElf),
    }
}

fn read<H: FileHeader<Endian = Endianness>>(
    source: &impl ByteSource,
    head: &[u8],
    class: ElfClass,
) -> Result<ElfObject, ElfError> {
    let header = H::parse(head).map_err(|_| ElfError::Damaged("its header"))?;
    let endian = header.endian().map_err(|_| ElfError::Damaged("its byte order"))?;
    let table = segment_bytes::<H>(source, header, endian)?;
    let segments = pod::slice_from_all_bytes::<H::ProgramHeader>(&table)
        .map_err(|()| ElfError::Damaged("its program headers"))?;
    whole::<H>(source.length(), segments, endian)?;
    let mut object = bare::<H>(header, head, segments, endian, class);
    let find = |kind| segments.iter().find(|segment| segment.p_type(endian) == kind);
    let mut texts = StringTable::new(source);
    if let Some(interpreter) = find(PT_INTERP) {
        let (at, size) = interpreter.file_range(endian);
        object.interpreter = Some(texts.read(at, size)?);
    }
    for segment in segments {
        let (at, size) = segment.file_range(endian);
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(NOTES_LIMIT);
        match segment.p_type(endian) {
            PT_GNU_PROPERTY => {
                object.isa_needed = isa_needed(&source.at_most(at, size)?, class, endian);
            }
            PT_NOTE if object.abi_tag.is_none() => {
                object.abi_tag = abi_tag(&source.at_most(at, size)?, endian);
            }
            _ => {}
        }
    }
    if let Some(segment) = find(PT_DYNAMIC) {
        let (at, size) = segment.file_range(endian);
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(DYNAMIC_LIMIT);
        let mut bytes = source.at_most(at, size)?;
        bytes.truncate(bytes.len() - bytes.len() % size_of::<H::Dyn>());
        let entries = pod::slice_from_all_bytes::<H::Dyn>(&bytes)
            .map_err(|()| ElfError::Damaged("its dynamic section"))?;
        DynamicEntries::<H>::new(entries, segments, endian).read(&mut texts, &mut object)?;
    }
    Ok(object)
}

/// Whether what is to be loaded is there. A loader maps whole pages: what is missing of the last
/// one is zero, but of those behind the file's end no byte can be read.
fn whole<H: FileHeader<Endian = Endianness>>(
    length: u64,
    segments: &[H::ProgramHeader],
    endian: Endianness,
) -> Result<(), ElfError> {
    let is_there = |segment: &H::ProgramHeader| {
        let (at, size) = segment.file_range(endian);
        let end = at.checked_add(size);
        match segment.p_type(endian) {
            PT_DYNAMIC => end.is_some_and(|end| end <= length),
            PT_LOAD if size > 0 => end.is_some_and(|end| end <= length.next_multiple_of(PAGE)),
            _ => true,
        }
    };
    if segments.iter().all(is_there) { Ok(()) } else { Err(ElfError::Truncated) }
}

/// What the headers say.
fn bare<H: FileHeader<Endian = Endianness>>(
    header: &H,
    head: &[u8],
    segments: &[H::ProgramHeader],
    endian: Endianness,
    class: ElfClass,
) -> ElfObject {
    let of = |kind| segments.iter().filter(move |segment| segment.p_type(endian) == kind);
    ElfObject {
        class,
        big_endian: endian == Endianness::Big,
        machine: header.e_machine(endian).0,
        kind: header.e_type(endian).0,
        os_abi: header.e_ident().os_abi.0,
        abi_version: header.e_ident().abi_version,
        flags: header.e_flags(endian).0,
        interpreter: None,
        is_dynamic: of(PT_DYNAMIC).next().is_some(),
        soname: None,
        dependencies: Vec::new(),
        rpath: None,
        runpath: None,
        audit: Vec::new(),
        flags_1: 0,
        isa_needed: 0,
        abi_tag: None,
        verneed: Vec::new(),
        header: LoadHeader {
            ident_version: header.e_ident().version.0,
            padded: head[PADDING].iter().all(|byte| *byte == 0),
            version: header.e_version(endian),
            entry_size: header.e_phentsize(endian),
            loadable: of(PT_LOAD).next().is_some(),
            aligned: of(PT_LOAD).all(|segment| {
                let (at, address) = (segment.p_offset(endian), segment.p_vaddr(endian));
                Into::<u64>::into(address).wrapping_sub(at.into()).is_multiple_of(4096)
            }),
            alignments: of(PT_LOAD)
                .fold(0, |all, segment| all | Into::<u64>::into(segment.p_align(endian))),
            executable_stack: of(PT_GNU_STACK)
                .last()
                .is_none_or(|segment| segment.p_flags(endian).0 & PF_X.0 != 0),
            empty_dynamic: of(PT_DYNAMIC).any(|segment| segment.p_filesz(endian).into() == 0),
        },
    }
}

/// The table of program headers.
fn segment_bytes<H: FileHeader<Endian = Endianness>>(
    source: &impl ByteSource,
    header: &H,
    endian: Endianness,
) -> Result<Vec<u8>, ElfError> {
    let count = header.e_phnum(endian);
    if count == 0 {
        return Ok(Vec::new());
    }
    // A count that does not fit is kept in a section header; only core files have so many.
    if count == PN_XNUM {
        return Err(ElfError::Excessive);
    }
    let size = size_of::<H::ProgramHeader>();
    if usize::from(header.e_phentsize(endian)) != size {
        return Err(ElfError::Damaged("its program headers' size"));
    }
    let length = usize::from(count) * size;
    source.exactly(header.e_phoff(endian).into(), length as u64, length)
}

/// The entries of the dynamic section, up to DT_NULL.
struct DynamicEntries<'a, H: FileHeader> {
    tags: Vec<(DynamicTag, u64)>,
    segments: &'a [H::ProgramHeader],
    endian: Endianness,
}

impl<'a, H: FileHeader<Endian = Endianness>> DynamicEntries<'a, H> {
    fn new(entries: &[H::Dyn], segments: &'a [H::ProgramHeader], endian: Endianness) -> Self {
        let tags = entries
            .iter()
            .map(|entry| (entry.d_tag(endian), entry.d_val(endian).into()))
            .take_while(|(tag, _)| *tag != DT_NULL)
            .collect();
        DynamicEntries { tags, segments, endian }
    }

    fn last(&self, wanted: DynamicTag) -> Option<u64> {
        self.tags.iter().rev().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value)
    }

    /// Where in the file the byte lies that is loaded at `address`.
    fn file_offset(&self, address: u64) -> Option<u64> {
        let endian = self.endian;
        let loads = self.segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD);
        loads.into_iter().find_map(|segment| {
            let within = address.checked_sub(segment.p_vaddr(endian).into())?;
            let (at, size) = segment.file_range(endian);
            if within < size { at.checked_add(within) } else { None }
        })
    }

    fn read(
        &self,
        texts: &mut StringTable<'_, impl ByteSource>,
        to: &mut ElfObject,
    ) -> Result<(), ElfError> {
        to.flags_1 = self.last(DT_FLAGS_1).unwrap_or(0);
        let Some(address) = self.last(DT_STRTAB) else {
            return match self.tags.iter().find(|(tag, _)| TEXT_TAGS.contains(tag)) {
                Some(_) => Err(ElfError::Damaged("it has no string table")),
                None => Ok(()),
            };
        };
        let table = self
            .file_offset(address)
            .ok_or(ElfError::Damaged("its string table is in no segment"))?;
        texts.set_table(table, self.last(DT_STRSZ).unwrap_or(u64::MAX));
        texts.ahead(self.tags.iter().filter(|(tag, _)| TEXT_TAGS.contains(tag)).map(|tag| tag.1));
        for (tag, offset) in &self.tags {
            let tag = match *tag {
                DT_NEEDED => Tag::Needed,
                DT_FILTER => Tag::Filter,
                DT_AUXILIARY => Tag::Auxiliary,
                _ => continue,
            };
            to.dependencies.push(Dependency { tag, name: texts.at(*offset)? });
        }
        let mut text = |tag| self.last(tag).map(|offset| texts.at(offset)).transpose();
        to.soname = text(DT_SONAME)?;
        to.rpath = text(DT_RPATH)?;
        to.runpath = text(DT_RUNPATH)?;
        to.audit = [text(DT_AUDIT)?, text(DT_DEPAUDIT)?].into_iter().flatten().collect();
        if let (Some(address), Some(count)) = (self.last(DT_VERNEED), self.last(DT_VERNEEDNUM)) {
            let at = self
                .file_offset(address)
                .ok_or(ElfError::Damaged("its version table is in no segment"))?;
            to.verneed = versions::needs(texts, at, count, self.endian)?;
        }
        Ok(())
    }
}

const TEXT_TAGS: &[DynamicTag] =
    &[DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH, DT_FILTER, DT_AUXILIARY, DT_AUDIT, DT_DEPAUDIT];

/// The text's bytes as a name.
pub(super) fn name(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
