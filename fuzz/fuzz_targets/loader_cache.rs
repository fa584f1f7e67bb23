//! Reads any bytes as ld.so.cache, by loaders of three generations.
//!
//! The first byte chooses the loader; up to the first NUL is the name that is looked up.

#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use libfuzzer_sys::fuzz_target;
use loader::LdSoCache;
use loader::setting::{Cpu, Features, GlibcProfile};

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let Some(end) = rest.iter().position(|byte| *byte == 0) else { return };
    let version = [(2, 17), (2, 36), (2, 39)][usize::from(choice % 3)];
    let cpu = Cpu { intel: choice & 4 == 0, features: Features::ALL };
    let profile = match choice & 8 {
        0 => GlibcProfile::x86_64(version, cpu),
        _ => GlibcProfile::i386(version, cpu),
    };
    if let Some(cache) = LdSoCache::parse(rest[end + 1..].into(), &profile) {
        let found = cache.lookup(OsStr::from_bytes(&rest[..end]), &profile, choice & 16 == 0);
        assert!(found.is_none_or(|path| path.len() <= rest.len()));
    }
});
