//! The command line of becalm that was typed, to be pasted with options more: all that was asked
//! for stays asked for.

use std::os::unix::ffi::OsStrExt;

/// `becalm VERB more… rest…`, where the verb is of so many words.
pub fn with(verb: usize, more: &[&str]) -> String {
    let words = std::env::args_os().skip(1).map(|word| term::quoted(word.as_bytes()));
    let mut words: Vec<_> = words.collect();
    let at = verb.min(words.len());
    words.splice(at..at, more.iter().map(|word| (*word).to_owned()));
    format!("becalm {}", words.join(" "))
}
