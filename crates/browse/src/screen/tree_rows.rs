//! The rows of a tree: numbers at the left, where they stand below each other at every width, and the
//! tree at the right, which has the rest.

use ratatui_core::buffer::Buffer;
use ratatui_core::style::Style;
use recording::Nanos;
use term::number::{bar, count, time};

use super::pen::{CURSOR, DIM, Line, NONE, Pen};
use super::{count_columns, heading, time_columns};
use crate::browser::Browser;
use crate::counts::CallCounts;
use crate::outline::{Outline, TreeColumn};
use crate::view::View;

/// Columns for a cause's name: `loader (dlopen)`.
const CAUSE: usize = 15;
/// Columns of a screen on which a sentence has room beside all numbers.
const WIDE: usize = 130;
/// Columns for a bar.
const BAR: usize = 10;
/// Columns that the tree has at least, while others can be spared.
const LEAST_TREE: usize = 24;
/// Columns that the tree never goes without.
const NARROWEST_TREE: usize = 8;

/// A column of numbers, and how wide it is.
struct TreeField {
    column: TreeColumn,
    name: &'static str,
    columns: usize,
}

/// What a row is drawn with.
struct Drawn {
    fields: Vec<TreeField>,
    has_bar: bool,
    all: CallCounts,
    /// Where the wait is not known, or not yet.
    no_wait: Option<&'static str>,
    pen: Pen,
}

/// Draws the rows, and their header.
pub fn draw(
    browser: &mut Browser,
    pen: Pen,
    screen: &mut Buffer,
    (header, (first, height)): (Option<u16>, (u16, u16)),
) {
    let no_wait = match (browser.facts.has_waits(), browser.is_waiting()) {
        (true, _) => None,
        (false, true) => Some("…"),
        (false, false) => Some("-"),
    };
    let (view, all) = (browser.view, browser.counted);
    let (fields, has_bar) = fields(view, &all, screen.area.width.into());
    let drawn = Drawn { fields, has_bar, all, no_wait, pen };
    let is_waiting = browser.is_waiting() && view == View::Storms;
    let outline = browser.outline();
    if let Some(at) = header {
        drawn.header(outline, &mut Line::of(screen, at));
    }
    if outline.len() == 0 {
        let nothing =
            if is_waiting { "working out which storms there are…" } else { view.nothing() };
        Line::of(screen, first).put(nothing, DIM);
    }
    let current = outline.current();
    let seen: Vec<u32> = outline.seen(height.into()).to_vec();
    for (down, node) in (first..).zip(seen) {
        let mut line = Line::of(screen, down);
        drawn.row(outline, node, &mut line);
        if Some(node) == current {
            line.restyle(CURSOR);
        }
    }
}

/// The columns that there is room for, and whether there is for a bar; the first are spared last.
fn fields(view: View, all: &CallCounts, room: usize) -> (Vec<TreeField>, bool) {
    let counted =
        |column, name, largest| TreeField { column, name, columns: count_columns(largest, name) };
    let timed = |column, name, longest| TreeField { column, name, columns: time_columns(longest) };
    let has_cause = !matches!(view, View::Causes | View::Storms);
    let wanted = [
        counted(TreeColumn::Ops, "ops", all.ops),
        counted(TreeColumn::Failed, "failed", all.failed),
        timed(TreeColumn::Wait, "wait", (all.wait * 1e9) as u64),
        timed(TreeColumn::Time, "time", all.time),
        counted(TreeColumn::Calls, "calls", all.calls),
        TreeField { column: TreeColumn::Cause, name: "cause", columns: CAUSE },
    ];
    let mut left = room;
    let mut fields = Vec::new();
    for field in wanted {
        let is_first = field.column == TreeColumn::Ops;
        let least = if is_first { NARROWEST_TREE } else { LEAST_TREE };
        if left < field.columns + 2 + least {
            break;
        }
        let is_spared = match field.column {
            TreeColumn::Cause => !has_cause,
            // A storm is told in a sentence.
            TreeColumn::Time | TreeColumn::Calls => view == View::Storms && room < WIDE,
            _ => false,
        };
        if !is_spared {
            left -= field.columns + 2;
            fields.push(field);
        }
    }
    let has_bar = fields.len() > 4 && left >= BAR + 2 + 2 * LEAST_TREE;
    (fields, has_bar)
}

impl Drawn {
    fn header(&self, outline: &Outline, line: &mut Line) {
        for field in &self.fields {
            let is_sorted = outline.sort == field.column;
            let (name, style) = heading(field.name, is_sorted, outline.is_reversed);
            match field.column {
                TreeColumn::Cause => {
                    line.put_short(&name, field.columns, style);
                    line.skip(field.columns.saturating_sub(name.chars().count()));
                }
                _ => line.put_right(&name, field.columns, style),
            }
            line.skip(2);
        }
        if self.has_bar {
            line.skip(BAR + 2);
        }
        let is_sorted = outline.sort == TreeColumn::Name;
        let (name, style) = heading(named(outline.view), is_sorted, outline.is_reversed);
        line.put(&name, style);
    }

    fn row(&self, outline: &Outline, node: u32, line: &mut Line) {
        let counts = outline.tree.counts(node);
        for field in &self.fields {
            let (text, style) = self.cell(field.column, counts);
            if field.column == TreeColumn::Cause {
                let taken = term::width::of(&text);
                line.put_short(&text, field.columns, style);
                line.skip(field.columns.saturating_sub(taken));
            } else {
                line.put_right(&text, field.columns, style);
            }
            line.skip(2);
        }
        if self.has_bar {
            let part = bar(counts.ops, self.all.ops, BAR);
            let taken = part.chars().count();
            line.put(&part, DIM);
            line.skip(BAR + 2 - taken);
        }
        // However deep, half of the room is the name's.
        line.skip((outline.tree.depth(node) * 2).min(line.room() / 2));
        let mark = match (outline.has_below(node), outline.is_open(node)) {
            (false, _) => "  ",
            (true, true) => "▾ ",
            (true, false) => "▸ ",
        };
        line.put(mark, DIM);
        let name = outline.tree.name(node);
        match outline.view {
            View::Storms => line.put_beginning(name, NONE),
            _ => line.put_short(name, line.room(), NONE),
        }
    }

    fn cell(&self, column: TreeColumn, counts: &CallCounts) -> (String, Style) {
        // Most of what is asked for is not there.
        let is_bad = counts.failed * 2 > counts.ops;
        match column {
            TreeColumn::Ops => (count(counts.ops), NONE),
            TreeColumn::Failed if is_bad => (count(counts.failed), self.pen.bad()),
            TreeColumn::Failed => (count(counts.failed), NONE),
            TreeColumn::Wait => match self.no_wait {
                Some(none) => (none.to_owned(), DIM),
                None => (time(Nanos((counts.wait * 1e9) as u64)), NONE),
            },
            TreeColumn::Time => (time(Nanos(counts.time)), NONE),
            TreeColumn::Calls => (count(counts.calls), NONE),
            TreeColumn::Cause => {
                (counts.main_cause().map_or("", recording::Cause::name).to_owned(), NONE)
            }
            TreeColumn::Name => (String::new(), NONE),
        }
    }
}

/// What a view's rows are.
fn named(view: View) -> &'static str {
    match view {
        View::Storms => "storm",
        View::Processes => "process",
        View::Causes => "cause",
        View::Directories => "directory",
        View::Libraries => "library",
        View::Modules => "module",
        View::Lines => "line",
        View::Syscalls => "syscall",
    }
}
