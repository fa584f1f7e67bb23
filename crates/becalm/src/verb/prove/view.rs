//! `becalm prove`: before and after, on one screen.

use prove::{CallCount, Proof, RecordedCounts};
use recording::Nanos;

use term::number::{change, change_percent, count, time};
use term::{Cell, Column, Table, plain, style, width};

/// How many system calls have rows of their own.
const CALLS: usize = 2;
/// How many notes fit the screen beside the tables.
const NOTES: usize = 4;

/// The proof as a person reads it, at most `columns` columns wide; `next` is what to do next, as
/// a command to paste.
pub fn proof(proof: &Proof, columns: usize, next: &str) -> String {
    measured(proof, proof.verdict.answer(), columns, next)
}

/// The proof in a sentence.
pub fn headline(proof: &Proof) -> String {
    format!("{}: {}", proof.verdict.answer(), plain(&proof.verdict.sentence))
}

/// The same; `answer` is what it proves, in a word.
pub fn measured(proof: &Proof, answer: &str, columns: usize, next: &str) -> String {
    let headline = format!("{answer}: {}", plain(&proof.verdict.sentence));
    let mut text = style::headline(&headline, columns);
    text.push_str(&commands(proof).render_rows(columns));
    text.push('\n');
    text.push_str(&counts(proof).render(columns));
    text.push('\n');
    if proof.times.before.is_some() {
        text.push_str(&times(proof).render(columns));
        text.push('\n');
    }
    if let Some(waits) = predicted_waits(proof) {
        text.push_str(&waits.render(columns));
        text.push('\n');
    }
    for note in proof.notes.iter().take(NOTES) {
        let note = width::wrap(&format!("Note: {}", plain(note)), columns);
        text.push_str(&style::paint(style::WARNING, note.trim_end()));
        text.push('\n');
    }
    if proof.notes.len() > NOTES {
        text.push_str(&format!("({} more notes: --json)\n", proof.notes.len() - NOTES));
    }
    text.push_str(&style::next(next));
    text
}

fn commands(proof: &Proof) -> Table {
    let mut table = Table::new([Column::text(""), Column::path("")]);
    table.row(["before", &proof.before.command]);
    table.row(["after", &proof.after.command]);
    table
}

fn counts(proof: &Proof) -> Table {
    let mut table = Table::new([
        Column::path("count"),
        Column::number("before"),
        Column::number("after"),
        Column::number("change"),
        Column::number("change %").spare(),
    ]);
    let (before, after) = (proof.before.first_counted(), proof.after.first_counted());
    let mut row = |name: &str, before: u64, after: u64| {
        let style = match before.cmp(&after) {
            std::cmp::Ordering::Greater => style::LESS,
            std::cmp::Ordering::Equal => style::NONE,
            std::cmp::Ordering::Less => style::MORE,
        };
        table.row([
            Cell::from(name),
            count(before).into(),
            count(after).into(),
            Cell::styled(&change(before, after), style),
            Cell::styled(&change_percent(before, after), style),
        ]);
    };
    if let (Some(before), Some(after)) = (proof.before.served(), proof.after.served()) {
        row("metadata RPCs", before.rpcs, after.rpcs);
        row("  failed lookups", before.enoent, after.enoent);
    }
    row("metadata operations", before.metadata_ops, after.metadata_ops);
    row("  failed lookups", before.enoent, after.enoent);
    for (name, before, after) in calls(&before, &after) {
        row(name, before.calls, after.calls);
        if before.errors + after.errors > 0 {
            row("  failed", before.errors, after.errors);
        }
    }
    row("processes", before.processes, after.processes);
    table
}

/// What each side waits for the emulated filesystem, by the cost model and in the median run.
fn predicted_waits(proof: &Proof) -> Option<Table> {
    let mut table = Table::new([
        Column::text("wait"),
        Column::number("predicted, 1 rank"),
        Column::number("all ranks"),
        Column::number("measured").spare(),
    ]);
    for (name, side) in [("before", &proof.before), ("after", &proof.after)] {
        let wait = side.predicted_wait?;
        let seconds = |seconds: f64| time(Nanos((seconds * 1e9).round() as u64));
        let measured = side.served().map(|served| time(served.waited_ns)).unwrap_or_default();
        table.row([name.to_owned(), seconds(wait.one_rank), seconds(wait.all_ranks), measured]);
    }
    Some(table)
}

/// The system calls that are metadata operations and changed most; of those that did not, the most
/// frequent.
fn calls<'a>(
    before: &'a RecordedCounts,
    after: &'a RecordedCounts,
) -> Vec<(&'a str, CallCount, CallCount)> {
    let mut calls: Vec<_> = before
        .by_call
        .keys()
        .chain(after.by_call.keys().filter(|name| !before.by_call.contains_key(*name)))
        .map(|name| (name.as_str(), before.call(name), after.call(name)))
        .filter(|(_, before, after)| before.metadata_ops + after.metadata_ops > 0)
        .collect();
    calls.sort_by_key(|(name, before, after)| {
        let change = before.metadata_ops.abs_diff(after.metadata_ops);
        (std::cmp::Reverse((change, before.metadata_ops.max(after.metadata_ops))), *name)
    });
    calls.truncate(CALLS);
    calls
}

fn times(proof: &Proof) -> Table {
    let mut table = Table::new([
        Column::text("time"),
        Column::number("median"),
        Column::number("quartiles"),
        Column::number("min").spare(),
        Column::number("max").spare(),
        Column::number("CPU").spare(),
        Column::number("runs"),
    ]);
    let times = &proof.times;
    let sides =
        [("before", times.before, times.cpu_before), ("after", times.after, times.cpu_after)];
    for (name, summary, cpu) in sides {
        let Some(summary) = summary else { continue };
        let time = |seconds: f64| time(Nanos((seconds * 1e9).round() as u64));
        table.row([
            name.to_owned(),
            time(summary.median),
            format!("{} - {}", time(summary.lower_quartile), time(summary.upper_quartile)),
            time(summary.min),
            time(summary.max),
            cpu.map(time).unwrap_or_default(),
            count(summary.n as u64),
        ]);
    }
    table
}
