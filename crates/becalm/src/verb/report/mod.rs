//! `becalm report`.

pub mod view;

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cost::ProjectionError;
use recording::Recording;
use recording::query::{GroupBy, UnknownBy};

use crate::below::{self, NamedDirectory};
use crate::cost_options;
use crate::exit::Failure;
use crate::pictured;
use crate::reporting_rank::load_rank;
use view::CallReport;
use view::data::DataReport;
use view::ranks::RanksReport;

/// Rows of a table that fits a screen.
const SCREEN: usize = 20;

/// Ranks and nodes that are listed, the slowest first.
const SLOWEST: usize = 8;

/// Show what a recording holds: calls by cause, directory, program, library, module, script line
///
/// Metadata operations are the calls that a metadata server would serve: opens, stats, reads of
/// directories. `failed` are those of them that ended with ENOENT or ENOTDIR. Times have the recorder's
/// own stops in them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm report run.becalm
  becalm report run.becalm --by prefix --below /opt/spack
  becalm report all.becalm --rank 7           of ranks: without --rank, all are compared
  becalm report run.becalm --by line
  becalm report run.becalm --by data          what was read and touched of each file
  becalm report run.becalm --by syscall       as strace -f -c -w: time, calls, errors
  becalm report run.becalm --html run.html    a picture to look around in, one file
  becalm report before.becalm --vs after.becalm --html both.html")]
pub struct ReportArgs {
    /// A recording that `becalm record` made
    recording: PathBuf,
    /// What to group the calls by [default: cause]
    #[arg(long, value_parser = by_or_data())]
    by: Option<ReportBy>,
    /// Of a file with many ranks: this one's calls
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Count only what is asked of this directory and below it
    #[arg(long, value_name = "DIR", value_parser = below::directory())]
    below: Option<NamedDirectory>,
    /// Write a picture of all of it, too: one HTML file that needs no network (`-`: to standard
    /// output, alone). Of a directory: becalm scale --below
    #[arg(long, value_name = "FILE", conflicts_with_all = ["by", "below"])]
    html: Option<PathBuf>,
    /// A recording of the same command after a change, for --html
    #[arg(long, value_name = "RECORDING", requires = "html", conflicts_with = "rank")]
    vs: Option<PathBuf>,
    /// Show every row, not only a screen of them
    #[arg(long)]
    all: bool,
    /// Print one JSON object (docs/schema/becalm.report.md)
    #[arg(long)]
    json: bool,
}

/// What a report is about.
#[derive(Clone, Copy, Debug)]
enum ReportBy {
    /// Calls, grouped.
    Calls(GroupBy),
    /// What was used of each file.
    Data,
}

/// One of [`GroupBy`]'s names, or `data`.
fn by_or_data() -> impl TypedValueParser<Value = ReportBy> {
    let names = GroupBy::ALL.map(GroupBy::name).into_iter().chain(["data"]);
    PossibleValuesParser::new(names).try_map(|word| match word.as_str() {
        "data" => Ok(ReportBy::Data),
        word => word.parse().map(ReportBy::Calls) as Result<ReportBy, UnknownBy>,
    })
}

/// One of [`GroupBy`]'s names.
pub fn by() -> impl TypedValueParser<Value = GroupBy> {
    PossibleValuesParser::new(GroupBy::ALL.map(GroupBy::name))
        .try_map(|word| -> Result<GroupBy, UnknownBy> { word.parse() })
}

/// How many rows of a table are shown.
pub fn rows(all: bool) -> usize {
    if all { usize::MAX } else { SCREEN }
}

/// Runs the verb.
pub fn run(args: &ReportArgs) -> Result<u8, Failure> {
    let recording = match args.rank {
        Some(rank) => load_rank(&args.recording, rank)?,
        None => match crate::load::load(&args.recording) {
            Err(error) if error.is_of_ranks() => return over_ranks(args),
            loaded => loaded?,
        },
    };
    if let Some(target) = &args.html {
        write_picture(args, &recording, target)?;
    }
    if pictured::is_stdout(args.html.as_deref()) {
        return Ok(0);
    }
    let by = match args.by {
        Some(ReportBy::Data) => return of_data(args, &recording),
        Some(ReportBy::Calls(by)) => by,
        None => GroupBy::Cause,
    };
    let below = args.below.as_ref().map(NamedDirectory::names).unwrap_or_default();
    let mut report = CallReport::of(&args.recording, &recording, by, below);
    if !below.is_empty() && report.table.total.calls == 0 && report.all.calls == 0 {
        let file = term::plain(&args.recording.to_string_lossy());
        Err(ProjectionError::elsewhere(&recording, below)).context(file)?;
    }
    report.run.rank = args.rank;
    report.run.warnings().iter().for_each(|line| term::warn(line));
    term::print_answer(args.json, &report, |columns| report.render(columns, rows(args.all)))?;
    Ok(0)
}

/// Writes the picture of a recording.
fn write_picture(args: &ReportArgs, recording: &Recording, target: &Path) -> Result<(), Failure> {
    let after = args.vs.as_deref().map(|file| Ok::<_, Failure>((file, crate::load::load(file)?)));
    let after = after.transpose()?;
    let options = explain::ExplainOptions {
        model: cost_options::usual_model()?,
        ..explain::ExplainOptions::default()
    };
    let after = after.as_ref().map(|(file, recording)| (*file, recording));
    let picture = pictured::of_recordings((&args.recording, recording), after, &options);
    Ok(pictured::write(&picture, target, &args.recording)?)
}

/// What was used of each file.
fn of_data(args: &ReportArgs, recording: &Recording) -> Result<u8, Failure> {
    if args.below.is_some() {
        Err(anyhow!("--by data is of all files: --below does not go with it"))?;
    }
    let mut report = DataReport::of(&args.recording, recording);
    report.run.rank = args.rank;
    report.run.warnings().iter().for_each(|line| term::warn(line));
    term::print_answer(args.json, &report, |columns| report.render(columns, rows(args.all)))?;
    Ok(0)
}

/// How the ranks of a file compare.
fn over_ranks(args: &ReportArgs) -> Result<u8, Failure> {
    let file = args.recording.display();
    if args.vs.is_some() {
        Err(anyhow!("{file}: has many ranks; --vs compares starts of one"))?;
    }
    if args.by.is_some() || args.below.is_some() {
        Err(anyhow!("{file}: has many ranks; say with --rank N whose calls to group"))?;
    }
    let ranks = crate::load::load_ranks(&args.recording)?;
    let report = RanksReport::of(&args.recording, &ranks);
    if let Some(target) = &args.html {
        let picture = picture::Picture::of_ranks(report.map());
        pictured::write(&picture, target, &args.recording)?;
    }
    report.warnings().iter().for_each(|line| term::warn(line));
    if pictured::is_stdout(args.html.as_deref()) {
        return Ok(0);
    }
    let ranks = if args.all { usize::MAX } else { SLOWEST };
    term::print_answer(args.json, &report, |columns| report.render(columns, ranks))?;
    Ok(0)
}
