//! `becalm report`: one recording, its calls grouped by one thing.

mod columns;
pub mod data;
mod next;
mod rank_end;
pub mod ranks;
mod spread;
mod starts;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use recording::Recording;
use recording::query::{self, CallFilter, GroupBy, PrefixCounts, QueryRow};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{count, counted, percent, time};
use term::{plain, style, width};

use crate::recording_head::RecordingHead;

/// What `becalm report` answers: as JSON, docs/schema/becalm.report.md; as text,
/// [`CallReport::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CallReport {
    /// `becalm.report/1`.
    pub schema: &'static str,
    /// What was recorded.
    #[serde(flatten)]
    pub run: RecordingHead,
    /// The directory that was asked about, if one was.
    pub below: Option<Below>,
    /// Of all calls that were asked about: those of `total`, and, by library and by module,
    /// those that were no search.
    pub all: QueryRow,
    /// The rows, and their sum.
    #[serde(flatten)]
    pub table: query::QueryTable,
}

/// What was asked of the files below a directory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Below {
    /// The directory, absolute, as text to show.
    pub directory: String,
    /// How often.
    #[serde(flatten)]
    pub counts: PrefixCounts,
}

impl CallReport {
    /// Groups the calls of the recording that was loaded from `file`; of the files below one
    /// directory only, if `below` has its names.
    pub fn of(file: &Path, recording: &Recording, by: GroupBy, below: &[PathBuf]) -> CallReport {
        let names = below.iter().map(|name| name.as_os_str().as_bytes().to_vec()).collect();
        let filter = CallFilter { below: names, ..CallFilter::default() };
        let table = query::table(recording, by, &filter);
        let all = match by {
            GroupBy::Library | GroupBy::Module => {
                query::table(recording, GroupBy::Cause, &filter).total
            }
            _ => table.total.clone(),
        };
        let below = filter.below.first().map(|directory| Below {
            directory: recording::shown(directory),
            counts: query::prefix_counts(recording, &filter.below),
        });
        CallReport {
            schema: "becalm.report/1",
            run: RecordingHead::of(file, recording),
            below,
            all,
            table,
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide: the headline, the
    /// table's first `rows` rows, and what to do next. By system call it is what `strace -c`
    /// prints, and nothing else.
    pub fn render(&self, columns: usize, rows: usize) -> String {
        if self.table.by == GroupBy::Syscall {
            return self.table.strace_text();
        }
        let mut text = style::headline(&self.headline(columns), columns);
        text.push_str(&width::wrap(&self.about(columns), columns));
        if !self.table.rows.is_empty() {
            text.push('\n');
            text.push_str(&columns::table(&self.table, rows).render(columns));
        }
        text.push('\n');
        for note in self.notes(rows) {
            text.push_str(&width::wrap(&note, columns));
        }
        text.push_str(&style::next(&self.next()));
        text
    }

    /// The answer in one sentence.
    fn headline(&self, columns: usize) -> String {
        match &self.below {
            Some(below) => format!(
                "Below {}: {} ({} failed) and {} ({} failed)",
                below.directory,
                counted(below.counts.opens, "open", "opens"),
                count(below.counts.opens_enoent),
                counted(below.counts.stats, "stat", "stats"),
                count(below.counts.stats_enoent),
            ),
            None => format!(
                "{}: {}, {} ({}) of them failed lookups",
                self.run.command_in(columns),
                counted(self.all.metadata_ops, "metadata operation", "metadata operations"),
                count(self.all.enoent),
                percent(self.all.enoent, self.all.metadata_ops),
            ),
        }
    }

    /// What else frames the numbers.
    fn about(&self, columns: usize) -> String {
        let run = &self.run;
        match &self.below {
            Some(below) => format!(
                "{}: in all {} there, {} of them failed lookups, on {}",
                run.command_in(columns),
                counted(below.counts.metadata_ops, "metadata operation", "metadata operations"),
                count(below.counts.enoent),
                counted(below.counts.distinct, "path", "paths"),
            ),
            None => format!(
                "{}, {} recorded in {} on {}",
                counted(run.processes, "process", "processes"),
                counted(run.calls, "system call", "system calls"),
                time(recording::Nanos(run.duration_ns)),
                plain(&run.host),
            ),
        }
    }

    /// What must be known to read the table right.
    fn notes(&self, rows: usize) -> Vec<String> {
        let mut notes = Vec::new();
        if self.table.rows.len() > rows {
            notes.push("Add --all for every row.".to_owned());
        }
        if self.all.metadata_ops > self.table.total.metadata_ops {
            let searched = match self.table.by {
                GroupBy::Library => "searches for shared libraries",
                _ => "searches for modules",
            };
            notes.push(format!(
                "{} of {} metadata operations were {searched}",
                count(self.table.total.metadata_ops),
                count(self.all.metadata_ops),
            ));
        }
        notes
    }
}
