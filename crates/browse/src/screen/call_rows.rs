//! The rows of the calls behind one.

use ratatui_core::buffer::Buffer;
use ratatui_core::style::Style;
use recording::{Event, Nanos};
use term::number::time;

use super::pen::{CURSOR, DIM, Line, NONE, Pen};
use super::{heading, time_columns};
use crate::browser::Browser;
use crate::call_list::{CallColumn, CallList, is_address, result};

/// Columns that a path has at least, while a field can be spared that is spared so early.
fn least_path(spared: usize) -> usize {
    match spared {
        4.. => 30,
        2.. => 24,
        _ => 18,
    }
}

struct CallField {
    column: CallColumn,
    name: &'static str,
    columns: usize,
    /// Those that can be spared first have the largest.
    spared: usize,
}

/// Draws the rows, and their header.
pub fn draw(
    browser: &mut Browser,
    pen: Pen,
    screen: &mut Buffer,
    (header, (first, height)): (Option<u16>, (u16, u16)),
) {
    let Some(mut list) = browser.list.take() else { return };
    let fields = fields(browser, screen.area.width.into());
    if let Some(at) = header {
        draw_header(&list, &fields, &mut Line::of(screen, at));
    }
    let current = list.current();
    for (down, call) in (first..).zip(list.seen(height.into())) {
        let call = *call as usize;
        let mut line = Line::of(screen, down);
        draw_row(browser, call, &fields, pen, &mut line);
        if Some(call) == current {
            line.restyle(CURSOR);
        }
    }
    browser.list = Some(list);
}

/// The columns that there is room for.
fn fields(browser: &Browser, room: usize) -> Vec<CallField> {
    let recording = &browser.recording;
    let longest = recording.events.last().map_or(0, |event| (event.start + event.took).0);
    let (at, took) = (time_columns(longest), time_columns(browser.all.time));
    let field = |column, name, columns, spared| CallField { column, name, columns, spared };
    let mut fields = vec![
        field(CallColumn::At, "at", at, 3),
        field(CallColumn::Process, "pid", 7, 4),
        field(CallColumn::Took, "took", took.min(7), 2),
        field(CallColumn::Wait, "wait", 7, 5),
        field(CallColumn::Cause, "cause", 15, 6),
        field(CallColumn::Call, "call", 11, 0),
        field(CallColumn::Result, "result", 7, 1),
    ];
    let taken = |fields: &[CallField]| fields.iter().map(|field| field.columns + 2).sum::<usize>();
    while let Some(spared) = fields.iter().map(|field| field.spared).max()
        && fields.len() > 1
        && taken(&fields) + least_path(spared) > room
    {
        fields.retain(|field| field.spared != spared);
    }
    fields
}

fn is_text(column: CallColumn) -> bool {
    matches!(column, CallColumn::Cause | CallColumn::Call | CallColumn::Result)
}

fn draw_header(list: &CallList, fields: &[CallField], line: &mut Line) {
    for field in fields {
        let (name, style) = heading(field.name, list.sort == field.column, list.is_reversed);
        put(&name, style, field, line);
    }
    let (name, style) = heading("path", list.sort == CallColumn::Path, list.is_reversed);
    line.put(&name, style);
}

/// Text at the left of its column, a number at the right.
fn put(text: &str, style: Style, field: &CallField, line: &mut Line) {
    if is_text(field.column) {
        let taken = term::width::of(text).min(field.columns);
        line.put_short(text, field.columns, style);
        line.skip(field.columns - taken + 2);
    } else {
        line.put_right(text, field.columns, style);
        line.skip(2);
    }
}

fn draw_row(browser: &Browser, call: usize, fields: &[CallField], pen: Pen, line: &mut Line) {
    let event = &browser.recording.events[call];
    for field in fields {
        let style = match field.column {
            CallColumn::Result if event.outcome.failed() => pen.bad(),
            _ => NONE,
        };
        put(&cell(browser, call, event, field.column), style, field, line);
    }
    match event.path {
        Some(path) => line.put_short(&browser.recording.shown(path), line.room(), NONE),
        None => line.put("-", DIM),
    }
}

fn cell(browser: &Browser, call: usize, event: &Event, column: CallColumn) -> String {
    match column {
        CallColumn::At => time(event.start),
        CallColumn::Process => browser.recording.process(event.process).pid.to_string(),
        CallColumn::Took => time(event.took),
        CallColumn::Wait if !browser.facts.has_waits() => "-".to_owned(),
        CallColumn::Wait => time(Nanos((browser.facts.wait(call) * 1e9) as u64)),
        CallColumn::Cause => browser.facts.cause(call).name().to_owned(),
        CallColumn::Call => event.call.name(),
        // An address says nothing here.
        CallColumn::Result if is_address(event) => "ok".to_owned(),
        CallColumn::Result => result(event),
        CallColumn::Path => String::new(),
    }
}
