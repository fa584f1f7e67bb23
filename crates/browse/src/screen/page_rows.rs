//! Text to scroll.

use ratatui_core::buffer::Buffer;
use term::{plain, width};

use super::pen::{BOLD, Line, NONE};
use crate::browser::Browser;
use crate::page::Page;

/// Columns of what a line is about, at most.
const LABEL: usize = 14;

/// Draws as many of its lines as there is room for; a header's line is one more.
pub fn draw(
    browser: &mut Browser,
    screen: &mut Buffer,
    (header, (first, height)): (Option<u16>, (u16, u16)),
) {
    let Some(page) = &mut browser.page else { return };
    let (first, height) = (header.unwrap_or(first), height + u16::from(header.is_some()));
    let lines = wrapped(page, screen.area.width.into());
    page.top = page.top.min(lines.len().saturating_sub(height.into()));
    for (down, (label, text)) in (first..).zip(lines.iter().skip(page.top).take(height.into())) {
        let mut line = Line::of(screen, down);
        let columns = label_columns(line.room());
        line.put_short(label, columns, BOLD);
        let mut line = Line::of(screen, down);
        line.skip(columns + 1);
        line.put(text, NONE);
    }
}

fn label_columns(room: usize) -> usize {
    LABEL.min(room / 3)
}

/// The lines of a page at this width. A word is broken rather than shortened: it may be the path that
/// was asked for.
fn wrapped(page: &Page, columns: usize) -> Vec<(String, String)> {
    let room = columns.saturating_sub(label_columns(columns) + 1).max(1);
    let mut lines = Vec::new();
    for (label, text) in &page.lines {
        let text = broken(&plain(text), room);
        let labels = std::iter::once(label.as_str()).chain(std::iter::repeat(""));
        for (label, line) in labels.zip(width::wrap(&text, room).lines()) {
            lines.push((label.to_owned(), line.to_owned()));
        }
    }
    lines
}

/// Text whose words are no longer than a line.
fn broken(text: &str, columns: usize) -> String {
    let mut broken = String::with_capacity(text.len());
    let mut taken = 0;
    for letter in text.chars() {
        let more = width::of(letter.encode_utf8(&mut [0; 4]));
        if letter == ' ' {
            taken = 0;
        } else if taken + more > columns {
            broken.push(' ');
            taken = more;
        } else {
            taken += more;
        }
        broken.push(letter);
    }
    broken
}
