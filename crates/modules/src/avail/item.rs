//! Entries of an answer, laid out one after the other or in columns.

use std::borrow::Cow;

use super::config::{Config, Style};
use super::grid::{Grid, padded, tight};

/// One line, or one place of the grid.
pub(super) struct AvailItem<'n> {
    /// What it is sorted by.
    pub plain: Cow<'n, str>,
    /// None where that is all of it.
    pub written: Option<String>,
    /// Characters on the screen.
    pub length: usize,
}

impl AvailItem<'_> {
    /// As it is written.
    pub fn text(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.plain)
    }
}

/// Items, one after the other.
pub(super) fn joined(items: &[AvailItem<'_>], between: &str, end: &str, text: &mut String) {
    for (at, item) in items.iter().enumerate() {
        text.push_str(if at > 0 { between } else { "" });
        text.push_str(item.text());
    }
    text.push_str(end);
}

/// Items in columns, by the release's grid.
pub(super) fn columns(items: &[AvailItem<'_>], config: &Config, text: &mut String) {
    let lengths: Vec<usize> = items.iter().map(|item| item.length).collect();
    let Grid { rows, columns } = match config.style {
        Style::Since57 => tight(&lengths, config.width),
        Style::Since52 | Style::Since55 => padded(&lengths, config.width),
    };
    for row in 0..rows {
        for (column, width) in columns.iter().enumerate() {
            if let Some(item) = items.get(column * rows + row) {
                text.push_str(item.text());
                text.extend(std::iter::repeat_n(' ', width.saturating_sub(item.length)));
            }
        }
        text.push('\n');
    }
}
