//! The last lines: what is counted, and which keys there are; or what is typed, or went wrong.

use recording::Nanos;
use term::number::{count, time};
use term::width;

use super::pen::{BOLD, DIM, Line, NONE, Pen};
use crate::browser::{Asked, Browser};
use crate::counts::CallCounts;
use crate::outline::TreeColumn;

/// What is typed; else what went wrong; else what is counted.
pub fn draw(browser: &mut Browser, pen: Pen, line: &mut Line) {
    if let Some(prompt) = &browser.prompt {
        let asked = match prompt.asks_for {
            Asked::Search => "search: ",
            Asked::Filter => "count only: ",
        };
        line.put(asked, BOLD);
        // The end of what is typed is what is seen.
        let room = line.room().saturating_sub(1);
        let letters = prompt.text.char_indices().map(|(at, _)| &prompt.text[at..]);
        let seen = letters.chain([""]).find(|rest| width::of(rest) <= room);
        line.put(seen.unwrap_or_default(), NONE);
        return line.put("▏", NONE);
    }
    if let Some(message) = &browser.message {
        return line.put_short(message, line.room(), pen.warning());
    }
    let (filter, style) = match browser.filter.words.as_str() {
        "" => ("no filter".to_owned(), DIM),
        words => (format!("only {words}"), pen.warning()),
    };
    let counted = totals(browser);
    let sorted = sorted(browser);
    let parts = [
        (filter, style),
        (counted[0].clone(), NONE),
        (counted[1].clone(), NONE),
        (sorted, DIM),
        (browser.file.clone(), DIM),
    ];
    let parts = parts.into_iter().filter(|(text, _)| !text.is_empty());
    for (number, (text, style)) in parts.enumerate() {
        let gap = if number > 0 { 3 } else { 0 };
        if number > 1 && line.room() < gap + width::of(&text) {
            break;
        }
        if number > 0 {
            line.put(" · ", DIM);
        }
        line.put_short(&text, line.room(), style);
    }
}

/// What is counted, in two parts.
fn totals(browser: &Browser) -> [String; 2] {
    let CallCounts { ops, failed, wait, .. } = browser.counted;
    let ops = match browser.filter.words.is_empty() {
        true => format!("{} ops, {} failed", count(ops), count(failed)),
        false => {
            format!("{} of {} ops, {} failed", count(ops), count(browser.all.ops), count(failed))
        }
    };
    let wait = match &browser.found {
        Some(found) if browser.facts.has_waits() => {
            format!("{} wait ({})", time(Nanos((wait * 1e9) as u64)), found.findings.model.profile)
        }
        Some(_) => "wait not known".to_owned(),
        None => String::new(),
    };
    [ops, wait]
}

fn sorted(browser: &mut Browser) -> String {
    if browser.page.is_some() {
        return String::new();
    }
    if let Some(list) = &browser.list {
        let (at, all) = (count(list.cursor.at as u64 + 1), count(list.len() as u64));
        return format!("call {at} of {all}");
    }
    let view = browser.view;
    let outline = browser.outline();
    let by = match outline.sort {
        TreeColumn::Ops => "ops",
        TreeColumn::Failed => "failed",
        TreeColumn::Wait => "wait",
        TreeColumn::Time => "time",
        TreeColumn::Calls => "calls",
        TreeColumn::Cause => "cause",
        TreeColumn::Name if view.has_order_of_its_own() => "start",
        TreeColumn::Name => "name",
    };
    let way = if outline.is_reversed { ", reversed" } else { "" };
    format!("by {by}{way}")
}

/// The keys that can be pressed, as many as there is room for.
pub fn keys(browser: &Browser, pen: Pen, line: &mut Line) {
    let all: &[(&str, &str)] = if browser.prompt.is_some() {
        &[("Enter", "go"), ("Esc", "leave it"), ("Ctrl-U", "clear")]
    } else if browser.page.is_some() {
        &[("q", "back"), ("↑↓", "scroll")]
    } else if browser.list.is_some() {
        &[
            ("?", "help"),
            ("q", "quit"),
            ("Esc", "back"),
            ("Enter", "all of the call"),
            ("/", "search"),
            ("s", "sort"),
            ("f", "filter"),
        ]
    } else {
        &[
            ("?", "help"),
            ("q", "quit"),
            ("→", "open"),
            ("Enter", "calls"),
            ("/", "search"),
            ("s", "sort"),
            ("f", "filter"),
            ("1-8", "views"),
            ("←", "close"),
        ]
    };
    for (key, what) in all {
        if line.room() < width::of(key) + 1 + what.len() {
            break;
        }
        line.put(key, pen.key());
        line.put(" ", NONE);
        line.put(what, DIM);
        line.skip(2);
    }
}
