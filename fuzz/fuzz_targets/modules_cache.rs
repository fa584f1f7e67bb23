//! Reads any bytes as a `.modulecache`: what it records lies in it, entry after entry.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modules::cache::parse;

fuzz_target!(|input: &[u8]| {
    // With the first line of one, of which a fuzzer thinks rarely.
    for text in [input.to_vec(), [b"#%Module5.3\n", input].concat()] {
        let Ok(script) = parse(&text) else { continue };
        let mut end = 0;
        for entry in &script.entries {
            assert!(entry.text.start >= end && entry.text.end <= text.len());
            assert!(entry.name.len() <= entry.text.len());
            end = entry.text.end;
        }
    }
});
