//! Lines, and which form they are of.

use std::io::{self, BufRead, BufReader, Read};

use memchr::memmem;

use super::LogForm;
use super::published;

/// No record is longer: what is, is read, but not kept.
const LONGEST: u64 = 1 << 20;

/// The lines of a file.
pub(super) struct LogLines<R> {
    source: BufReader<R>,
    line: Vec<u8>,
}

/// A line without its newline.
pub(super) struct LogLine<'a> {
    pub text: &'a [u8],
    /// Whether a newline ends it: the last line of a file that was cut has none.
    pub is_whole: bool,
}

impl<R: Read> LogLines<R> {
    pub(super) fn of(source: R) -> LogLines<R> {
        LogLines { source: BufReader::with_capacity(256 << 10, source), line: Vec::new() }
    }

    /// The next line; of one that is longer than any record, its start.
    pub(super) fn next(&mut self) -> io::Result<Option<LogLine<'_>>> {
        self.line.clear();
        self.source.by_ref().take(LONGEST).read_until(b'\n', &mut self.line)?;
        let mut is_whole = self.line.last() == Some(&b'\n');
        if is_whole {
            self.line.pop();
        } else if self.line.is_empty() {
            return Ok(None);
        } else if self.line.len() as u64 == LONGEST {
            self.source.skip_until(b'\n')?;
            is_whole = true;
        }
        Ok(Some(LogLine { text: &self.line, is_whole }))
    }
}

/// Which form a line is of, if it is a record of one.
pub(super) fn form_of(text: &[u8]) -> Option<LogForm> {
    // Other programs print JSON, too.
    let says = |word: &[u8]| memmem::find(text, word).is_some();
    if text.starts_with(b"{") && (says(b"\"arm\"") || says(b"\"becalm.aslr.log/")) {
        return Some(LogForm::Own);
    }
    published::record(text).map(|_| LogForm::Published)
}

/// A line that is one number and nothing else.
pub(super) fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}
