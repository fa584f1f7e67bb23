//! Which colour says what. `anstream` takes the colours out where they do not belong.

use anstyle::{AnsiColor, Style};

use crate::width;

/// No style.
pub const NONE: Style = Style::new();
/// The sentence that answers the question.
pub const HEADLINE: Style = Style::new().bold();
/// The verdict on what is too slow.
pub const SLOW: Style = AnsiColor::Red.on_default().bold();
/// The verdict on what is as it should be.
pub const CALM: Style = AnsiColor::Green.on_default().bold();
/// The verdict where there is none.
pub const UNDECIDED: Style = AnsiColor::Yellow.on_default().bold();
/// The word before a line: Why, Fix.
pub const LABEL: Style = Style::new().bold();
/// A table's header.
pub const HEADER: Style = Style::new().dimmed();
/// A table's last row, the sum.
pub const TOTAL: Style = Style::new().bold();
/// Better: fewer calls, less time.
pub const LESS: Style = AnsiColor::Green.on_default();
/// Worse: more calls, more time.
pub const MORE: Style = AnsiColor::Red.on_default();
/// What a person must not overlook.
pub const WARNING: Style = AnsiColor::Yellow.on_default();
/// A command to paste.
pub const COMMAND: Style = AnsiColor::Cyan.on_default();

/// `text` in that style, ended by a reset; unchanged where the style says nothing.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// The sentence that answers the question, as lines of at most `columns` columns.
pub fn headline(text: &str, columns: usize) -> String {
    format!("{}\n", paint(HEADLINE, width::wrap(text, columns).trim_end()))
}

/// The last line: what to do next, as a command to paste. It is never wrapped or cut.
pub fn next(command: &str) -> String {
    if command.is_empty() {
        return String::new();
    }
    format!("Next: {}\n", paint(COMMAND, command))
}
