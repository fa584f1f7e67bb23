//! A pack's file: an ELF program at a fixed address (ET_EXEC) whose segments are its head, which decides;
//! and all that the loader had mapped, as it was.
//!
//! The head is a table, the code that reads it, and the bytes that the loader wrote into the program.
//! The program's own pages are not in it: in form 2 the kernel has mapped them, in form 1 the code does.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use crate::PackError;
use crate::arch::{MACHINE, StubTable, TableRecord, stub};
use crate::compare::StoppedStart;
use crate::regions::Region;

pub(crate) const PAGE: u64 = 4096;
/// Room of the table, and where the code follows it.
const CODE: u64 = 16 << 20;
/// Where what is copied into the program follows.
const STAGED: u64 = 32 << 20;
/// As many program headers as the kernel reads: ELF_MIN_ALIGN of them at most (fs/binfmt_elf.c,
/// `load_elf_phdrs`: 64 KiB).
const MOST_HEADERS: usize = 65536 / HEADER;
const HEADER: usize = 56;
const READ: u32 = 4;
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;

/// The head of a pack while it is made: what lies in it, and at which address.
pub(crate) struct PackHead {
    base: u64,
    bytes: Vec<u8>,
}

impl PackHead {
    /// A head that ends before the lowest of what the loader had mapped.
    pub fn before(lowest: u64, staged: u64, segments: usize) -> PackHead {
        let base = lowest - STAGED - staged.next_multiple_of(PAGE) - PAGE;
        let headers = 64 + HEADER * (segments + OWN_SEGMENTS);
        PackHead { base, bytes: vec![0; headers.next_multiple_of(64) + StubTable::LENGTH] }
    }

    /// Where the bytes lie that are copied into the program.
    pub fn staged(&self) -> u64 {
        self.base + STAGED
    }

    /// The table's address.
    fn table(&self, segments: usize) -> u64 {
        self.base + ((64 + HEADER * (segments + OWN_SEGMENTS)).next_multiple_of(64)) as u64
    }

    /// Puts bytes into it, and says where they lie.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.base + self.bytes.len() as u64;
        self.bytes.extend(bytes);
        at
    }

    /// A text, with its zero.
    pub fn text(&mut self, text: &[u8]) -> u64 {
        self.put(&[text, &[0]].concat())
    }

    /// Records in a row.
    pub fn list(&mut self, records: &[impl TableRecord]) -> [u64; 2] {
        let words = records.iter().flat_map(TableRecord::words);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        [self.put(&bytes), records.len() as u64]
    }
}

/// The segments of the head, and PT_GNU_STACK.
const OWN_SEGMENTS: usize = 4;

/// A run of what the loader had mapped, of equal protection.
pub(crate) struct PackedRun {
    pub start: u64,
    pub end: u64,
    flags: u32,
}

impl PackedRun {
    /// The runs of regions; those for which `is_written` are mapped to be written.
    pub fn of(regions: &[Region], is_written: impl Fn(&Region) -> bool) -> Vec<PackedRun> {
        let mut runs: Vec<PackedRun> = Vec::new();
        for region in regions {
            let flag = |is: bool, flag: u32| if is { flag } else { 0 };
            let flags = flag(region.read, READ)
                | flag(region.write || is_written(region), WRITE)
                | flag(region.execute, EXECUTE);
            match runs.last_mut() {
                Some(last) if last.end == region.start && last.flags == flags => {
                    last.end = region.end
                }
                _ => runs.push(PackedRun { start: region.start, end: region.end, flags }),
            }
        }
        runs
    }
}

/// Where a segment lies in the file and in memory.
struct SegmentPlace {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    length: u64,
}

impl SegmentPlace {
    fn bytes(&self) -> Vec<u8> {
        const PT_LOAD: u32 = 1;
        let align = if self.kind == PT_LOAD { PAGE } else { 16 };
        let mut bytes = [self.kind.to_le_bytes(), self.flags.to_le_bytes()].concat();
        let address = self.address;
        for word in [self.offset, address, address, self.length, self.length, align] {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    }
}

/// What is written.
pub(crate) struct WrittenPack {
    /// Up to what follows.
    pub length: u64,
    /// The bytes of its head.
    pub head: Vec<u8>,
}

/// Whether so many runs can be loaded by the kernel.
pub(crate) fn can_load(runs: usize) -> bool {
    runs + OWN_SEGMENTS <= MOST_HEADERS
}

/// Writes a pack, before it has its name.
pub(crate) fn write(
    mut head: PackHead,
    table: &StubTable,
    staged: &[u8],
    runs: &[PackedRun],
    one: &StoppedStart,
    (out, target): (&File, &Path),
) -> Result<WrittenPack, PackError> {
    const PT_LOAD: u32 = 1;
    const PT_GNU_STACK: u32 = 0x6474_e551;
    let table_at = head.table(runs.len());
    let code = stub(table_at);
    if head.bytes.len() as u64 > CODE {
        return Err(PackError::unusable(target, "its table would be too large"));
    }
    let code_offset = (head.bytes.len() as u64).next_multiple_of(PAGE);
    let staged_offset = (code_offset + code.len() as u64).next_multiple_of(PAGE);
    let mut offset = staged_offset + (staged.len() as u64).next_multiple_of(PAGE);
    let place = |flags, offset, address, length| SegmentPlace {
        kind: PT_LOAD,
        flags,
        offset,
        address,
        length,
    };
    let mut places = vec![
        place(READ, 0, head.base, head.bytes.len() as u64),
        place(READ | EXECUTE, code_offset, head.base + CODE, code.len() as u64),
    ];
    if !staged.is_empty() {
        places.push(place(READ, staged_offset, head.staged(), staged.len() as u64));
    }
    for run in runs {
        places.push(place(run.flags, offset, run.start, run.end - run.start));
        offset += run.end - run.start;
    }
    places.push(SegmentPlace {
        kind: PT_GNU_STACK,
        flags: READ | WRITE,
        offset: 0,
        address: 0,
        length: 0,
    });
    let entry = head.base + CODE + 8;
    head.bytes[..64].copy_from_slice(&elf_header(entry, places.len() as u16));
    for (place, at) in places.iter().zip((64..).step_by(HEADER)) {
        head.bytes[at..at + HEADER].copy_from_slice(&place.bytes());
    }
    let at = (table_at - head.base) as usize;
    head.bytes[at..at + StubTable::LENGTH].copy_from_slice(&table.bytes());
    head.bytes.resize(code_offset as usize, 0);
    head.bytes.extend(&code);
    let loads = places.iter().rev().skip(1).rev().skip(if staged.is_empty() { 2 } else { 3 });
    let written = (|| -> io::Result<()> {
        out.write_all_at(&head.bytes, 0)?;
        out.write_all_at(staged, staged_offset)?;
        loads.zip(runs).try_for_each(|(place, run)| write_run(out, place.offset, run, one))?;
        out.set_len(offset)?;
        out.set_permissions(Permissions::from_mode(crate::copy::MODE))
    })();
    written.map_err(PackError::at("write", target))?;
    Ok(WrittenPack { length: offset, head: head.bytes })
}

/// The memory of a run; pages of zeros become holes.
fn write_run(out: &File, offset: u64, run: &PackedRun, one: &StoppedStart) -> io::Result<()> {
    const AT_ONCE: u64 = 4 << 20;
    let mut at = run.start;
    while at < run.end {
        let length = AT_ONCE.min(run.end - at);
        let bytes = one.content(at, length).map_err(io::Error::other)?;
        let is_zero = |page: &[u8]| page.iter().all(|byte| *byte == 0);
        let pages =
            bytes.chunks(PAGE as usize).zip((offset + at - run.start..).step_by(PAGE as usize));
        for (page, offset) in pages.filter(|(page, _)| !is_zero(page)) {
            out.write_all_at(page, offset)?;
        }
        at += length;
    }
    Ok(())
}

/// The first 64 bytes of elf(5).
fn elf_header(entry: u64, segments: u16) -> Vec<u8> {
    const ET_EXEC: u16 = 2;
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend(ET_EXEC.to_le_bytes());
    bytes.extend(MACHINE.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    for word in [entry, 64, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(0u32.to_le_bytes());
    for half in [64, HEADER as u16, segments, 64, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, mode: &str) -> Region {
        let line = format!("{start:x}-{end:x} {mode}p 00000000 00:00 0 ");
        Region::all(line.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn a_run_is_of_one_protection_and_has_no_gap() {
        let regions = [
            region(0x1000, 0x2000, "r--"),
            region(0x2000, 0x3000, "r-x"),
            region(0x3000, 0x4000, "r--"),
            region(0x4000, 0x5000, "rw-"),
            region(0x6000, 0x7000, "rw-"),
        ];
        let runs = PackedRun::of(&regions, |region| region.start == 0x3000);
        let shown: Vec<_> = runs.iter().map(|run| (run.start, run.end, run.flags)).collect();
        assert_eq!(
            shown,
            [(0x1000, 0x2000, 4), (0x2000, 0x3000, 5), (0x3000, 0x5000, 6), (0x6000, 0x7000, 6)]
        );
        assert!(can_load(1166) && !can_load(1167));
    }

    #[test]
    fn the_header_is_an_elf_programs() {
        let header = elf_header(0x1234, 3);
        assert_eq!((header.len(), &header[..4]), (64, &b"\x7fELF"[..]));
        assert_eq!((header[16], header[24], header[56]), (2, 0x34, 3));
    }
}
