//! Reads any bytes as a plan; one that is read is the same once it was written.

#![no_main]

use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use remedy::Plan;

thread_local! {
    // Plans are read by their paths: one file for all, in memory.
    static PLAN: RefCell<File> = RefCell::new(
        rustix::fs::memfd_create("plan", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd").into(),
    );
}

fuzz_target!(|input: &[u8]| {
    // With what a plan begins with, of which a fuzzer thinks rarely.
    let steps = b"{\"schema\": \"becalm.plan/1\", \"title\": \"\", \"steps\": [";
    for json in [input.to_vec(), [steps, input, b"]}"].concat()] {
        let Some(plan) = read(&json) else { continue };
        let mut written = Vec::new();
        plan.write(&mut written).expect("memory");
        assert_eq!(read(&written), Some(plan), "written as something else");
    }
});

fn read(json: &[u8]) -> Option<Plan> {
    PLAN.with_borrow_mut(|file| {
        file.set_len(0).expect("an empty file");
        file.rewind().expect("its start");
        file.write_all(json).expect("memory");
        Plan::read(&PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))).ok()
    })
}
