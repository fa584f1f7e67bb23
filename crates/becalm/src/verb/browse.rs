//! `becalm browse`.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use browse::{Browser, NoTerminal};
use explain::ExplainOptions;

use crate::cost_options;
use crate::exit::Failure;
use crate::recording_head::RecordingHead;
use crate::reporting_rank::RankOption;

/// Walk about in a recording, in the terminal: processes, storms, directories, libraries, calls
///
/// Trees that open level by level, and from each row down to the calls behind it; with search, filter,
/// and a sort by every column. Press ? for the keys. What is shown is what `becalm report` and `becalm
/// check` count; for a script: `becalm report REC --json`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm browse run.becalm
  becalm browse last                          what `becalm check` saw last
  becalm browse all.becalm --rank 7           of ranks")]
pub struct BrowseArgs {
    /// A recording that `becalm record` made
    recording: PathBuf,
    #[command(flatten)]
    rank: RankOption,
}

/// Runs the verb.
pub fn run(args: &BrowseArgs) -> Result<u8, Failure> {
    let quoted = args.rank.quoted(&args.recording);
    browse::check_terminal().map_err(|why| {
        let why = match why {
            NoTerminal::NotOne => "standard input and output are no terminal",
            NoTerminal::Dumb => "TERM says that the terminal cannot be drawn on",
        };
        Failure::of_usage(anyhow!("{why}; use: becalm report {quoted}"))
    })?;
    let recording = args.rank.load(&args.recording)?;
    let head = RecordingHead::of(&args.recording, &recording);
    let warnings = head.warnings();
    // They stay on the screen that comes back, too.
    warnings.iter().for_each(|line| term::warn(line));
    let model = cost_options::usual_model()?;
    // The server's queue, which takes long to work out, is not shown.
    let model = cost::CostModel { job: cost::JobSize::ONE, ..model };
    let options = ExplainOptions { model, recording: quoted.clone(), ..ExplainOptions::default() };
    // That reads were not watched changes no number that is seen first.
    let has_flaw = head.cut.is_some() || !head.blind.is_empty();
    let message = warnings.into_iter().next().filter(|_| has_flaw);
    let browser = Browser::new(recording, &quoted, options).with_message(message);
    browse::in_terminal(browser).context("the terminal")?;
    Ok(0)
}
