//! Reads any bytes as an index of names: none, or one that is no larger than they are.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modules::index::parse;

fuzz_target!(|input: &[u8]| {
    for content in [input.to_vec(), recording::seal("becalm-names 2", input)] {
        let Some(names) = parse(&content) else { continue };
        let files: usize = names.files.iter().map(|file| 1 + file.name.len()).sum();
        let directories: usize =
            names.directories.iter().map(|directory| 1 + directory.name.len()).sum();
        let limited: usize = names.limited.iter().map(|limited| 1 + limited.name.len()).sum();
        assert!(names.root.len() + files + directories + limited <= content.len());
    }
});
