//! Reads any bytes as a journal, and as the records of one: told of, never undone.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use remedy::list;

const ID: &str = "20261121-1";

/// A state directory with one journal.
static STATE: LazyLock<PathBuf> = LazyLock::new(|| {
    let state = std::env::temp_dir().join(format!("journal-fuzz-{}", std::process::id()));
    fs::create_dir_all(state.join("journals").join(ID)).expect("a directory");
    state
});

fuzz_target!(|input: &[u8]| {
    for journal in [input.to_vec(), with_records(input)] {
        fs::write(STATE.join("journals").join(ID).join("journal"), journal).expect("a file");
        let all = list(&STATE).expect("it can be read");
        assert!(all.len() == 1 && all[0].id == ID);
    }
});

/// A journal whose records are these lines: a fuzzer finds no checksums.
fn with_records(lines: &[u8]) -> Vec<u8> {
    let begin = format!(
        r#"{{"record":"begin","schema":"becalm.journal/1","id":"{ID}","title":"","at":0}}"#
    );
    let lines = std::iter::once(begin.as_bytes()).chain(lines.split(|byte| *byte == b'\n'));
    let framed = lines.enumerate().flat_map(|(number, line)| {
        let body = [number.to_string().as_bytes(), b" ", line].concat();
        let sum = format!("{:08x} ", crc32fast::hash(&body));
        [sum.as_bytes(), &body, b"\n"].concat()
    });
    framed.collect()
}
