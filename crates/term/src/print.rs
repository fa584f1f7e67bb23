//! The way out: standard output and standard error, with colour where there is a terminal that
//! wants it (and no `NO_COLOR`).

use std::io::{self, Write};

use serde::Serialize;

use crate::{json, plain, width};

/// Writes `text` to standard output.
///
/// # Errors
/// Those of standard output. A reader that went away is one too: the verb then ends quietly.
pub fn print(text: &str) -> io::Result<()> {
    // In one piece: taking colours out would write each piece between two of them by itself.
    let mut bytes = Vec::with_capacity(text.len());
    let choice = anstream::AutoStream::choice(&io::stdout());
    let done = anstream::AutoStream::new(&mut bytes, choice).write_all(text.as_bytes());
    let mut out = io::stdout().lock();
    let done = done.and_then(|()| out.write_all(&bytes)).and_then(|()| out.flush());
    done.map_err(|error| io::Error::new(error.kind(), format!("standard output: {error}")))
}

/// Prints a verb's answer: as JSON where that was asked for, or else as the text that is made of it
/// for so many columns.
///
/// # Errors
/// Those of [`print`], and if the answer has no JSON form.
pub fn print_answer(
    as_json: bool,
    answer: &impl Serialize,
    text: impl FnOnce(usize) -> String,
) -> io::Result<()> {
    print(&if as_json { json(answer)? } else { text(width::terminal()) })
}

/// Writes one line to standard error: what a reader must know before trusting the output.
/// Where standard error takes nothing there is nobody to tell.
pub fn warn(line: &str) {
    print_beside(&format!("becalm: {}\n", plain(line)));
}

/// Writes text to standard error, beside what a command writes to standard output. Where standard
/// error takes nothing, a full disk's among others, there is nobody to tell: what was going on goes
/// on. (The macros of std and anstream end the process there.)
pub fn print_beside(text: &str) {
    let _ = anstream::stderr().write_all(text.as_bytes());
}
