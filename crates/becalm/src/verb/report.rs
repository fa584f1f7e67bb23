//! `becalm report`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use recording::query::{By, UnknownBy};
use show::Report;

use crate::exit::Failure;

/// Rows of a table that fits a screen.
const SCREEN: usize = 20;

/// Show what a recording holds: calls by cause, folder, program, system call, library, module
///
/// Metadata operations are the calls that a metadata server would serve: opens, stats, reads of
/// folders. `missing` are those that were answered 'no such file'. Times have the recorder's
/// own stops in them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm report run.becalm
  becalm report run.becalm --by prefix --below /opt/spack
  becalm report run.becalm --by syscall       as strace -c -U calls,errors,name -S name")]
pub struct Args {
    /// A recording that `becalm record` made
    recording: PathBuf,
    /// What to group the calls by
    #[arg(long, default_value = "cause", value_parser = by())]
    by: By,
    /// Count only what is asked of this folder and below it
    #[arg(long, value_name = "DIR")]
    below: Option<PathBuf>,
    /// Show every row, not only a screen of them
    #[arg(long)]
    all: bool,
    /// Print one JSON object (docs/schema/becalm.report.md)
    #[arg(long)]
    json: bool,
}

/// One of [`By`]'s names.
pub fn by() -> impl TypedValueParser<Value = By> {
    PossibleValuesParser::new(By::ALL.map(By::name))
        .try_map(|word| -> Result<By, UnknownBy> { word.parse() })
}

/// How many rows of a table are shown.
pub fn rows(all: bool) -> usize {
    if all { usize::MAX } else { SCREEN }
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let recording = show::load(&args.recording)?;
    let below = args.below.as_ref().map(std::path::absolute).transpose().context("--below")?;
    let below = below.as_ref().map(|folder| folder.as_os_str().as_bytes());
    let report = Report::of(&args.recording, &recording, args.by, below);
    report.run.warnings().iter().for_each(|line| show::warn(line));
    if args.json {
        show::print(&show::json(&report)?)?;
    } else {
        show::print(&report.render(show::width::terminal(), rows(args.all)))?;
    }
    Ok(0)
}
