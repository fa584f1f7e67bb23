//! What is drawn where: a title, the views, the rows below their header, what is counted, and the keys.
//! A screen that is too low goes without some of them, the rows last.
//!
//! | file | what it holds |
//! |---|---|
//! | `pen` | text in its place, and which colour says what |
//! | `tree_rows` | the rows of a tree |
//! | `call_rows` | the rows of the calls behind one |
//! | `page_rows` | text to scroll |
//! | `status` | what is counted, the keys, a line that is typed |

mod call_rows;
mod page_rows;
mod pen;
mod status;
mod tree_rows;

use ratatui_core::buffer::Buffer;
use ratatui_core::style::Style;
use term::number::count;
use term::width;

use crate::browser::Browser;
use crate::view::View;
use pen::{BOLD, DIM, Line, NONE, Pen};

/// The lines of a screen, from the top; none where there is no room for it.
struct Lines {
    title: Option<u16>,
    views: Option<u16>,
    header: Option<u16>,
    rows: (u16, u16),
    status: Option<u16>,
    keys: Option<u16>,
}

impl Lines {
    fn of(height: u16) -> Lines {
        // What is spared first stands last.
        let wanted = [4, 5, 6, 3, 8];
        let [header, status, title, views, keys] = wanted.map(|least| height >= least);
        let mut next = 0;
        let mut line = |is_there: bool| {
            let at = next;
            next += u16::from(is_there);
            is_there.then_some(at)
        };
        let (title, views, header) = (line(title), line(views), line(header));
        let below = u16::from(status) + u16::from(keys);
        let rows = (next, height.saturating_sub(next + below));
        let status = status.then(|| rows.0 + rows.1);
        let keys = keys.then(|| height - 1);
        Lines { title, views, header, rows, status, keys }
    }
}

/// Draws all of it.
pub fn draw(browser: &mut Browser, screen: &mut Buffer) {
    screen.reset();
    let pen = Pen { has_colour: browser.has_colour };
    let lines = Lines::of(screen.area.height);
    browser.rows_at = lines.rows;
    if let Some(at) = lines.title {
        title(browser, pen, &mut Line::of(screen, at));
    }
    if let Some(at) = lines.views {
        place(browser, &mut Line::of(screen, at));
    }
    let rows = (lines.header, lines.rows);
    if browser.page.is_some() {
        page_rows::draw(browser, screen, rows);
    } else if browser.list.is_some() {
        call_rows::draw(browser, pen, screen, rows);
    } else {
        tree_rows::draw(browser, pen, screen, rows);
    }
    let last = lines.status.or(lines.keys);
    if let Some(at) = last {
        status::draw(browser, pen, &mut Line::of(screen, at));
    }
    if let Some(at) = lines.keys {
        status::keys(browser, pen, &mut Line::of(screen, at));
    }
}

/// What is browsed, and what is said of it.
fn title(browser: &Browser, pen: Pen, line: &mut Line) {
    let (verdict, style) = verdict(browser, pen);
    let room = line.room();
    // Half of a narrow screen is for the verdict.
    let left = room.saturating_sub(width::of(verdict) + 2).max(room / 2);
    let words = &browser.recording.header.command();
    let command = term::shell_line(words);
    line.put_short(&command, left.min(room), BOLD);
    line.skip_to_last(width::of(verdict));
    line.put(verdict, style);
}

fn verdict(browser: &Browser, pen: Pen) -> (&'static str, Style) {
    use explain::StartVerdict::{Calm, NoStorm, NotKnown, SlowStart};
    match &browser.found {
        None if browser.is_waiting() => ("working out the wait…", DIM),
        None => ("", NONE),
        Some(found) => {
            let verdict = found.findings.verdict;
            let style = match verdict {
                SlowStart => pen.bad(),
                Calm => pen.good(),
                NoStorm | NotKnown => pen.warning(),
            };
            (verdict.name(), style.patch(BOLD))
        }
    }
}

/// The views, and where one is in them.
fn place(browser: &Browser, line: &mut Line) {
    if browser.page.is_some() || browser.list.is_some() {
        return trail(browser, line);
    }
    // All their names, as far apart as there is room for; or that of the one that is seen.
    let names = View::ALL.map(|view| view.short_name().len() + 2).iter().sum::<usize>();
    let gaps = View::ALL.len() - 1;
    let gap = if line.room() >= names + 2 * gaps { 2 } else { 1 };
    let has_names = line.room() >= names + gaps;
    for (number, view) in (1..).zip(View::ALL) {
        let is_here = view == browser.view;
        let text = match is_here || has_names {
            true => format!("{number} {}", view.short_name()),
            false => number.to_string(),
        };
        line.put(&text, if is_here { BOLD } else { DIM });
        line.skip(if has_names { gap } else { 2 });
    }
}

/// The way from the view to what is seen.
fn trail(browser: &Browser, line: &mut Line) {
    line.put(browser.view.name(), DIM);
    let page = browser.page.as_ref().map(|page| page.title.clone());
    if let Some(list) = &browser.list {
        let calls = term::number::counted(list.len() as u64, "call", "calls");
        let after = page.as_ref().map_or(0, |title| width::of(title) + 3);
        let room = line.room().saturating_sub(width::of(&calls) + 5 + after);
        line.put(" › ", DIM);
        line.put_short(&list.title, room, BOLD);
        line.put(": ", NONE);
        line.put(&calls, NONE);
    }
    if let Some(title) = page {
        line.put(" › ", DIM);
        line.put(&title, BOLD);
    }
}

/// The header of a column, with which way it is sorted.
fn heading(name: &str, is_sorted: bool, is_reversed: bool) -> (String, Style) {
    match (is_sorted, is_reversed) {
        (false, _) => (name.to_owned(), DIM),
        (true, false) => (format!("{name}▾"), BOLD),
        (true, true) => (format!("{name}▴"), BOLD),
    }
}

/// Columns for a time, where the longest is `longest` nanoseconds.
fn time_columns(longest: u64) -> usize {
    // `999 ms`, `12.3 ms`, `99.9 s`; with minutes: `59 min 59 s`.
    term::width::of(&term::number::time(recording::Nanos(longest))).max(
        match longest < 99_950_000_000 {
            true => 7,
            false => 11,
        },
    )
}

/// Columns for counts, where the largest is `largest`.
fn count_columns(largest: u64, name: &str) -> usize {
    // Its header has a mark where it is sorted.
    count(largest).len().max(name.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_height_has_each_line_once_and_the_rows_have_what_is_left() {
        for height in 0..60 {
            let lines = Lines::of(height);
            let single = [lines.title, lines.views, lines.header, lines.status, lines.keys];
            let mut all: Vec<u16> = single.into_iter().flatten().collect();
            all.extend(lines.rows.0..lines.rows.0 + lines.rows.1);
            all.sort_unstable();
            assert_eq!(all, (0..height).collect::<Vec<_>>(), "{height}");
            assert!(height == 0 || lines.rows.1 > 0, "{height}");
        }
    }
}
