//! Reads any bytes as what `perf script` prints.

#![no_main]

use lab::profile::text::{self, FRAMES, LINE};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut samples = 0;
    let count = text::read(input, &mut |sample| {
        samples += 1;
        assert!(sample.frames.len() <= FRAMES);
        for frame in &sample.frames {
            // What is no UTF-8 becomes U+FFFD, of three bytes.
            let length = |name: &Option<String>| name.as_ref().map_or(0, String::len);
            assert!(length(&frame.symbol) + length(&frame.object) <= 3 * LINE);
        }
    });
    assert_eq!(count.expect("a slice has no errors"), samples);
});
