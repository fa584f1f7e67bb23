//! Room for some instructions in another process: what the page behind the end of its program's
//! code, or of its C library's, is filled with.
//!
//! It is mapped, executable, of no use to anybody, and zero. Nothing is taken that is not.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};

use super::stub::SIZE;
use crate::collapse::process::{TargetProcess, range};

/// Instructions begin at such addresses.
const ALIGNED: u64 = 16;

/// A part of a file that is mapped to be executed.
struct CodeMapping {
    start: u64,
    end: u64,
    offset: u64,
    inode: u64,
    path: String,
}

/// Where there is room; none where all is taken.
pub(super) fn find(process: &TargetProcess) -> Option<u64> {
    let maps = process.read("maps").ok()?;
    let program = fs::read_link(format!("/proc/{}/exe", process.pid)).ok()?;
    let memory = File::open(format!("/proc/{}/mem", process.pid)).ok()?;
    let stays = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        // A library may be unloaded; these may not.
        program.as_os_str() == path || name.starts_with("libc.so.") || name.starts_with("libc-2.")
    };
    let mut mappings = maps.lines().filter_map(code).filter(|mapping| stays(&mapping.path));
    mappings.find_map(|mapping| room(process, &memory, &mapping))
}

fn code(line: &str) -> Option<CodeMapping> {
    let (start, end) = range(line)?;
    let mut words = line.split_whitespace().skip(1);
    let access = words.next()?;
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    let path = line.find('/').map(|at| line[at..].to_owned())?;
    (access == "r-xp").then_some(CodeMapping { start, end, offset, inode, path })
}

fn room(process: &TargetProcess, memory: &File, mapping: &CodeMapping) -> Option<u64> {
    let used = mapping.start + segment_end(process, mapping)?.checked_sub(mapping.offset)?;
    if used <= mapping.start || used > mapping.end || mapping.end - used >= 4096 {
        return None;
    }
    let mut behind = vec![0; (mapping.end - used) as usize];
    memory.read_exact_at(&mut behind, used).ok()?;
    let first = used.next_multiple_of(ALIGNED);
    let is_free = |at: &u64| {
        let from = (at - used) as usize;
        behind.get(from..from + SIZE).is_some_and(|room| room.iter().all(|byte| *byte == 0))
    };
    (first..mapping.end).step_by(ALIGNED as usize).find(is_free)
}

/// Where in the file the executable segment ends that a mapping is of (elf(5)).
fn segment_end(process: &TargetProcess, mapping: &CodeMapping) -> Option<u64> {
    let file = File::open(format!("/proc/{}/root{}", process.pid, mapping.path)).ok()?;
    if file.metadata().ok()?.ino() != mapping.inode {
        return None;
    }
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    let number = |bytes: &[u8], at: usize, size: usize| {
        bytes[at..at + size].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    // A 64-bit file, whose program headers are 56 bytes each.
    if !header.starts_with(b"\x7fELF\x02\x01") || number(&header, 54, 2) != 56 {
        return None;
    }
    let mut table = vec![0; 56 * number(&header, 56, 2) as usize];
    file.read_exact_at(&mut table, number(&header, 32, 8)).ok()?;
    let segments = table.chunks_exact(56).filter(|segment| {
        let (kind, flags) = (number(segment, 0, 4), number(segment, 4, 4));
        let (in_file, in_memory) = (number(segment, 32, 8), number(segment, 40, 8));
        kind == 1 && flags & 1 != 0 && in_file == in_memory
    });
    let mut ends = segments.map(|segment| number(segment, 8, 8) + number(segment, 32, 8));
    let within = mapping.offset..=mapping.offset + (mapping.end - mapping.start);
    ends.find(|end| within.contains(end) && *end != mapping.offset)
}
