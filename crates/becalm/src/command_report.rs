//! What a verb says of the command that it ran: as a report or as JSON, and by one of many ranks.

use std::path::{Path, PathBuf};

use job::ReportingRank;
use serde::Serialize;

use crate::exit::Failure;
use crate::reporting_rank::{RankOption, RankReport};
use crate::save;
use crate::stdout_redirect::StdoutRedirect;

/// The options of the verbs that report on a command.
#[derive(clap::Args)]
pub struct ReportOptions {
    #[command(flatten)]
    pub rank: RankOption,

    /// Print one JSON object (docs/schema) instead of the report: the command's standard output
    /// then goes to standard error. With =FILE, write it there, and report as usual
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
}

impl ReportOptions {
    /// Decides, before the command runs, who will report and where.
    ///
    /// # Errors
    /// Where nobody would report, there is no descriptor left, or the file is of another kind.
    pub fn begin(&self) -> Result<CommandReport<'_>, Failure> {
        let rank = self.rank.reporting_rank()?;
        if let Some(file) = self.json_file().filter(|_| !rank.is_silent()) {
            save::ANSWER.check(file).map_err(Failure::of_command)?;
        }
        let redirect =
            StdoutRedirect::to_stderr(self.json == Some(None)).map_err(Failure::of_command)?;
        Ok(CommandReport { rank, redirect, json: self.json_file() })
    }

    /// Shows what a recording in `file` says, to standard output: as JSON or, made for so many
    /// columns, as a report. `--json=FILE` has both.
    ///
    /// # Errors
    /// Those of writing.
    pub fn print_of_recording(
        &self,
        file: &Path,
        answer: &impl Serialize,
        report: impl FnOnce(usize) -> String,
    ) -> anyhow::Result<()> {
        let text = match self.json {
            Some(None) => term::json(answer)?,
            _ => {
                save::json(self.json_file(), file, answer)?;
                report(term::width::terminal())
            }
        };
        Ok(term::print(&text)?)
    }

    pub fn json_file(&self) -> Option<&Path> {
        self.json.as_ref().and_then(Option::as_deref)
    }
}

/// A report that is to follow once the command has ended.
pub struct CommandReport<'a> {
    /// Whose it is.
    pub rank: ReportingRank,
    redirect: Option<StdoutRedirect>,
    json: Option<&'a Path>,
}

impl CommandReport<'_> {
    /// Whether the answer is also wanted as JSON.
    pub fn is_json(&self) -> bool {
        self.redirect.is_some() || self.json.is_some()
    }

    /// Prints the answer as JSON, or as a report that is made for so many columns and followed by
    /// whose it was and how the others' can be had; nothing where another rank reports. `source` is
    /// the recording that `--json=FILE` must not replace. The command has ended, and its status is
    /// passed: where the answer cannot be written, that is said in a line.
    ///
    /// # Errors
    /// The reader is gone.
    pub fn print(
        self,
        source: &Path,
        answer: &impl Serialize,
        report: impl FnOnce(usize) -> String,
        others: &str,
    ) -> Result<(), Failure> {
        if self.rank.is_silent() {
            return Ok(());
        }
        let print = || match self.redirect {
            Some(redirect) => redirect.print(&term::json(answer)?),
            None => {
                save::json(self.json, source, answer)?;
                self.rank.print_report(report)
            }
        };
        is_done_or_said(print())?;
        self.rank.say_whose(others);
        Ok(())
    }
}

/// Whether something of a command that has ended could be written: if not, that is said in a line, and the
/// command's status passes.
///
/// # Errors
/// The reader is gone.
pub fn is_done_or_said(done: anyhow::Result<()>) -> Result<bool, Failure> {
    match done.map_err(Failure::of_command) {
        Err(failure) if failure.is_broken_pipe() => Err(failure),
        Err(failure) => {
            term::warn(&format!("{:#}", failure.error));
            Ok(false)
        }
        Ok(()) => Ok(true),
    }
}
