//! Text on the screen, and which colour says what. The terminal's own 16 colours, so that it can be
//! read on dark and on light.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use term::{plain, width};

/// Which colour says what.
#[derive(Clone, Copy)]
pub struct Pen {
    /// Whether there may be colours.
    pub has_colour: bool,
}

impl Pen {
    /// What is wrong: a verdict, failed lookups.
    pub fn bad(self) -> Style {
        self.coloured(Color::Red)
    }

    /// What is as it should be.
    pub fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    /// What must not be overlooked.
    pub fn warning(self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// A key that can be pressed.
    pub fn key(self) -> Style {
        self.coloured(Color::Cyan)
    }

    fn coloured(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }
}

/// No style.
pub const NONE: Style = Style::new();
/// What stands above numbers.
pub const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// What is answered, or chosen.
pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Where the cursor is.
pub const CURSOR: Style = Style::new().add_modifier(Modifier::REVERSED);

/// A line of the screen that is written from left to right.
pub struct Line<'a> {
    screen: &'a mut Buffer,
    x: u16,
    y: u16,
    end: u16,
}

impl<'a> Line<'a> {
    /// The line of a screen that is so far down; one that is not there takes no text.
    pub fn of(screen: &'a mut Buffer, down: u16) -> Line<'a> {
        let Rect { x, y, width, height } = screen.area;
        let end = if down < height { x + width } else { x };
        Line { screen, x, y: y + down, end }
    }

    /// How many columns are left.
    pub fn room(&self) -> usize {
        (self.end - self.x).into()
    }

    /// Writes text, as much of it as there is room for; what steers a terminal is spelt out.
    pub fn put(&mut self, text: &str, style: Style) {
        let room = self.room();
        if room > 0 {
            (self.x, _) = self.screen.set_stringn(self.x, self.y, plain(text), room, style);
        }
    }

    /// The same in at most so many columns, with what is too much taken out of the middle.
    pub fn put_short(&mut self, text: &str, columns: usize, style: Style) {
        self.put(&width::shorten(&plain(text), columns.min(self.room())), style);
    }

    /// The same with what is too much taken off the end, which a sentence can spare, unlike a path.
    pub fn put_beginning(&mut self, text: &str, style: Style) {
        self.put(&width::begin(&plain(text), self.room()), style);
    }

    /// The same at the right of so many columns.
    pub fn put_right(&mut self, text: &str, columns: usize, style: Style) {
        let text = width::shorten(&plain(text), columns.min(self.room()));
        self.skip(columns.saturating_sub(width::of(&text)));
        self.put(&text, style);
    }

    /// Leaves columns empty.
    pub fn skip(&mut self, columns: usize) {
        let columns = columns.min(self.room());
        self.x += columns as u16;
    }

    /// Leaves columns empty, so that so many are left.
    pub fn skip_to_last(&mut self, columns: usize) {
        self.skip(self.room().saturating_sub(columns));
    }

    /// Gives the whole line one more style.
    pub fn restyle(&mut self, style: Style) {
        let Rect { x, width, .. } = self.screen.area;
        if self.end > x {
            self.screen.set_style(Rect { x, y: self.y, width, height: 1 }, style);
        }
    }
}
