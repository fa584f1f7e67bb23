//! `becalm export -o FILE`: what was written.

use std::path::{Path, PathBuf};

use recording::export::ExportFormat;
use recording::{ByteUnits, shown_name};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{bytes, counted};
use term::{plain, quoted, quoted_path, style};

use crate::recording_head::RecordingHead;
use crate::verb::report::view::ranks::RanksReport;

/// What `becalm export -o FILE` answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Export {
    /// `becalm.export/1`.
    pub schema: &'static str,
    /// `written`: tells it from the lines of the format `jsonl`, which have other types.
    pub r#type: &'static str,
    /// What was recorded.
    #[serde(flatten)]
    pub run: RecordingHead,
    /// The format's name.
    pub format: &'static str,
    /// The file that was written, as text.
    pub output: String,
    /// Its size; none where it is a device or a pipe.
    pub output_bytes: Option<u64>,
    #[serde(skip)]
    file: PathBuf,
}

impl Export {
    /// The export of a recording to `file`, which is written by now.
    pub fn of(run: RecordingHead, format: ExportFormat, file: &Path) -> Export {
        let written = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file);
        Export {
            schema: "becalm.export/1",
            r#type: "written",
            run,
            format: format.name(),
            output: shown_name(file),
            output_bytes: written.map(|written| written.len()),
            file: file.to_owned(),
        }
    }

    /// The answer as a person reads it.
    pub fn render(&self) -> String {
        let calls = counted(self.run.calls, "system call", "system calls");
        let size =
            self.output_bytes.map_or(String::new(), |size| format!(", {}", bytes(ByteUnits(size))));
        let headline = format!("{}: {calls} as {}{size}", plain(&self.output), self.format);
        style::headline(&headline, usize::MAX) + &style::next(&self.next())
    }

    /// A command to paste.
    fn next(&self) -> String {
        let file = quoted_path(&self.file);
        match self.format {
            "jsonl" => format!("jq . {file} | less"),
            "folded" => format!("inferno-flamegraph < {file} > {file}.svg"),
            "perfetto" | "chrome" => format!("open {file} in ui.perfetto.dev"),
            "strace" => format!("less {file}"),
            "speedscope" => format!("open {file} in www.speedscope.app"),
            "parquet" => {
                let name = self.output.replace('\'', "''");
                format!("duckdb -c {}", quoted(format!("from read_parquet('{name}') limit 10")))
            }
            _ => format!("less {file}"),
        }
    }
}

/// What `becalm export -o FILE` answers of many ranks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExportedRanks {
    /// `becalm.export/1`.
    schema: &'static str,
    /// `written_ranks`.
    r#type: &'static str,
    /// The recording, as given.
    recording: String,
    /// The launcher and its number for the run.
    run: String,
    /// How many ranks are in it.
    ranks: u64,
    /// The format's name.
    format: &'static str,
    /// The file that was written, as text.
    output: String,
    #[serde(skip)]
    file: PathBuf,
}

impl ExportedRanks {
    /// The export of a report's ranks to `file`.
    pub fn of(report: &RanksReport, format: ExportFormat, file: &Path) -> ExportedRanks {
        ExportedRanks {
            schema: "becalm.export/1",
            r#type: "written_ranks",
            recording: report.recording.clone(),
            run: report.run.clone(),
            ranks: report.starts.len() as u64,
            format: format.name(),
            output: shown_name(file),
            file: file.to_owned(),
        }
    }

    /// The answer as a person reads it.
    pub fn render(&self) -> String {
        let ranks = counted(self.ranks, "rank", "ranks");
        let file = quoted_path(&self.file);
        let next = match self.format {
            "chrome" => format!("open {file} in ui.perfetto.dev"),
            _ => format!("less {file}"),
        };
        let headline = format!("{}: the starts of {ranks} as {}", plain(&self.output), self.format);
        style::headline(&headline, usize::MAX) + &style::next(&next)
    }
}
