//! Calls by system call, as `strace -c` counts and prints them.

use std::collections::HashMap;
use std::fmt::Write;

use super::sum::{Groups, Keys, RowOfCall};
use super::{QueryRow, QueryTable};
use crate::{Abi, Call, Recording};

/// strace's names of the tables that a call can be in, in the order it prints them; a machine's
/// own has no name there.
const MODES: [&str; 3] = ["", "32 bit", "x32"];

fn mode(abi: Abi) -> &'static str {
    match abi {
        Abi::X86_64 | Abi::Aarch64 => "",
        Abi::I386 => "32 bit",
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
    /// The text that `strace -f -c -U calls,errors,name -S name` would have printed for the
    /// same calls, byte for byte (`call_summary_pers` of strace's count.c): a summary for each
    /// table of calls that was used. Of a table [`super::GroupBy::Syscall`]; empty if it has no
    /// rows. Calls that have no name are not in it, as strace does not count them.
    pub fn strace_text(&self) -> String {
        let mut text = String::new();
        for mode in MODES {
            let rows: Vec<(&QueryRow, &str)> =
                self.rows.iter().filter_map(|row| Some((row, name_in(mode, &row.key)?))).collect();
            if rows.is_empty() {
                continue;
            }
            if !mode.is_empty() {
                text += &format!("System call usage summary for {mode} mode:\n");
            }
            summary(&mut text, &rows);
        }
        text
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

/// One summary. Columns are as wide as strace's: at least 9, 9 and 16, and one more than the
/// longest name.
fn summary(text: &mut String, rows: &[(&QueryRow, &str)]) {
    let calls: u64 = rows.iter().map(|(row, _)| row.calls).sum();
    let errors: u64 = rows.iter().map(|(row, _)| row.errors).sum();
    let longest = rows.iter().map(|(_, name)| name.len()).max().unwrap_or(0);
    let widths =
        [calls.to_string().len().max(9), errors.to_string().len().max(9), (longest + 1).max(16)];
    let [rule_calls, rule_errors, rule_name] = widths.map(|width| "-".repeat(width));
    let mut line = |calls: &str, errors: &str, name: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{calls:>0$} {errors:>1$} {name}", widths[0], widths[1]);
    };
    line("calls", "errors", "syscall");
    line(&rule_calls, &rule_errors, &rule_name);
    for (row, name) in rows {
        line(&row.calls.to_string(), &or_blank(row.errors), name);
    }
    line(&rule_calls, &rule_errors, &rule_name);
    line(&calls.to_string(), &or_blank(errors), "total");
}

fn or_blank(number: u64) -> String {
    if number == 0 { String::new() } else { number.to_string() }
}
