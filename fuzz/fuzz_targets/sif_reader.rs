//! Reads any bytes as a SIF, and as an ext3's superblock.
//!
//! Seed: crates/image-format/tests/sample/siftool.sif.zst, unpacked.

#![no_main]

use image_format::sif::Sif;
use image_format::{ReadAt, ext3};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(sif) = Sif::read(input) {
        let size = input.len() as u64;
        for object in &sif.objects {
            assert!(object.offset + object.size <= size, "object {} is not in it", object.id);
            let start = object.start(input, 4096).expect("it is in the file");
            assert!(start.len() as u64 <= object.size);
            let window = object.window(input).expect("a slice").expect("it is in the file");
            assert_eq!(window.size().expect("a slice"), object.size);
            let _ = ext3::Ext3Facts::read(&window);
        }
        assert!(sif.overlays().count() <= sif.objects.len());
    }
    if let Ok(Some(facts)) = ext3::Ext3Facts::read(input) {
        assert!(facts.free <= facts.size && facts.free_inodes <= facts.inodes);
    }
});
