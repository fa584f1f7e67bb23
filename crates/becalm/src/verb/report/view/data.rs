//! `becalm report --by data`: what was used of each file, by calls and through mappings.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cost::{FaultedData, FilesystemProfile};
use recording::query::data::{self, DataOrder, FileData};
use recording::{ByteUnits, Name, PathId, Recording};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{count, counted};
use term::{Column, Table, style, width};

use crate::recording_head::RecordingHead;

/// What it answers: as JSON, docs/schema/becalm.report.md; as text, [`DataReport::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DataReport {
    /// `becalm.report/1`.
    pub schema: &'static str,
    /// What was recorded.
    #[serde(flatten)]
    pub run: RecordingHead,
    /// `data`.
    pub by: &'static str,
    /// Whether page faults were watched; otherwise what is touched is null.
    pub page_faults: bool,
    /// What a client fetches around a page fault, for `requests`.
    pub readahead_bytes: u64,
    /// The files, those that most was read and touched of first.
    pub files: Vec<ReportedFile>,
}

/// What was used of one file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReportedFile {
    /// The file.
    pub path: Name,
    /// Bytes that calls returned; none: not watched.
    pub read_bytes: Option<u64>,
    /// How many calls; none: not watched.
    pub data_reads: Option<u64>,
    /// Bytes that were mapped, each counted once; none: no mapping that was watched says so.
    pub mapped_bytes: Option<u64>,
    /// Bytes that were touched through mappings, in parts of 64 KiB; none: not watched.
    pub touched_bytes: Option<u64>,
    /// In which order it was used.
    pub order: DataOrder,
    /// Requests that its page faults take on a node that has nothing of it; none: not watched.
    pub requests: Option<u64>,
}

impl DataReport {
    /// Of the recording that was loaded from `file`.
    pub fn of(file: &Path, recording: &Recording) -> DataReport {
        let readahead_bytes = FilesystemProfile::default().readahead();
        let faulted = cost::faulted_by_file(&data::touches(recording), readahead_bytes);
        let faulted: HashMap<PathId, FaultedData> = faulted.into_iter().collect();
        let page_faults = recording.header.page_faults;
        let reads_watched = !recording.header.metadata_only;
        let reported = |used: FileData| ReportedFile {
            path: Name::of(OsStr::from_bytes(recording.path(used.path))),
            read_bytes: reads_watched.then_some(used.read),
            data_reads: reads_watched.then_some(used.reads),
            mapped_bytes: (reads_watched || used.mapped > 0).then_some(used.mapped),
            touched_bytes: page_faults.then_some(used.touched),
            order: used.order,
            requests: page_faults.then(|| faulted.get(&used.path).map_or(0, |data| data.requests)),
        };
        DataReport {
            schema: "becalm.report/1",
            run: RecordingHead::of(file, recording),
            by: "data",
            page_faults,
            readahead_bytes,
            files: data::files(recording).into_iter().map(reported).collect(),
        }
    }

    /// The answer as a person reads it.
    pub fn render(&self, columns: usize, rows: usize) -> String {
        let mut text = style::headline(&self.headline(columns), columns);
        // What nothing is known of has no column, as the headline says so: names need the room.
        let read = (!self.run.metadata_only).then(|| Column::number("read"));
        let touched = ["touched", "requests"].map(Column::number);
        let mut table = Table::new(
            std::iter::once(Column::path("file"))
                .chain(read)
                .chain([Column::number("mapped").spare()])
                .chain(touched.into_iter().filter(|_| self.page_faults))
                .chain([Column::text("order").spare()]),
        );
        for file in self.files.iter().take(rows) {
            let of = |known: Option<String>| known.unwrap_or_else(|| "-".to_owned());
            let mut cells = vec![file.path.to_string()];
            cells.extend((!self.run.metadata_only).then(|| of(file.read_bytes.map(bytes))));
            cells.push(of(file.mapped_bytes.map(bytes)));
            if self.page_faults {
                cells.push(of(file.touched_bytes.map(bytes)));
                cells.push(of(file.requests.map(count)));
            }
            cells.push(match file.order {
                DataOrder::Sequential => "sequential".to_owned(),
                DataOrder::Scattered => "scattered".to_owned(),
            });
            table.row(cells);
        }
        text.push('\n');
        text.push_str(&table.render(columns));
        text.push('\n');
        if let Some(left @ 1..) = self.files.len().checked_sub(rows) {
            let more = format!("{} more with --all.", counted(left as u64, "file", "files"));
            text.push_str(&width::wrap(&more, columns));
        }
        let note = format!(
            "Touched is seen by page faults, of processes that map 4 MiB or more of one file, in \
             parts of 64 KiB; requests are what they take on a node that has nothing of the file \
             and fetches {} around a fault.",
            bytes(self.readahead_bytes)
        );
        text.push_str(&width::wrap(&note, columns));
        text
    }

    fn headline(&self, columns: usize) -> String {
        let sum = |of: &dyn Fn(&ReportedFile) -> u64| self.files.iter().map(of).sum::<u64>();
        let touched = match self.page_faults {
            true => format!(
                "{} touched through mappings in {}",
                bytes(sum(&|file| file.touched_bytes.unwrap_or(0))),
                counted(sum(&|file| file.requests.unwrap_or(0)), "request", "requests"),
            ),
            false => "what is touched through mappings was not watched".to_owned(),
        };
        let read = match self.run.metadata_only {
            true => "what is read was not watched".to_owned(),
            false => format!("{} read", bytes(sum(&|file| file.read_bytes.unwrap_or(0)))),
        };
        format!("{}: {read}, {touched}", self.run.command_in(columns))
    }
}

fn bytes(bytes: u64) -> String {
    term::number::bytes(ByteUnits(bytes))
}
