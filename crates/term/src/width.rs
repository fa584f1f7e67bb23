//! How wide the terminal is, and text cut to fit.

use std::io::stdout;
use std::os::fd::AsFd;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The width where there is no terminal to ask.
const DEFAULT: usize = 80;

/// A function's name that is cut to fewer columns says nothing.
const NAMED: usize = 5;

/// The columns that standard output has: what `COLUMNS` says, else what the terminal says,
/// else 80.
pub fn terminal() -> usize {
    terminal_of(stdout())
}

/// The columns that a stream has, as [`terminal`] says it of standard output.
pub fn terminal_of(stream: impl AsFd) -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = || terminal_size::terminal_size_of(&stream).map(|(width, _)| width.0.into());
    said.filter(|columns| *columns > 0)
        .or_else(seen)
        .filter(|columns| *columns > 0)
        .unwrap_or(DEFAULT)
}

/// The columns that `text` takes on a terminal (wide characters take two).
pub fn of(text: &str) -> usize {
    text.width()
}

/// `text` in at most `columns` columns. What is too much is taken out of the middle, because a
/// path says most at its ends: `/opt/spack/…/libm.so.6`. Where it is a line of a file, with its function
/// (`unpack.sh:12 names()`), the line stays: what is behind it gives way first.
pub fn shorten(text: &str, columns: usize) -> String {
    if of(text) <= columns {
        return text.to_owned();
    }
    if let Some((line, function)) = line_and_function(text) {
        return match columns.checked_sub(of(line) + 1) {
            Some(room) if room >= NAMED => format!("{line} {}", shorten(function, room)),
            _ => shorten(line, columns),
        };
    }
    let Some(room) = columns.checked_sub(1) else {
        return String::new();
    };
    // The end of a path is its name: it gets the odd column.
    let head =
        fitting(text.char_indices(), room / 2).last().map_or(0, |(at, char)| at + char.len_utf8());
    let tail =
        fitting(text.char_indices().rev(), room - room / 2).last().map_or(text.len(), |(at, _)| at);
    format!("{}…{}", &text[..head], &text[tail..])
}

/// `unpack.sh:12` and `names()` of `unpack.sh:12 names()`; `zsh, line 3` and `names()` as well.
fn line_and_function(text: &str) -> Option<(&str, &str)> {
    let is_number = |(_, number): (&str, &str)| number.parse::<u32>().is_ok();
    text.match_indices(' ').map(|(at, _)| (&text[..at], &text[at + 1..])).find(|(before, _)| {
        before.rsplit_once(':').is_some_and(is_number)
            || before.rsplit_once(", line ").is_some_and(is_number)
    })
}

/// `text` in at most `columns` columns. What is too much is taken off its end, which a sentence can spare.
pub fn begin(text: &str, columns: usize) -> String {
    if of(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else {
        return String::new();
    };
    let end =
        fitting(text.char_indices(), room).last().map_or(0, |(at, char)| at + char.len_utf8());
    format!("{}…", &text[..end])
}

/// `text` as lines of at most `columns` columns, broken at spaces, but not between a number and
/// its per cent sign; a word that is longer is shortened. Each line ends in a newline.
pub fn wrap(text: &str, columns: usize) -> String {
    const NO_BREAK: char = '\u{a0}';
    let text = text.replace(" %", &format!("{NO_BREAK}%"));
    let mut lines = String::with_capacity(text.len() + 1);
    let mut taken = 0;
    for word in text.split(' ') {
        let word = shorten(word, columns);
        let more = of(&word);
        if taken > 0 && taken + 1 + more > columns {
            lines.push('\n');
            taken = 0;
        } else if taken > 0 {
            lines.push(' ');
            taken += 1;
        }
        lines.push_str(&word);
        taken += more;
    }
    lines.push('\n');
    lines.replace(NO_BREAK, " ")
}

/// The characters from the start of `chars` that take at most `columns` columns.
fn fitting(
    chars: impl Iterator<Item = (usize, char)>,
    columns: usize,
) -> impl Iterator<Item = (usize, char)> {
    chars
        .scan(0, |taken, (at, char)| {
            *taken += char.width().unwrap_or(0);
            Some((*taken, at, char))
        })
        .take_while(move |(taken, ..)| *taken <= columns)
        .map(|(_, at, char)| (at, char))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_loses_its_end_and_says_so() {
        assert_eq!(begin("modules were searched", 21), "modules were searched");
        assert_eq!(begin("modules were searched", 20), "modules were search…");
        assert_eq!((&*begin("猫猫", 3), &*begin("ab", 1), &*begin("ab", 0)), ("猫…", "…", ""));
    }

    #[test]
    fn a_path_that_is_too_long_keeps_both_its_ends() {
        let path = "/opt/spack/linux-debian12/gcc-13/zlib-1.3/lib/libz.so.1";
        assert_eq!(shorten(path, 24), "/opt/spack/…ib/libz.so.1");
        assert_eq!(shorten(path, 100), path);
    }

    #[test]
    fn a_line_of_a_file_keeps_its_number_whatever_is_cut() {
        let place = "unpack-archives.sh:12 names_of_all()";
        assert_eq!(shorten(place, 30), "unpack-archives.sh:12 nam…ll()");
        assert_eq!(shorten(place, 26), "unpack-archives.sh:12");
        assert_eq!(shorten(place, 16), "unpack-…es.sh:12");
        assert_eq!(shorten("zsh, line 3 names_of_all()", 20), "zsh, line 3 nam…ll()");
        for columns in 5..40 {
            let short = shorten(place, columns);
            assert!(of(&short) <= columns && short.contains("12"), "{short:?} in {columns}");
        }
    }

    #[test]
    fn shortened_text_never_exceeds_its_columns_whatever_the_script() {
        for text in [
            "/data/文件夹/名字很长的文件.txt",
            "e\u{301}te\u{301}-e\u{301}te\u{301}",
            "plain-ascii-text",
        ] {
            for columns in 0..20 {
                let short = shorten(text, columns);
                assert!(of(&short) <= columns, "{short:?} in {columns}");
            }
        }
    }

    #[test]
    fn a_line_does_not_break_before_a_per_cent_sign() {
        assert_eq!(wrap("76 (46 %) no", 6), "76\n(46 %)\nno\n");
    }

    #[test]
    fn prose_is_broken_at_spaces_and_no_line_exceeds_the_columns() {
        assert_eq!(wrap("a storm of opens and stats", 12), "a storm of\nopens and\nstats\n");
        assert_eq!(wrap("see /a/word/longer/than/it here", 10), "see\n/a/w…an/it\nhere\n");
        assert_eq!(wrap("", 10), "\n");
    }
}
