//! Reads any bytes as the recordings of several ranks, and each of them.

#![no_main]

use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use recording::RankedRecordings;

thread_local! {
    // They are read by their paths: one file for all, in memory.
    static FILE: RefCell<File> = RefCell::new(
        rustix::fs::memfd_create("ranks", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd").into(),
    );
}

fuzz_target!(|input: &[u8]| {
    FILE.with_borrow_mut(|file| {
        file.set_len(0).expect("an empty file");
        file.rewind().expect("its start");
        file.write_all(input).expect("memory");
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let Ok(ranks) = RankedRecordings::open(&path) else { return };
        for member in &ranks.members {
            let _ = member.recording();
        }
    });
});
