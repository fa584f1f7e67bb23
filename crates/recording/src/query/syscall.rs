//! Calls by system call, as `strace -c` counts and prints them.

use std::collections::HashMap;
use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;

use super::sum::{Groups, Keys, RowOfCall};
use super::{QueryRow, QueryTable};
use crate::{Abi, Call, Micros, Nanos, Recording};

/// strace's names of the tables that a call can be in, in the order it prints them; a machine's
/// own has no name there.
const MODES: [&str; 3] = ["", "32 bit", "x32"];

fn mode(abi: Abi) -> &'static str {
    match abi {
        Abi::X86_64 | Abi::Aarch64 => "",
        Abi::I386 | Abi::Arm => "32 bit",
        Abi::X32 => "x32",
    }
}

pub(super) fn group(recording: &Recording) -> Groups {
    let mut keys = Keys::default();
    let mut known: HashMap<Call, u32> = HashMap::new();
    let place = |event: &crate::Event| {
        RowOfCall::observed(
            *known.entry(event.call).or_insert_with(|| keys.row(key(event.call).as_bytes())),
        )
    };
    let places = recording.events.iter().map(place).collect();
    Groups { rows: keys.rows, places }
}

/// The call's name; with its table, where that is not the machine's own: `close (32 bit)`.
fn key(call: Call) -> String {
    match mode(call.abi()) {
        "" => call.name(),
        mode => format!("{} ({mode})", call.name()),
    }
}

impl QueryTable {
    /// The text that `strace -f -c -w` would have printed for the same calls
    /// (`call_summary_pers` of strace's count.c): a summary for each table of calls that was used,
    /// the longest time first, then by name. Of a table [`super::GroupBy::Syscall`]; empty if it
    /// has no rows. Calls that have no name are not in it, as strace does not count them.
    pub fn strace_text(&self) -> String {
        let mut text = String::new();
        for mode in MODES {
            let mut rows: Vec<(&QueryRow, &str)> =
                self.rows.iter().filter_map(|row| Some((row, name_in(mode, &row.key)?))).collect();
            if rows.is_empty() {
                continue;
            }
            rows.sort_by_key(|(row, _)| std::cmp::Reverse(row.time));
            if !mode.is_empty() {
                text += &format!("System call usage summary for {mode} mode:\n");
            }
            summary(&mut text, &rows);
        }
        text
    }

    /// Says of each row, and of all, how much of the time it took.
    pub(super) fn share_time(&mut self) {
        let all = self.total.time;
        for row in self.rows.iter_mut().chain([&mut self.total]) {
            row.cost = Some(CallCost::of(row.calls, row.time, all));
        }
    }
}

/// What the calls of a row took, as strace's columns `% time` and `usecs/call` say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CallCost {
    /// Of the time of all calls, in percent.
    pub time_percent: f64,
    /// Of one call in the mean, in microseconds, rounded down.
    #[serde(rename = "us_per_call")]
    pub each: Micros,
}

impl CallCost {
    fn of(calls: u64, time: Nanos, all: Nanos) -> CallCost {
        // In the order in which strace rounds: what lies between two hundredths goes to the same one (its count.c).
        let seconds =
            |time: u64| (time / 1_000_000_000) as f64 + (time % 1_000_000_000) as f64 / 1e9;
        CallCost {
            time_percent: 100.0 * seconds(time.0) / seconds(all.0.max(1)),
            each: Micros(time.0 / calls.max(1) / 1000),
        }
    }
}

/// The call's name without its table's, if that is `mode`.
fn name_in<'a>(mode: &str, key: &'a str) -> Option<&'a str> {
    if key.starts_with("syscall_0x") {
        return None;
    }
    match key.split_once(" (") {
        None => mode.is_empty().then_some(key),
        Some((name, table)) => (table.strip_suffix(')') == Some(mode)).then_some(name),
    }
}

/// One summary. Columns are as wide as strace's: at least 6, 11, 11, 9, 9 and 16, and one more than
/// the longest name.
fn summary(text: &mut String, rows: &[(&QueryRow, &str)]) {
    let calls: u64 = rows.iter().map(|(row, _)| row.calls).sum();
    let errors: u64 = rows.iter().map(|(row, _)| row.errors).sum();
    let time: Nanos = rows.iter().map(|(row, _)| row.time).sum();
    let longest = rows.iter().map(|(_, name)| name.len()).max().unwrap_or(0);
    let widths = [
        6,
        seconds(time).len().max(11),
        11,
        calls.to_string().len().max(9),
        errors.to_string().len().max(9),
        (longest + 1).max(16),
    ];
    let mut line = |cells: [String; 6]| {
        let [numbers @ .., name] = cells;
        for (cell, width) in numbers.iter().zip(widths) {
            // Writing to a string does not fail.
            let _ = write!(text, "{cell:>width$} ");
        }
        let _ = writeln!(text, "{name}");
    };
    let cells = |share: f64, took: Nanos, calls: u64, errors: u64, name: &str| {
        let each = CallCost::of(calls, took, time).each.0;
        let errors = if errors == 0 { String::new() } else { errors.to_string() };
        let numbers = [format!("{share:.2}"), seconds(took), each.to_string(), calls.to_string()];
        let [share, took, each, calls] = numbers;
        [share, took, each, calls, errors, name.to_owned()]
    };
    let rule = widths.map(|width| "-".repeat(width));
    line(["% time", "seconds", "usecs/call", "calls", "errors", "syscall"].map(str::to_owned));
    line(rule.clone());
    for (row, name) in rows {
        let share = CallCost::of(row.calls, row.time, time).time_percent;
        line(cells(share, row.time, row.calls, row.errors, name));
    }
    line(rule);
    line(cells(100.0, time, calls, errors, "total"));
}

fn seconds(time: Nanos) -> String {
    format!("{:.6}", time.seconds())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of strace 6.1's own summary: 3.125 as a number, and not in the order in which strace divides.
    #[test]
    fn what_lies_between_two_hundredths_is_rounded_as_strace_does() {
        let cost = CallCost::of(94, Nanos(11_000), Nanos(352_000));
        assert_eq!(format!("{:.2}", cost.time_percent), "3.13");
    }
}
