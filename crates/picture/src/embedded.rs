//! Data in a page: the one place where what a recording says becomes part of HTML.
//!
//! What goes into a `<script type="application/json">` element ends at the first `</script`, and a
//! `<!--` changes how it is read (HTML, 13.2.5.4, 'The rules for parsing script data'). As JSON may
//! write any character by its number, none of `<`, `>` and `&` stands in it at all; nor what ends a
//! line in JavaScript (U+2028, U+2029). What turns the direction of text is spelt out, as it would
//! let a path look like another. Control bytes and what is no UTF-8 are spelt out before
//! ([`recording::shown`]).

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

/// Writes a value as JSON that no reader of HTML can take for anything else.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write(value: &impl Serialize, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let json = serde_json::to_string(value)?;
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        // Writing to a string does not fail.
        let _ = match char {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => write!(text, "\\u{:04x}", char as u32),
            turns if is_of_direction(turns) => write!(text, "\\\\u{:04x}", turns as u32),
            char if char.is_control() => write!(text, "\\u{:04x}", char as u32),
            char => text.write_char(char),
        };
    }
    out.write_all(text.as_bytes())
}

/// Unicode's explicit formatting characters (Standard Annex 9, table 4).
fn is_of_direction(char: char) -> bool {
    matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_ends_a_script_or_a_line_is_in_it_and_it_reads_back() {
        let names = [
            "</script><script>alert(1)</script>",
            "<!--<script>",
            "]]>&lt;\"'`\\",
            "a\u{2028}b\u{2029}c",
            "\u{85}\u{7f}",
        ];
        let mut page = Vec::new();
        write(&names, &mut page).unwrap();
        let text = String::from_utf8(page).unwrap();
        assert!(
            !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}', '\u{85}', '\u{7f}']),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), names);
    }

    #[test]
    fn what_turns_the_direction_of_text_is_spelt_out() {
        let mut page = Vec::new();
        write(&"a\u{202e}b", &mut page).unwrap();
        let text = serde_json::from_slice::<String>(&page).unwrap();
        assert_eq!(text, r"a\u202eb");
    }
}
