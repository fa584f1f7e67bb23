//! The program's own file (elf(5)): what of it counts, and why it cannot be packed.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::PackError;
use crate::arch::MACHINE;

/// A program header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// Where the header itself lies in the file.
    pub header: u64,
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: u64,
    pub file_size: u64,
    pub memory_size: u64,
}

pub(crate) const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
pub(crate) const PT_INTERP: u32 = 3;
pub(crate) const PF_W: u32 = 2;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const PAGE: u64 = 4096;

/// A program that is linked dynamically.
pub(crate) struct Program {
    /// Absolute, as it was named.
    pub path: PathBuf,
    /// Without symbolic links.
    pub real: PathBuf,
    pub file: File,
    pub about: Metadata,
    pub is_pie: bool,
    pub entry: u64,
    pub segments: Vec<Segment>,
    /// Its loader.
    pub interpreter: PathBuf,
}

impl Program {
    /// Reads what a program is.
    pub fn read(path: &Path) -> Result<Program, PackError> {
        let path = std::path::absolute(path).map_err(PackError::at("name", path))?;
        let real = path.canonicalize().map_err(PackError::at("find", &path))?;
        let file = File::open(&real).map_err(PackError::at("open", &path))?;
        let about = file.metadata().map_err(PackError::at("look at", &path))?;
        let refused = |reason: &str| refuse(&path, reason);
        if !about.is_file() {
            return Err(refused("it is no regular file"));
        }
        if about.mode() & 0o6000 != 0 {
            return Err(refused("it runs as another user or group (set-user-id)"));
        }
        if rustix::fs::fgetxattr(&file, "security.capability", &mut [0u8; 64]).is_ok() {
            return Err(refused("it has capabilities of its own"));
        }
        if path.to_str().is_none() {
            return Err(refused("its path is no text"));
        }
        let mut head = [0; 64];
        let is_elf = file.read_exact_at(&mut head, 0).is_ok() && head.starts_with(b"\x7fELF");
        if !is_elf && head.starts_with(b"#!") {
            return Err(refused("it is a script: pack its interpreter"));
        }
        // ELFCLASS64, ELFDATA2LSB.
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        if !is_elf || head[4..6] != [2, 1] || half(18) != MACHINE || half(54) != 56 {
            return Err(refused("it is no 64-bit ELF program of x86-64"));
        }
        let is_pie = match half(16) {
            ET_EXEC => false,
            ET_DYN => true,
            _ => return Err(refused("it is no ELF program")),
        };
        let word = |at: usize| u64_at(&head, at);
        let (headers, count, entry) = (word(32), half(56), word(24));
        let read = |at: u64, length: usize| -> Option<Vec<u8>> {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, at).is_ok().then_some(bytes)
        };
        let cut = || refused("its ELF headers are cut");
        let bytes = read(headers, usize::from(count) * 56).ok_or_else(cut)?;
        let segments: Vec<_> = bytes
            .chunks_exact(56)
            .zip(0..)
            .map(|(bytes, index)| segment(bytes, headers + 56 * index))
            .collect();
        let of_kind = |kind: u32| segments.iter().find(|segment| segment.kind == kind);
        let Some(interpreter) = of_kind(PT_INTERP) else {
            return Err(refused("it is linked statically: there is no loader to spare"));
        };
        let length = interpreter.file_size.min(4096) as usize;
        let name = read(interpreter.offset, length).ok_or_else(cut)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let interpreter = std::str::from_utf8(name).map_err(|_| cut())?.into();
        if let Some(dynamic) = of_kind(PT_DYNAMIC) {
            let length = dynamic.file_size.min(1 << 20) as usize;
            audit(&read(dynamic.offset, length).ok_or_else(cut)?).map_err(refused)?;
        }
        Ok(Program { interpreter, segments, real, file, about, is_pie, entry, path })
    }

    /// The range of its pages, where it lies that far from where it was linked to.
    pub fn range(&self, bias: u64) -> (u64, u64) {
        let loads = || self.segments.iter().filter(|segment| segment.kind == PT_LOAD);
        let start = loads().map(|segment| segment.address).min().unwrap_or(0) / PAGE * PAGE;
        let end = loads().map(|segment| segment.address.saturating_add(segment.memory_size)).max();
        let end = end.unwrap_or(0).div_ceil(PAGE) * PAGE;
        (start.wrapping_add(bias), end.wrapping_add(bias))
    }

    /// Whether the kernel maps an address of it to be written.
    pub fn is_writable(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| {
            let start = segment.address / PAGE * PAGE;
            let end = segment.address.saturating_add(segment.memory_size).div_ceil(PAGE) * PAGE;
            segment.kind == PT_LOAD && segment.flags & PF_W != 0 && (start..end).contains(&address)
        })
    }

    /// Why it is not packed.
    pub fn refuse(&self, reason: &str) -> PackError {
        refuse(&self.path, reason)
    }
}

fn refuse(path: &Path, reason: &str) -> PackError {
    PackError::Refused { program: path.to_owned(), reason: reason.to_owned() }
}

fn segment(bytes: &[u8], header: u64) -> Segment {
    let number = |at: usize| u64_at(bytes, at);
    Segment {
        header,
        kind: number(0) as u32,
        flags: (number(0) >> 32) as u32,
        offset: number(8),
        address: number(16),
        file_size: number(32),
        memory_size: number(40),
    }
}

/// Eight bytes as a number.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.iter().skip(at).take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// DT_AUDIT and DT_DEPAUDIT: libraries that watch the loader, which would see nothing.
fn audit(dynamic: &[u8]) -> Result<(), &'static str> {
    const DT_AUDIT: u64 = 0x6fff_fefc;
    const DT_DEPAUDIT: u64 = 0x6fff_fefb;
    let tags = dynamic.chunks_exact(16).map(|entry| u64_at(entry, 0));
    match tags.take_while(|tag| *tag != 0).any(|tag| [DT_AUDIT, DT_DEPAUDIT].contains(&tag)) {
        true => Err("it names libraries that audit its loader (DT_AUDIT)"),
        false => Ok(()),
    }
}
