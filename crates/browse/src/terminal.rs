//! The terminal itself: taken, drawn on, and given back however it ends.

use std::io::{self, IsTerminal, Write, stdin, stdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossterm::{event, terminal};
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGXCPU,
    SIGXFSZ,
};
use signal_hook::iterator::Signals;

use crate::browser::Browser;
use crate::keys::Reaction;

/// How often it is looked whether what is worked out is known.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The alternate screen, no cursor, and the mouse's buttons and wheel (xterm's control sequences,
/// 1049, 25, 1000 and 1006).
const TAKE: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1006h\x1b[2J";
const GIVE_BACK: &[u8] = b"\x1b[?1006l\x1b[?1000l\x1b[?25h\x1b[0m\x1b[?1049l";

/// Around what is drawn at once (synchronized output, mode 2026, where a terminal has it).
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[0m\x1b[?2026l";

/// Why there is nothing to draw on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTerminal {
    /// Standard input or output is none.
    NotOne,
    /// It cannot move its cursor (`TERM=dumb`), or nobody says what it is.
    Dumb,
}

/// Whether standard input and output are a terminal that can be drawn on.
///
/// # Errors
/// Why not.
pub fn check_terminal() -> Result<(), NoTerminal> {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(NoTerminal::NotOne);
    }
    match std::env::var_os("TERM") {
        Some(term) if !term.is_empty() && term != "dumb" => Ok(()),
        _ => Err(NoTerminal::Dumb),
    }
}

/// Browses until it is quit, or the terminal is gone. The terminal is then as before: also where a
/// signal or a panic ends the process.
///
/// # Errors
/// Those of the terminal.
pub fn in_terminal(browser: Browser) -> io::Result<()> {
    // https://no-color.org: when it is not empty.
    let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let browser = if has_colour { browser } else { browser.without_colour() };
    give_back_at_panic();
    let session = TerminalSession { browser, shown: Buffer::empty(Rect::ZERO) };
    let session = Arc::new(Mutex::new(session));
    watch_signals(&session)?;
    lock(&session).take()?;
    let done = go_on(&session);
    // Held to the end: nothing is drawn any more.
    let _last = lock(&session);
    give_back();
    done
}

/// What is browsed, and what the terminal shows of it.
struct TerminalSession {
    browser: Browser,
    shown: Buffer,
}

/// A signal's thread may draw, too.
fn lock(session: &Mutex<TerminalSession>) -> MutexGuard<'_, TerminalSession> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reacts to keys until there are no more.
fn go_on(session: &Mutex<TerminalSession>) -> io::Result<()> {
    loop {
        let is_waiting = {
            let mut session = lock(session);
            if session.browser.take_found() {
                session.draw()?;
            }
            session.browser.is_waiting()
        };
        let keyboard = stdin();
        let mut ready = [PollFd::new(&keyboard, PollFlags::IN)];
        match poll(&mut ready, is_waiting.then_some(&LOOK)) {
            Err(rustix::io::Errno::INTR) | Ok(0) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        if ready[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(());
        }
        while event::poll(Duration::ZERO)? {
            let key = event::read()?;
            let mut session = lock(session);
            match session.browser.react(&key) {
                Reaction::Quit => return Ok(()),
                Reaction::Draw => {}
                Reaction::DrawAnew => session.forget(),
                Reaction::Stop => session.stop()?,
            }
        }
        lock(session).draw()?;
    }
}

impl TerminalSession {
    /// Takes the terminal, and draws all of it.
    fn take(&mut self) -> io::Result<()> {
        terminal::enable_raw_mode()?;
        write(TAKE)?;
        self.forget();
        self.draw()
    }

    /// Stops as the shell's job that this is, and goes on when the shell says so.
    fn stop(&mut self) -> io::Result<()> {
        give_back();
        kill_current_process_group(Signal::TSTP)?;
        self.take()
    }

    /// What the terminal shows is not known.
    fn forget(&mut self) {
        self.shown = Buffer::empty(Rect::ZERO);
    }

    /// Draws what has changed.
    fn draw(&mut self) -> io::Result<()> {
        // A terminal that does not know its size: a serial line.
        let (columns, lines) = terminal::size().unwrap_or((80, 24));
        let size = Rect::new(0, 0, columns.min(LARGEST.0), lines.min(LARGEST.1));
        let mut next = Buffer::empty(size);
        self.browser.draw(&mut next);
        let mut text = BEGIN.to_vec();
        if self.shown.area != next.area {
            text.extend_from_slice(b"\x1b[0m\x1b[2J");
            self.shown = Buffer::empty(next.area);
        }
        let mut pen = None;
        let mut after = None;
        for (x, y, cell) in self.shown.diff(&next) {
            if after != Some((x, y)) {
                write!(text, "\x1b[{};{}H", y + 1, x + 1)?;
            }
            let style = rendition(cell);
            if pen.as_ref() != Some(&style) {
                write!(text, "\x1b[{style}m")?;
                pen = Some(style);
            }
            text.extend_from_slice(cell.symbol().as_bytes());
            // Terminals do not agree on how wide other characters are.
            after = cell.symbol().is_ascii().then_some((x + 1, y));
        }
        text.extend_from_slice(END);
        self.shown = next;
        write(&text)
    }
}

/// A cell's style as the parameters of SGR (ECMA-48).
fn rendition(cell: &Cell) -> String {
    let mut parameters = String::from("0");
    let modifiers = [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")];
    for (_, parameter) in modifiers.iter().filter(|(modifier, _)| cell.modifier.contains(*modifier))
    {
        parameters.push_str(parameter);
    }
    parameters.push_str(match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        _ => "",
    });
    parameters
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Gives the terminal back, as far as it takes it.
fn give_back() {
    let _ = write(GIVE_BACK);
    let _ = terminal::disable_raw_mode();
}

/// So that a panic is said on the screen that stays.
fn give_back_at_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
    }));
}

/// More columns or lines than these no person's terminal has; they would take gigabytes.
const LARGEST: (u16, u16) = (2000, 1000);

/// What ends a process unless it is caught, sent by a person, a shell, a batch system or a limit.
const ENDING: [i32; 9] =
    [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGXFSZ];

/// Draws anew where the terminal's size changed or the process goes on after a stop, and gives the
/// terminal back before a signal ends the process.
fn watch_signals(session: &Arc<Mutex<TerminalSession>>) -> io::Result<()> {
    let mut signals = Signals::new(ENDING.iter().chain(&[SIGCONT, SIGWINCH]))?;
    let session = Arc::clone(session);
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let mut session = lock(&session);
            // An error of the terminal ends the reading of its keys, too.
            let _ = match signal {
                SIGWINCH => session.draw(),
                SIGCONT => session.take(),
                _ => {
                    give_back();
                    signal_hook::low_level::emulate_default_handler(signal)
                }
            };
        }
    });
    Ok(())
}
