//! Reads any bytes as what `python -X importtime` prints.

#![no_main]

use libfuzzer_sys::fuzz_target;
use python::importtime::parse;

fuzz_target!(|input: &[u8]| {
    let names = parse(input).into_keys().map(|module| module.len()).sum::<usize>();
    assert!(names <= input.len());
});
