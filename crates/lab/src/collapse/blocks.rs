//! Which of a process's memory huge pages fit: blocks of 2 MiB of private anonymous memory that
//! is mostly there.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::error::CollapseError;
use super::process::{TargetProcess, kibibytes, range};

/// The kernel's: 4 KiB on x86-64, on Arm that, 16 or 64 KiB.
pub(super) fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// What a huge page holds: as much as a page of page table entries, of eight bytes each, points to. Of
/// pages of 4 KiB 2 MiB, of 16 KiB 32 MiB, of 64 KiB 512 MiB.
pub(super) fn block_size() -> u64 {
    page_size() * (page_size() / 8)
}

/// Of a block, so much at least must be there: what is missing would be filled with zeros, and
/// take more memory than it spares time.
const LEAST_PART: usize = 2;

/// Mappings that are mostly holes (what is reserved, not used) are not looked through beyond
/// this, since eight bytes are read of each page.
const HOLES: u64 = 64;

/// Adjoining blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub start: u64,
    pub bytes: u64,
}

/// What there is to collapse.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    pub ranges: Vec<Range>,
    /// What the blocks lack, which will be filled: the process grows by it.
    pub filled_bytes: u64,
    /// What is there in blocks that are left out because most of them is not.
    pub sparse_bytes: u64,
}

impl Blocks {
    pub(super) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.bytes).sum()
    }
}

/// Finds the blocks that are not in huge pages yet.
///
/// # Errors
/// The process is gone, or may not be read.
pub(super) fn find(process: &TargetProcess) -> Result<Blocks, CollapseError> {
    let path = format!("/proc/{}/pagemap", process.pid);
    let pagemap = File::open(&path).map_err(|error| process.unreadable(path, error))?;
    let mut blocks = Blocks::default();
    for (start, end) in mappings(&process.read("smaps")?) {
        look_through(&pagemap, start, end, &mut blocks);
    }
    Ok(blocks)
}

/// Private anonymous mappings that fork(2) copies and that huge pages are allowed in.
fn mappings(smaps: &str) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut rest = smaps;
    while !rest.is_empty() {
        // A mapping's lines end with its flags.
        let Some(flags) = rest.find("VmFlags:") else { break };
        let end = rest[flags..].find('\n').map_or(rest.len(), |end| flags + end + 1);
        let (mapping, after) = rest.split_at(end);
        rest = after;
        if let Some(range) = wanted(mapping, &mapping[flags..]) {
            found.push(range);
        }
    }
    found
}

fn wanted(mapping: &str, flags: &str) -> Option<(u64, u64)> {
    let (start, end) = range(mapping)?;
    let mut words = mapping.lines().next()?.split_whitespace().skip(1);
    let (access, inode) = (words.next()?, words.nth(2)?);
    let name = words.next().unwrap_or_default();
    // No copy at a fork (dc), no huge pages (nh), a device's or the kernel's (io, pf), reserved
    // huge pages (ht), droppable (dp).
    const NOT: [&str; 6] = ["dc", "nh", "io", "pf", "ht", "dp"];
    let anonymous = kibibytes(mapping, "Anonymous:");
    let is_fit = access.starts_with("rw")
        && access.ends_with('p')
        && inode == "0"
        && !name.starts_with("[stack")
        && !flags.split_whitespace().any(|flag| NOT.contains(&flag))
        && anonymous >= block_size()
        && kibibytes(mapping, "AnonHugePages:") + block_size() <= anonymous
        && (end - start) / HOLES <= anonymous;
    is_fit.then_some((start, end))
}

/// Counts the pages that are there, block by block (proc_pid_pagemap(5)).
fn look_through(pagemap: &File, start: u64, end: u64, blocks: &mut Blocks) {
    // Bit 63 of an entry, of which the last byte is the highest.
    const THERE: u8 = 1 << 7;
    let (page, size) = (page_size(), block_size());
    let pages = (size / page) as usize;
    let mut entries = vec![0; pages * 8];
    for block in (start.next_multiple_of(size)..end).step_by(size as usize) {
        // A mapping that has gone meanwhile has nothing to collapse.
        if block + size > end || pagemap.read_exact_at(&mut entries, block / page * 8).is_err() {
            return;
        }
        let there = entries.chunks_exact(8).filter(|entry| entry[7] & THERE != 0).count();
        if there < pages / LEAST_PART {
            blocks.sparse_bytes += there as u64 * page;
            continue;
        }
        blocks.filled_bytes += (pages - there) as u64 * page;
        match blocks.ranges.last_mut() {
            Some(last) if last.start + last.bytes == block => last.bytes += size,
            _ => blocks.ranges.push(Range { start: block, bytes: size }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(line: &str, anonymous: u64, flags: &str) -> String {
        format!(
            "{line}\nRss: 9 kB\nAnonymous: {anonymous} kB\nAnonHugePages: 0 kB\nVmFlags: {flags}\n"
        )
    }

    #[test]
    fn private_anonymous_writable_memory_that_fork_copies_is_looked_through() {
        let heap =
            mapping("1000000-9000000 rw-p 00000000 00:00 0 [heap]", 90_000, "rd wr mr mw ac");
        assert_eq!(mappings(&heap), [(0x100_0000, 0x900_0000)]);
        let plain = mapping("1000000-9000000 rw-p 00000000 00:00 0", 90_000, "rd wr");
        assert_eq!(mappings(&(heap.clone() + &plain)).len(), 2);
    }

    #[test]
    fn files_stacks_shared_and_excluded_mappings_are_not() {
        for (line, kib, flags) in [
            ("1000000-9000000 rw-p 00000000 08:01 77 /lib/x.so", 90_000, "rd wr"),
            ("1000000-9000000 rw-s 00000000 00:00 0", 90_000, "rd wr"),
            ("1000000-9000000 r--p 00000000 00:00 0", 90_000, "rd"),
            ("1000000-9000000 rw-p 00000000 00:00 0 [stack]", 90_000, "rd wr"),
            ("1000000-9000000 rw-p 00000000 00:00 0", 90_000, "rd wr dc"),
            ("1000000-9000000 rw-p 00000000 00:00 0", 90_000, "rd wr nh"),
            ("1000000-9000000 rw-p 00000000 00:00 0", 1_000, "rd wr"),
            ("1000000-ffff9000000 rw-p 00000000 00:00 0", 90_000, "rd wr"),
        ] {
            assert_eq!(mappings(&mapping(line, kib, flags)), [], "{line} {flags}");
        }
    }

    #[test]
    fn text_that_is_no_smaps_holds_no_mapping() {
        for text in
            ["", "VmFlags:", "x\nVmFlags: rd\n", "1-2\nVmFlags:\n", "5-1 rw-p 0 0 0\nVmFlags: x"]
        {
            assert_eq!(mappings(text), [], "{text:?}");
        }
    }
}
