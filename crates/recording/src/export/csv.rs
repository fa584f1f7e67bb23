//! Comma-separated values: one row a call, in the order in which calls began.
//!
//! Fields are quoted as RFC 4180 says; lines end in a line feed. A field that has no value is
//! empty.

use std::borrow::Cow;
use std::io::{self, Write};

use super::ExportOptions;
use super::columns::{COLUMNS, CallRows, Field};
use super::timeline::{TimelineMoment, timeline};
use crate::Recording;

/// Writes the calls of a recording as CSV.
///
/// # Errors
/// Those of `out`.
pub fn write(
    recording: &Recording,
    out: &mut dyn Write,
    _options: &ExportOptions,
) -> io::Result<()> {
    let mut rows = CallRows::of(recording);
    let mut line = String::new();
    writeln!(out, "{}", COLUMNS.map(|(_, name)| name).join(","))?;
    for (_, moment) in timeline(recording) {
        let TimelineMoment::Call(event, _) = moment else { continue };
        line.clear();
        for (column, _) in COLUMNS {
            field(&mut line, &rows.field(column, event));
        }
        // The last field has a separator after it, too.
        line.pop();
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn field(line: &mut String, field: &Field) {
    match field {
        Field::Unsigned(number) => *line += &number.to_string(),
        Field::Signed(number) => *line += &number.map_or(String::new(), |it| it.to_string()),
        Field::Flag(flag) => *line += &flag.to_string(),
        Field::Text(None) => {}
        Field::Text(Some(text)) => *line += &quoted(text),
    }
    line.push(',');
}

/// A text as a field. What steers a terminal, and is no end of a line nor a tab, is spelt as bytes are that are
/// no text: `\x1b`.
pub(super) fn quoted(text: &str) -> Cow<'_, str> {
    let is_laid_out = |char: char| matches!(char, '\n' | '\r' | '\t');
    if text.contains(|char| term::is_steering(char) && !is_laid_out(char)) {
        let parts = text.split_inclusive(is_laid_out).map(|part| {
            let (plain, end) = part.split_at(part.trim_end_matches(is_laid_out).len());
            term::plain(plain) + end
        });
        return quoted(&parts.collect::<String>()).into_owned().into();
    }
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_steers_no_terminal_and_keeps_its_lines() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a\tb,c\n"), "\"a\tb,c\n\"");
        assert_eq!(quoted("\u{1b}]0;title\u{7}"), r"\x1b]0;title\x07");
        assert_eq!(quoted("\u{1b}\n\u{9b},"), "\"\\x1b\n\\xc2\\x9b,\"");
    }
}
