//! `becalm diff`: two recordings, side by side.

pub mod paths;

use std::path::Path;

use recording::Recording;
use recording::diff::{self, DiffRow};
use recording::query::{self, CallFilter, GroupBy, QueryRow};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{change, change_percent, count, percent};
use term::{Cell, Column, Table, style, width};

use crate::recording_head::RecordingHead;

pub use paths::PathsDiff;

/// A recording and the file it was loaded from.
pub type NamedRecording<'a> = (&'a Path, &'a Recording);

/// What `becalm diff` answers: as JSON, docs/schema/becalm.diff.md; as text, [`Diff::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Diff {
    /// `becalm.diff/1`.
    pub schema: &'static str,
    /// The first recording.
    pub before: RecordingHead,
    /// The second.
    pub after: RecordingHead,
    /// What the rows are.
    pub by: GroupBy,
    /// Whether calls outside strace's `%file`, `%desc` and `%process` were left out, because
    /// only one of the two recordings holds them.
    pub default_set: bool,
    /// The sums of both tables.
    pub total: Total,
    /// The rows, the largest change first.
    pub rows: Vec<DiffRow>,
}

/// The sums of two tables.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Total {
    /// The first table's.
    pub before: QueryRow,
    /// The second's.
    pub after: QueryRow,
}

impl Diff {
    /// Compares two recordings, grouped by one thing.
    pub fn of(before: NamedRecording, after: NamedRecording, by: GroupBy) -> Diff {
        let default_set = before.1.header.all_syscalls != after.1.header.all_syscalls;
        let filter = CallFilter { default_set, ..CallFilter::default() };
        let (a, b) = query::tables(before.1, after.1, by, &filter);
        Diff {
            schema: "becalm.diff/1",
            before: RecordingHead::of(before.0, before.1),
            after: RecordingHead::of(after.0, after.1),
            by,
            default_set,
            rows: diff::tables(&a, &b),
            total: Total { before: a.total, after: b.total },
        }
    }

    /// The comparison as a person reads it, at most `columns` columns wide, with at most `rows`
    /// rows.
    pub fn render(&self, columns: usize, rows: usize) -> String {
        let mut text = heading(&self.headline(), &self.before, &self.after, columns);
        text.push('\n');
        text.push_str(&self.table(rows).render(columns));
        text.push('\n');
        if self.shown_rows().count() > rows {
            text.push_str("Add --all for every row.\n");
        }
        if self.default_set {
            let note = "Only one of the two was recorded with --all-syscalls: calls outside \
                        %file, %desc and %process are left out of it.";
            text.push_str(&width::wrap(note, columns));
        }
        let next = format!(
            "becalm diff {} {} --paths",
            self.before.quoted_file(),
            self.after.quoted_file()
        );
        text.push_str(&style::next(&next));
        text
    }

    fn table(&self, rows: usize) -> Table {
        let mut table =
            side_by_side(if self.by == GroupBy::Prefix { "directory" } else { self.by.name() });
        let mut rest = (0, 0, 0);
        for (at, row) in self.shown_rows().enumerate() {
            let (before, after) = (self.number(&row.before), self.number(&row.after));
            if at < rows {
                table.row(cells(&row.key, before, after));
            } else {
                rest = (rest.0 + 1, rest.1 + before, rest.2 + after);
            }
        }
        if rest.0 > 0 {
            table.row(cells(&format!("({} more)", count(rest.0)), rest.1, rest.2));
        }
        let total = &self.total;
        table.total(cells("total", self.number(&total.before), self.number(&total.after)));
        table
    }

    /// The rows with a number in either run.
    fn shown_rows(&self) -> impl Iterator<Item = &DiffRow> {
        self.rows.iter().filter(|row| self.number(&row.before) + self.number(&row.after) > 0)
    }

    /// What is compared: calls, where the rows are system calls, else metadata operations.
    fn number(&self, row: &QueryRow) -> u64 {
        if self.by == GroupBy::Syscall { row.calls } else { row.metadata_ops }
    }

    fn headline(&self) -> String {
        let (before, after) = (self.number(&self.total.before), self.number(&self.total.after));
        let what = match self.by {
            GroupBy::Syscall => "system calls",
            GroupBy::Library => "metadata operations in search of libraries",
            GroupBy::Module => "metadata operations in search of modules",
            GroupBy::Cause | GroupBy::Prefix | GroupBy::Process | GroupBy::Line => {
                "metadata operations"
            }
        };
        match after.cmp(&before) {
            std::cmp::Ordering::Equal => format!("As many {what} as before: {}", count(after)),
            std::cmp::Ordering::Less => format!(
                "{} fewer {what}: {} instead of {}",
                percent(before - after, before),
                count(after),
                count(before)
            ),
            std::cmp::Ordering::Greater if before == 0 => {
                format!("{} {what} where there were none", count(after))
            }
            std::cmp::Ordering::Greater => format!(
                "{} more {what}: {} instead of {}",
                percent(after - before, before),
                count(after),
                count(before)
            ),
        }
    }
}

/// The headline, and what the two sides are.
fn heading(
    headline: &str,
    before: &RecordingHead,
    after: &RecordingHead,
    columns: usize,
) -> String {
    let mut text = style::headline(headline, columns);
    let mut sides = Table::new([Column::text(""), Column::path(""), Column::path("")]);
    for (side, run) in [("before", before), ("after", after)] {
        sides.row([side.to_owned(), run.recording.clone(), run.command_line()]);
    }
    text.push_str(&sides.render_rows(columns));
    text
}

/// A table with one column of text and the two sides' numbers.
fn side_by_side(header: &str) -> Table {
    Table::new([
        Column::path(header),
        Column::number("before"),
        Column::number("after"),
        Column::number("change"),
        Column::number("change %").spare(),
    ])
}

fn cells(key: &str, before: u64, after: u64) -> [Cell; 5] {
    let colour = match after.cmp(&before) {
        std::cmp::Ordering::Less => style::LESS,
        std::cmp::Ordering::Equal => style::NONE,
        std::cmp::Ordering::Greater => style::MORE,
    };
    [
        key.into(),
        count(before).into(),
        count(after).into(),
        Cell::styled(&change(before, after), colour),
        Cell::styled(&change_percent(before, after), colour),
    ]
}
