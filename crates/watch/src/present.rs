//! Which pages of a process are there: mapped to memory, by whichever fault (proc_pid_pagemap(5)).
//! Whoever may trace a process may read that; which memory it is, is hidden from ordinary users.

use std::fs::File;
use std::os::unix::fs::FileExt;

use recording::Touch;

/// A page is in memory and mapped; one that was swapped out is not.
const PRESENT: u64 = 1 << 63;
/// Entries that are read at a time: 32 MiB of 4 KiB pages.
const ENTRIES: usize = 8192;
const ENTRY: usize = size_of::<u64>();

/// The page map of an address space, opened where it is asked first.
#[derive(Debug, Default)]
pub(crate) struct PresentPages(Option<File>);

/// A copy of the address space has a page map of its own.
impl Clone for PresentPages {
    fn clone(&self) -> PresentPages {
        PresentPages::default()
    }
}

impl PresentPages {
    /// A page of each part of a range of addresses that has any: parts are [`Touch::AROUND`] bytes,
    /// aligned in memory. Nothing where it cannot be read: the process is gone, or has become
    /// another program.
    pub fn parts(&mut self, tid: i32, start: u64, end: u64) -> Vec<u64> {
        let file = match &self.0 {
            Some(file) => file,
            None => match File::open(format!("/proc/{tid}/pagemap")) {
                Ok(file) => self.0.insert(file),
                Err(_) => return Vec::new(),
            },
        };
        let page = rustix::param::page_size() as u64;
        let (mut at, last) = (start / page, end.div_ceil(page));
        let mut parts: Vec<u64> = Vec::new();
        let mut entries = vec![0; ENTRIES.min(last.saturating_sub(at) as usize) * ENTRY];
        while at < last {
            let bytes = ENTRIES.min((last - at) as usize) * ENTRY;
            let read = match file.read_at(&mut entries[..bytes], at * ENTRY as u64) {
                Ok(read) if read >= ENTRY => read / ENTRY,
                _ => return parts,
            };
            for (address, entry) in
                (at..).map(|page_at| page_at * page).zip(entries.chunks(ENTRY).take(read))
            {
                let is_present =
                    entry.try_into().is_ok_and(|it| u64::from_ne_bytes(it) & PRESENT != 0);
                let known = parts.last().is_some_and(|last| same_part(*last, address));
                if is_present && !known {
                    parts.push(address);
                }
            }
            at += read as u64;
        }
        parts
    }
}

/// Whether two addresses are in one part.
fn same_part(one: u64, other: u64) -> bool {
    one / Touch::AROUND == other / Touch::AROUND
}

#[cfg(test)]
mod tests {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    use super::*;

    #[test]
    fn parts_are_there_once_a_page_of_them_was_written() {
        let length = 4 << 20;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, written within its bounds, and unmapped once.
        let (start, parts) = unsafe {
            let start = mmap_anonymous(std::ptr::null_mut(), length, access, flags).unwrap();
            for offset in [0, 1 << 20, (1 << 20) + 4096, length - 1] {
                start.cast::<u8>().add(offset).write_volatile(1);
            }
            let begin = start as u64;
            let tid = std::process::id() as i32;
            let parts = PresentPages::default().parts(tid, begin, begin + length as u64);
            munmap(start, length).unwrap();
            (begin, parts)
        };
        let written = [start, start + (1 << 20), start + length as u64 - 1];
        let is_there = |address: &u64| parts.iter().any(|part| same_part(*part, *address));
        assert!(written.iter().all(is_there), "{parts:x?}");
        // Memory may come in large pages.
        assert!(parts.len() >= 3, "{parts:x?}");
    }
}
