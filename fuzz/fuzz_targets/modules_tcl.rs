//! Reads any bytes as a script of Tcl, as an rc file, and as a list.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modules::tcl::{commands, dictionary, join, rc, split};

/// How many words are held against one another.
const MOST_WORDS: usize = 40;

fuzz_target!(|input: &[u8]| {
    if let Ok(commands) = commands(input) {
        assert!(commands.iter().all(|command| !command.words.is_empty() && command.line > 0));
    }
    // With a cookie, of which a fuzzer thinks rarely.
    for script in [input.to_vec(), [b"#%Module\n", input].concat()] {
        if let Ok(defined) = rc::read(&script) {
            let lines = script.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!(defined.iter().all(|one| (1..=lines).contains(&one.line)));
        }
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(words) = split(text) else { return };
    assert_eq!(split(&join(&words)).as_ref(), Ok(&words), "a list that was written is the list");
    hold_against_one_another(&words[..words.len().min(MOST_WORDS)]);
});

/// `lsort` asks for an order: the same both ways, and one after the other.
fn hold_against_one_another(words: &[String]) {
    for left in words {
        for right in words {
            assert_eq!(dictionary(left, right), dictionary(right, left).reverse());
        }
    }
}
