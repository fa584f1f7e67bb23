//! `becalm diff`.

pub mod view;

use std::path::PathBuf;

use recording::query::GroupBy;

use super::report;
use crate::exit::Failure;
use view::{Diff, PathsDiff};

/// Compare two recordings side by side, with the change
///
/// Counts metadata operations; by system call, calls. Green is less, red is more. With --paths:
/// the paths that only one of the two asked for, and those that both did, but not equally often.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm diff before.becalm after.becalm
  becalm diff before.becalm after.becalm --by library
  becalm diff before.becalm after.becalm --paths")]
pub struct DiffArgs {
    /// The first recording
    before: PathBuf,
    /// The second recording
    after: PathBuf,
    /// What to group the calls by
    #[arg(long, default_value = "cause", value_parser = report::by())]
    by: GroupBy,
    /// Compare which paths were asked for
    #[arg(long, conflicts_with = "by")]
    paths: bool,
    /// Show every row, not only a screen of them
    #[arg(long)]
    all: bool,
    /// Print one JSON object (docs/schema/becalm.diff.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &DiffArgs) -> Result<u8, Failure> {
    let recordings = (crate::load::load(&args.before)?, crate::load::load(&args.after)?);
    let before = (args.before.as_path(), &recordings.0);
    let after = (args.after.as_path(), &recordings.1);
    for (file, recording) in [before, after] {
        crate::recording_head::RecordingHead::of(file, recording)
            .warnings()
            .iter()
            .for_each(|line| term::warn(line));
    }
    let (columns, rows) = (term::width::terminal(), report::rows(args.all));
    let text = match (args.paths, args.json) {
        (false, false) => Diff::of(before, after, args.by).render(columns, rows),
        (false, true) => term::json(&Diff::of(before, after, args.by))?,
        (true, false) => PathsDiff::of(before, after).render(columns, rows),
        (true, true) => term::json(&PathsDiff::of(before, after))?,
    };
    term::print(&text)?;
    Ok(0)
}
