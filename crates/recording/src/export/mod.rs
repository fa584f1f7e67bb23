//! A recording in other programs' formats.
//!
//! | format | for |
//! |---|---|
//! | jsonl | every field, losslessly: jq, DuckDB, pandas (docs/schema/becalm.export.md) |
//! | strace | parsers of `strace -f -ttt -T`: Perfetto's importer, people |
//! | chrome | Trace Event Format: Perfetto, chrome://tracing |
//! | folded | folded stacks: inferno, flamegraph.pl, speedscope |
//! | csv | one row a call: spreadsheets, R |
//! | perfetto | Perfetto's own trace: its user interface, its trace processor |
//! | speedscope | stacks with what they cost: speedscope |
//! | parquet | the rows of csv, typed: DuckDB, Arrow, Spark |
//!
//! `ranks` has the starts of many ranks, as chrome and csv.

pub mod chrome;
mod columns;
pub mod csv;
pub mod folded;
pub mod jsonl;
pub mod line;
pub mod parquet;
pub mod perfetto;
mod perfetto_packets;
mod protobuf;
pub mod ranks;
pub mod speedscope;
mod stacks;
pub mod strace;
mod symbols;
mod timeline;

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use crate::Recording;

/// A format to export to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExportFormat {
    /// JSON lines.
    Jsonl,
    /// strace's text.
    Strace,
    /// Chrome's trace events.
    Chrome,
    /// Folded stacks.
    Folded,
    /// Comma-separated values.
    Csv,
    /// Perfetto's trace.
    Perfetto,
    /// speedscope's stacks.
    Speedscope,
    /// Parquet.
    Parquet,
}

impl ExportFormat {
    /// All formats.
    pub const ALL: [ExportFormat; 8] = [
        ExportFormat::Jsonl,
        ExportFormat::Strace,
        ExportFormat::Chrome,
        ExportFormat::Folded,
        ExportFormat::Csv,
        ExportFormat::Perfetto,
        ExportFormat::Speedscope,
        ExportFormat::Parquet,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ExportFormat::Jsonl => "jsonl",
            ExportFormat::Strace => "strace",
            ExportFormat::Chrome => "chrome",
            ExportFormat::Folded => "folded",
            ExportFormat::Csv => "csv",
            ExportFormat::Perfetto => "perfetto",
            ExportFormat::Speedscope => "speedscope",
            ExportFormat::Parquet => "parquet",
        }
    }

    /// Whether it is no text.
    pub fn is_binary(self) -> bool {
        matches!(self, ExportFormat::Perfetto | ExportFormat::Parquet)
    }
}

impl fmt::Display for ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not one of jsonl, strace, chrome, folded, csv, perfetto, speedscope, parquet")]
pub struct UnknownFormat(pub String);

impl FromStr for ExportFormat {
    type Err = UnknownFormat;
    fn from_str(word: &str) -> Result<ExportFormat, UnknownFormat> {
        let known = ExportFormat::ALL.into_iter().find(|format| format.name() == word);
        known.ok_or_else(|| UnknownFormat(word.to_owned()))
    }
}

/// What a folded stack's number is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Weight {
    /// Calls.
    #[default]
    Count,
    /// Microseconds between entry and return, the recorder's stops included.
    Time,
}

impl Weight {
    /// All weights.
    pub const ALL: [Weight; 2] = [Weight::Count, Weight::Time];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Weight::Count => "count",
            Weight::Time => "time",
        }
    }
}

/// A word that names no weight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not one of count, time")]
pub struct UnknownWeight(pub String);

impl FromStr for Weight {
    type Err = UnknownWeight;
    fn from_str(word: &str) -> Result<Weight, UnknownWeight> {
        let known = Weight::ALL.into_iter().find(|weight| weight.name() == word);
        known.ok_or_else(|| UnknownWeight(word.to_owned()))
    }
}

/// How to export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// Of folded stacks: what to count.
    pub weight: Weight,
}

/// Writes a recording in a format. What is written streams to `out` as it is made; give it a
/// buffered writer.
///
/// # Errors
/// Those of `out`.
pub fn write(
    recording: &Recording,
    format: ExportFormat,
    out: &mut dyn Write,
    options: &ExportOptions,
) -> io::Result<()> {
    match format {
        ExportFormat::Jsonl => jsonl::write(recording, out, options),
        ExportFormat::Strace => strace::write(recording, out, options),
        ExportFormat::Chrome => chrome::write(recording, out, options),
        ExportFormat::Folded => folded::write(recording, out, options),
        ExportFormat::Csv => csv::write(recording, out, options),
        ExportFormat::Perfetto => perfetto::write(recording, out, options),
        ExportFormat::Speedscope => speedscope::write(recording, out, options),
        ExportFormat::Parquet => parquet::write(recording, out, options),
    }
}
