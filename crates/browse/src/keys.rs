//! What each key does.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use crate::browser::{Asked, Browser, Prompt};
use crate::page::Page;
use crate::typed_filter::TypedFilter;
use crate::view::View;

/// Rows that a notch of the wheel goes.
const NOTCH: isize = 3;
/// Letters that can be typed.
const LONGEST: usize = 1000;

/// What is to be done after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Draw what has changed.
    Draw,
    /// Draw all of it.
    DrawAnew,
    /// Stop, as the shell's Ctrl-Z does.
    Stop,
    /// End.
    Quit,
}

impl Browser {
    /// Does what a key, or the mouse, says.
    pub fn react(&mut self, event: &Event) -> Reaction {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.press(*key),
            Event::Mouse(mouse) => {
                self.point(*mouse);
                Reaction::Draw
            }
            _ => Reaction::Draw,
        }
    }

    fn press(&mut self, key: KeyEvent) -> Reaction {
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Reaction::Quit,
                KeyCode::Char('z') => return Reaction::Stop,
                KeyCode::Char('l') => return Reaction::DrawAnew,
                _ => {}
            }
        }
        if let Some(prompt) = self.prompt.take() {
            self.type_in(prompt, key);
        } else if key.modifiers.contains(KeyModifiers::CONTROL) {
            self.press_with_control(key.code);
        } else if !self.goes(key.code) {
            return self.press_other(key.code);
        }
        Reaction::Draw
    }

    fn press_with_control(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('d') => self.page_by(1),
            KeyCode::Char('u') => self.page_by(-1),
            KeyCode::Char('f') => self.page_by(2),
            KeyCode::Char('b') => self.page_by(-2),
            KeyCode::Char('n') => self.go(1),
            KeyCode::Char('p') => self.go(-1),
            _ => {}
        }
    }

    /// Whether a key moves the cursor, which it then has.
    fn goes(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown => self.page_by(2),
            KeyCode::PageUp => self.page_by(-2),
            KeyCode::Home | KeyCode::Char('g') => self.go(isize::MIN / 2),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX / 2),
            _ => return false,
        }
        true
    }

    fn press_other(&mut self, code: KeyCode) -> Reaction {
        match code {
            KeyCode::Char('q') if self.page.is_none() => return Reaction::Quit,
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Backspace => _ = self.leave(),
            KeyCode::Left | KeyCode::Char('h') if self.leave() => {}
            KeyCode::Left | KeyCode::Char('h') => self.outline().close(),
            KeyCode::Char('?') => self.page = Some(Page::help()),
            KeyCode::Tab => self.next_view(1),
            KeyCode::BackTab => self.next_view(-1),
            KeyCode::Char(digit @ '1'..='8') => {
                self.go_to_view(View::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Char('f') => {
                let text = self.filter.words.clone();
                self.prompt = Some(Prompt { asks_for: Asked::Filter, text });
            }
            KeyCode::Char('F') => self.filter(TypedFilter::default()),
            _ if self.page.is_none() => self.press_on_rows(code),
            _ => {}
        }
        Reaction::Draw
    }

    fn press_on_rows(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.enter(),
            KeyCode::Char('s') => self.sort(1),
            KeyCode::Char('S') => self.sort(-1),
            KeyCode::Char('r') => self.reverse(),
            KeyCode::Char('/') => {
                self.prompt = Some(Prompt { asks_for: Asked::Search, text: String::new() });
            }
            KeyCode::Char('n') => self.search(true),
            KeyCode::Char('N') => self.search(false),
            KeyCode::Right | KeyCode::Char('l') if self.list.is_some() => self.enter(),
            KeyCode::Right | KeyCode::Char('l') => self.outline().open(),
            _ if self.list.is_some() => {}
            KeyCode::Char(' ') => self.outline().toggle(),
            KeyCode::Char('*') => self.outline().open_all(true),
            KeyCode::Char('-') => self.outline().open_all(false),
            _ => {}
        }
    }

    fn type_in(&mut self, mut prompt: Prompt, key: KeyEvent) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return self.answer(prompt),
            KeyCode::Esc => return,
            KeyCode::Char('u') if is_control => prompt.text.clear(),
            KeyCode::Char('w') if is_control => {
                let kept = prompt.text.trim_end().rfind(' ').map_or(0, |space| space + 1);
                prompt.text.truncate(kept);
            }
            KeyCode::Char(letter) if !is_control && prompt.text.len() < LONGEST => {
                prompt.text.push(letter);
            }
            // As in vi: where nothing is left to take away, it is left.
            KeyCode::Backspace if prompt.text.is_empty() => return,
            KeyCode::Backspace => _ = prompt.text.pop(),
            _ => {}
        }
        self.prompt = Some(prompt);
    }

    fn point(&mut self, mouse: MouseEvent) {
        match mouse.kind {
            MouseEventKind::ScrollDown => self.go(NOTCH),
            MouseEventKind::ScrollUp => self.go(-NOTCH),
            MouseEventKind::Down(MouseButton::Left) => self.point_at(mouse.row),
            _ => {}
        }
    }

    /// Goes to the row at a line of the screen; of the row at the cursor: opens or closes it.
    fn point_at(&mut self, line: u16) {
        let (first, height) = self.rows_at;
        let Some(below) = line.checked_sub(first).filter(|below| *below < height) else { return };
        if self.page.is_some() {
            return;
        }
        if let Some(list) = &mut self.list {
            let (row, rows) = (list.cursor.row_at(below.into()), list.len());
            if row < rows {
                list.cursor.go_to(row, rows);
            }
            return;
        }
        let outline = self.outline();
        let (row, rows) = (outline.cursor.row_at(below.into()), outline.len());
        if row < rows && row == outline.cursor.at {
            outline.toggle();
        } else if row < rows {
            outline.cursor.go_to(row, rows);
        }
    }

    fn go(&mut self, by: isize) {
        if let Some(page) = &mut self.page {
            page.top = page.top.saturating_add_signed(by);
        } else if let Some(list) = &mut self.list {
            list.cursor.go(by, list.len());
        } else {
            let outline = self.outline();
            outline.cursor.go(by, outline.len());
        }
    }

    /// Goes so many half screens.
    fn page_by(&mut self, halves: isize) {
        let half = isize::from(self.rows_at.1 as i16 / 2).max(1);
        if self.page.is_some() {
            self.go(half * halves);
        } else if let Some(list) = &mut self.list {
            list.cursor.page(halves, list.len());
        } else {
            let outline = self.outline();
            outline.cursor.page(halves, outline.len());
        }
    }
}
