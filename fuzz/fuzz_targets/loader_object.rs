//! Reads any bytes as an ELF file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loader::ElfObject;

fuzz_target!(|input: &[u8]| {
    if let Ok(object) = ElfObject::parse(input) {
        // All that is kept of it lies in it, or is named by it a limited number of times.
        let names = object.dependencies.iter().map(|dependency| dependency.name.len());
        let versions = object.verneed.iter().flat_map(|need| &need.names).map(|name| name.len());
        assert!(names.chain(versions).sum::<usize>() <= 4 << 20);
        let _ = object.image();
    }
});
