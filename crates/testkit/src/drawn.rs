//! What a command draws on a terminal: the screen as a person sees it.

use std::num::NonZero;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use super::live::LIMIT;
use super::terminal::Terminal;

/// A terminal whose screen is looked at.
pub struct DrawnTerminal {
    /// The terminal itself.
    pub terminal: Terminal,
    /// The screen, and all that it was made of.
    parser: vt100::Parser,
    written: Vec<u8>,
}

impl DrawnTerminal {
    /// Starts a command on a terminal of so many columns and lines.
    pub fn start(command: &mut Command, size: (u16, u16)) -> DrawnTerminal {
        let terminal = Terminal::start_sized(command.env("TERM", "xterm-256color"), Some(size));
        let parser = vt100::Parser::new(some(size.1), some(size.0), 0);
        DrawnTerminal { terminal, parser, written: Vec::new() }
    }

    /// The lines of the screen.
    pub fn lines(&self) -> Vec<String> {
        let screen = self.parser.screen();
        screen.rows(0, screen.size().1.get()).map(|line| line.trim_end().to_owned()).collect()
    }

    /// The screen itself.
    pub fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// All that was ever written.
    pub fn written(&self) -> &[u8] {
        &self.written
    }

    /// Presses keys, and waits until the screen is so.
    #[track_caller]
    pub fn press(&mut self, keys: &str, is_so: impl Fn(&[String]) -> bool) -> Vec<String> {
        self.terminal.send(keys);
        self.wait(is_so)
    }

    /// The same, until this stands on it.
    #[track_caller]
    pub fn press_for(&mut self, keys: &str, text: &str) -> Vec<String> {
        self.press(keys, |lines| lines.iter().any(|line| line.contains(text)))
    }

    /// Waits until the screen is so.
    #[track_caller]
    pub fn wait(&mut self, is_so: impl Fn(&[String]) -> bool) -> Vec<String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let lines = self.lines();
            if self.is_whole() && is_so(&lines) {
                return lines;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let is_written_to = self.terminal.is_written_to(left);
            let got = if is_written_to { self.terminal.read() } else { Vec::new() };
            assert!(!got.is_empty(), "it never is so:\n{}", lines.join("\n"));
            self.take(&got);
        }
    }

    /// Gives the terminal another size, and waits until the screen is so.
    #[track_caller]
    pub fn resize(&mut self, size: (u16, u16), is_so: impl Fn(&[String]) -> bool) -> Vec<String> {
        self.parser.screen_mut().set_size(some(size.1), some(size.0));
        self.terminal.resize(size);
        self.wait(is_so)
    }

    /// Reads until the command ends, and says how.
    pub fn end(&mut self) -> ExitStatus {
        loop {
            match self.terminal.read() {
                last if last.is_empty() => return self.terminal.ended(),
                more => self.take(&more),
            }
        }
    }

    /// Whether the terminal is given back: its first screen, its cursor, no mouse.
    pub fn is_given_back(&self) -> bool {
        let screen = self.parser.screen();
        let has_mouse = screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None;
        !screen.alternate_screen() && !screen.hide_cursor() && !has_mouse
    }

    /// Reads for as long as anything comes.
    pub fn settle(&mut self) {
        while self.terminal.is_written_to(Duration::from_millis(300)) {
            let got = self.terminal.read();
            if got.is_empty() {
                return;
            }
            self.take(&got);
        }
    }

    /// Whether no drawing is half done, of a command that says so (synchronized output, mode 2026).
    fn is_whole(&self) -> bool {
        let last = |mark: &[u8]| self.written.windows(mark.len()).rposition(|it| it == mark);
        last(b"\x1b[?2026h") <= last(b"\x1b[?2026l")
    }

    fn take(&mut self, got: &[u8]) {
        self.written.extend_from_slice(got);
        self.parser.process(got);
    }
}

/// A terminal has a line and a column.
fn some(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}
