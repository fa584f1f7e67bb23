//! Reads any bytes as Lmod's `spiderT.lua`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modules::cache::lmod::parse;

fuzz_target!(|input: &[u8]| {
    let _ = parse(input);
    // What is in a table, of which a fuzzer thinks rarely.
    let _ = parse(&[b"spiderT = {", input, b"}\n"].concat());
});
