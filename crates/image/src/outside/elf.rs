//! The interpreter and the libraries that an ELF file names (elf(5)): 64-bit, little-endian.

use std::collections::HashSet;
use std::path::PathBuf;

use image_format::squash::SquashReadError;
use image_format::tree::{FileNodeId, PathTarget, clean};

use super::{OutsideSurvey, Reference, path};

/// Program headers that are looked at, and entries of the dynamic section.
const MOST_HEADERS: u64 = 256;
const MOST_DYNAMIC: u64 = 4096;
/// Bytes of a name.
const MOST_NAME: usize = 4096;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// Fills a buffer with what a file has at an offset, as pread(2) does.
type Read<'a> = &'a dyn Fn(u64, &mut [u8]) -> Result<usize, SquashReadError>;

/// A file, as far as its program headers say.
pub(crate) struct ElfReader<'a> {
    read: Read<'a>,
    headers: Vec<ElfSegment>,
}

struct ElfSegment {
    kind: u64,
    offset: u64,
    address: u64,
    length: u64,
}

impl OutsideSurvey<'_> {
    /// Looks at an ELF file; at what only looks like one, not further than that shows.
    pub(super) fn elf(
        &mut self,
        id: FileNodeId,
        names: &HashSet<&[u8]>,
    ) -> Result<(), SquashReadError> {
        let Some(node) = self.node(id)? else { return Ok(()) };
        let image = self.image;
        let file = image.open(node)?;
        let read = |offset, buffer: &mut [u8]| image.read_at(&file, offset, buffer);
        let Some(elf) = ElfReader::new(&read)? else { return Ok(()) };
        if let Some(interpreter) = elf.interpreter()?
            && interpreter.starts_with(b"/")
        {
            self.point_to(Reference::Interpreter, path(&interpreter), id);
        }
        for name in elf.needed()? {
            if name.starts_with(b"/") {
                self.point_to(Reference::Library, path(&name), id);
            } else if let Some(beside) = self.beside(&name, id) {
                // Where it is not packed, what is missing is the name that the file says.
                if !matches!(self.tree.find(&clean(&beside)), PathTarget::Inside(_)) {
                    self.add(Reference::Library, path(&name), id);
                }
            } else if !names.contains(&name[..]) {
                self.add(Reference::Library, path(&name), id);
            }
        }
        Ok(())
    }

    /// The path of a library that is named from where the file lies.
    fn beside(&self, name: &[u8], id: FileNodeId) -> Option<PathBuf> {
        let from = |token: &&[u8]| name.strip_prefix(*token).filter(|it| it.starts_with(b"/"));
        let below = [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(from)?;
        Some(self.tree.place(id).parent()?.join(path(&below[1..])))
    }
}

impl<'a> ElfReader<'a> {
    /// None where it is no such file.
    pub(crate) fn new(read: Read<'a>) -> Result<Option<ElfReader<'a>>, SquashReadError> {
        let mut elf = ElfReader { read, headers: Vec::new() };
        // ELFCLASS64, ELFDATA2LSB.
        if !elf.bytes(0, 6)?.ends_with(&[2, 1]) {
            return Ok(None);
        }
        let start = elf.number(32, 8)?;
        let (size, count) = (elf.number(54, 2)?, elf.number(56, 2)?);
        for number in 0..count.min(MOST_HEADERS) {
            let at = start.saturating_add(number * size);
            let field = |offset: u64, length| elf.number(at.saturating_add(offset), length);
            let header = ElfSegment {
                kind: field(0, 4)?,
                offset: field(8, 8)?,
                address: field(16, 8)?,
                length: field(32, 8)?,
            };
            elf.headers.push(header);
        }
        Ok(Some(elf))
    }

    fn header(&self, kind: u64) -> Option<&ElfSegment> {
        self.headers.iter().find(|header| header.kind == kind)
    }

    fn interpreter(&self) -> Result<Option<Vec<u8>>, SquashReadError> {
        self.header(PT_INTERP).map(|header| self.name(header.offset)).transpose()
    }

    /// The names in DT_NEEDED.
    fn needed(&self) -> Result<Vec<Vec<u8>>, SquashReadError> {
        self.strings(&[DT_NEEDED])
    }

    /// DT_RPATH and DT_RUNPATH: directories between colons.
    pub(crate) fn search_paths(&self) -> Result<Vec<Vec<u8>>, SquashReadError> {
        self.strings(&[DT_RPATH, DT_RUNPATH])
    }

    /// The texts that entries of the dynamic section point to.
    fn strings(&self, tags: &[u64]) -> Result<Vec<Vec<u8>>, SquashReadError> {
        let Some(dynamic) = self.header(PT_DYNAMIC) else { return Ok(Vec::new()) };
        let (mut names, mut strings) = (Vec::new(), None);
        for number in 0..(dynamic.length / 16).min(MOST_DYNAMIC) {
            let at = dynamic.offset.saturating_add(number * 16);
            let (tag, value) = (self.number(at, 8)?, self.number(at.saturating_add(8), 8)?);
            match tag {
                0 => break,
                DT_STRTAB => strings = self.offset(value),
                tag if tags.contains(&tag) => names.push(value),
                _ => {}
            }
        }
        let Some(strings) = strings else { return Ok(Vec::new()) };
        names.into_iter().map(|name| self.name(strings.saturating_add(name))).collect()
    }

    /// Where in the file an address is loaded from.
    fn offset(&self, address: u64) -> Option<u64> {
        let mut loaded = self.headers.iter().filter(|header| header.kind == PT_LOAD);
        loaded.find_map(|header| {
            let within = address.checked_sub(header.address)?;
            (within < header.length).then(|| header.offset.saturating_add(within))
        })
    }

    /// The bytes up to the next NUL.
    fn name(&self, offset: u64) -> Result<Vec<u8>, SquashReadError> {
        let mut bytes = self.bytes(offset, MOST_NAME)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(0);
        bytes.truncate(end);
        Ok(bytes)
    }

    fn number(&self, offset: u64, length: usize) -> Result<u64, SquashReadError> {
        let mut number = [0; 8];
        let bytes = self.bytes(offset, length)?;
        number[..bytes.len()].copy_from_slice(&bytes);
        Ok(u64::from_le_bytes(number))
    }

    /// As many bytes as there are, at most so many.
    fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>, SquashReadError> {
        let mut bytes = vec![0; length];
        let length = (self.read)(offset, &mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}
