//! Reads any bytes as a log of a campaign, or the lines of one in the published form, and judges
//! them.

#![no_main]

use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;

use lab::aslr::analyze::{AnalysisOptions, Input, RankSamples, Statistic, analyze};
use libfuzzer_sys::fuzz_target;

thread_local! {
    // Logs are read by their paths: one file for all, in memory.
    static LOG: RefCell<File> = RefCell::new(
        rustix::fs::memfd_create("log", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd").into(),
    );
}

fuzz_target!(|input: &[u8]| {
    LOG.with_borrow_mut(|log| {
        log.set_len(0).expect("an empty file");
        log.rewind().expect("its start");
        log.write_all(input).expect("memory");
        let path = format!("/proc/self/fd/{}", log.as_raw_fd()).into();
        let inputs = [Input { path, arm: None }];
        let Ok(samples) = RankSamples::read(&inputs, Statistic::Avg) else { return };
        let question = AnalysisOptions { threshold: 0.1, ranks: 1000, most_named: 10 };
        let Ok(analysis) = analyze(&samples, &question) else { return };
        assert!(analysis.slow_ranks.len() as u64 <= analysis.slow);
    });
});
