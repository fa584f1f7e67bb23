//! What an ELF file says of its own search.
//!
//! The rules are those of the loader, not of the linker: only program headers count (section
//! headers may be stripped), addresses are found through the PT_LOAD segments, and of a tag
//! that is given twice the last counts, save DT_NEEDED (glibc, elf/get-dynamic-info.h).

use std::io;
use std::path::Path;

use object::elf::{
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, FileHeader32,
    FileHeader64, PN_XNUM, PT_DYNAMIC, PT_INTERP, PT_LOAD,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, pod};
use recording::Image;

use crate::source::{Source, open};

/// Why a file has no facts.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A folder, a device, a pipe.
    #[error("not a regular file")]
    NotAFile,
    /// Another kind of file: a script, data.
    #[error("not an ELF file")]
    NotElf,
    /// It ends before what its headers promise.
    #[error("a truncated ELF file")]
    Truncated,
    /// What a header says makes no sense.
    #[error("a damaged ELF file: {0}")]
    Damaged(&'static str),
    /// A table or a text larger than any linker writes.
    #[error("a damaged ELF file: a table that is too large")]
    Excessive,
}

/// One read that usually holds all headers.
const HEAD: usize = 4096;
/// The dynamic section: libraries have some 30 entries of 16 bytes, and one more for each
/// DT_NEEDED.
const DYNAMIC_LIMIT: usize = 1 << 20;
/// One text. An RPATH of 1000 Spack prefixes is some 100 kB.
const TEXT_LIMIT: usize = 1 << 20;
/// All texts of one file.
const TEXTS_LIMIT: usize = 4 << 20;

/// What the ELF file at `path` says of its own search. A statically linked program says
/// nothing, which is no error.
///
/// # Errors
/// [`ElfError`]. A file that is not ELF is [`ElfError::NotElf`].
pub fn facts(path: &Path) -> Result<Image, ElfError> {
    facts_of(&open(path)?)
}

fn facts_of(source: &impl Source) -> Result<Image, ElfError> {
    let head = source.at_most(0, HEAD)?;
    match FileKind::parse(&head[..]) {
        Ok(FileKind::Elf32) => read::<FileHeader32<Endianness>>(source, &head),
        Ok(FileKind::Elf64) => read::<FileHeader64<Endianness>>(source, &head),
        _ if head.starts_with(b"\x7fELF") => Err(ElfError::Truncated),
        _ => Err(ElfError::NotElf),
    }
}

fn read<H: FileHeader<Endian = Endianness>>(
    source: &impl Source,
    head: &[u8],
) -> Result<Image, ElfError> {
    let header = H::parse(head).map_err(|_| ElfError::Damaged("its header"))?;
    let endian = header.endian().map_err(|_| ElfError::Damaged("its byte order"))?;
    let table = segment_bytes::<H>(source, header, endian)?;
    let segments = pod::slice_from_all_bytes::<H::ProgramHeader>(&table)
        .map_err(|()| ElfError::Damaged("its program headers"))?;
    let find = |kind| segments.iter().find(|segment| segment.p_type(endian) == kind);
    let mut texts = Texts { source, left: TEXTS_LIMIT };
    let mut image = Image::default();
    if let Some(interpreter) = find(PT_INTERP) {
        let (at, size) = interpreter.file_range(endian);
        image.interpreter = Some(texts.read(at, size)?);
    }
    if let Some(segment) = find(PT_DYNAMIC) {
        let (at, size) = segment.file_range(endian);
        // The last segment of a cut file may be whole in what counts: up to DT_NULL.
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(DYNAMIC_LIMIT);
        let mut bytes = source.at_most(at, size)?;
        bytes.truncate(bytes.len() - bytes.len() % size_of::<H::Dyn>());
        let entries = pod::slice_from_all_bytes::<H::Dyn>(&bytes)
            .map_err(|()| ElfError::Damaged("its dynamic section"))?;
        read_dynamic::<H>(entries, segments, endian, &mut texts, &mut image)?;
    }
    Ok(image)
}

/// The table of program headers.
fn segment_bytes<H: FileHeader<Endian = Endianness>>(
    source: &impl Source,
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

/// Takes in the entries of the dynamic section.
fn read_dynamic<H: FileHeader<Endian = Endianness>>(
    entries: &[H::Dyn],
    segments: &[H::ProgramHeader],
    endian: Endianness,
    texts: &mut Texts<'_, impl Source>,
    image: &mut Image,
) -> Result<(), ElfError> {
    let tags: Vec<(u32, u64)> = entries
        .iter()
        .filter_map(|entry| Some((entry.tag32(endian)?, entry.d_val(endian).into())))
        .take_while(|(tag, _)| *tag != DT_NULL)
        .collect();
    let last = |wanted| tags.iter().rev().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
    let Some(address) = last(DT_STRTAB) else {
        return match tags.iter().find(|(tag, _)| TEXT_TAGS.contains(tag)) {
            Some(_) => Err(ElfError::Damaged("it has no string table")),
            None => Ok(()),
        };
    };
    let table = file_offset::<H>(segments, endian, address)
        .ok_or(ElfError::Damaged("its string table is in no segment"))?;
    let size = last(DT_STRSZ).unwrap_or(u64::MAX);
    let mut text = |offset: u64| {
        let left = size.checked_sub(offset).ok_or(ElfError::Damaged("a text beyond its table"))?;
        texts.read(table.checked_add(offset).ok_or(ElfError::Truncated)?, left)
    };
    for (_, offset) in tags.iter().filter(|(tag, _)| *tag == DT_NEEDED) {
        image.needed.push(text(*offset)?);
    }
    image.soname = last(DT_SONAME).map(&mut text).transpose()?;
    image.rpath =
        last(DT_RPATH).map(&mut text).transpose()?.as_deref().map_or_else(Vec::new, split);
    image.runpath =
        last(DT_RUNPATH).map(&mut text).transpose()?.as_deref().map_or_else(Vec::new, split);
    Ok(())
}

const TEXT_TAGS: &[u32] = &[DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH];

/// Where in the file the byte lies that is loaded at `address`.
fn file_offset<H: FileHeader<Endian = Endianness>>(
    segments: &[H::ProgramHeader],
    endian: Endianness,
    address: u64,
) -> Option<u64> {
    segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
        let within = address.checked_sub(segment.p_vaddr(endian).into())?;
        let (at, size) = segment.file_range(endian);
        if within < size { at.checked_add(within) } else { None }
    })
}

/// The folders of a search list. A list that is empty names none; an empty element names the
/// working folder, and is kept.
fn split(list: &str) -> Vec<String> {
    if list.is_empty() { Vec::new() } else { list.split(':').map(str::to_owned).collect() }
}

/// Reads texts, and keeps count of them: entries may all name the same long one.
struct Texts<'a, S> {
    source: &'a S,
    left: usize,
}

impl<S: Source> Texts<'_, S> {
    /// The text at `offset` up to its NUL, within `room` bytes; lossily decoded.
    fn read(&mut self, offset: u64, room: u64) -> Result<String, ElfError> {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let mut ask = 256;
        loop {
            let bytes = self.source.at_most(offset, ask.min(room))?;
            if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
                self.left = self.left.checked_sub(end).ok_or(ElfError::Excessive)?;
                return Ok(String::from_utf8_lossy(&bytes[..end]).into_owned());
            }
            if bytes.len() < ask {
                return Err(ElfError::Truncated);
            }
            if ask >= TEXT_LIMIT {
                return Err(ElfError::Excessive);
            }
            ask *= 8;
        }
    }
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
