//! Reads any text as a calm file; what is read is written, and read back as the same.

#![no_main]

use std::path::Path;

use cure::CalmFile;
use libfuzzer_sys::fuzz_target;

const START: &str = "schema = \"becalm.calm/1\"\ncommand = [\"app\"]\ndirectory = \".\"\n";

fuzz_target!(|input: &str| {
    // With a start before it, of which a fuzzer thinks rarely.
    for text in [input.to_owned(), format!("{START}{input}")] {
        let (directory, file) = (Path::new("/work"), Path::new("input"));
        match CalmFile::parse(&text, directory, file) {
            Ok(calm) => {
                let written = calm.to_text(directory).expect("it was text");
                let again = CalmFile::parse(&written, directory, file).expect(&written);
                assert_eq!(again.to_text(directory).expect("it was text"), written);
            }
            Err(error) => assert_eq!(error.to_string().lines().count(), 1),
        }
    }
});
