//! `becalm export`.

mod ranks;
pub mod view;

use std::io::{BufWriter, IsTerminal, Write, stdout};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use recording::export::{self, ExportFormat, ExportOptions, UnknownFormat, UnknownWeight, Weight};

use crate::exit::{Failure, USAGE};
use crate::recording_head::RecordingHead;
use crate::save;
use view::Export;

/// Write a recording in another program's format
///
/// jsonl: every field, for jq. strace: the text of strace -f, for
/// people. chrome: Trace Event Format, for chrome://tracing. folded: stacks, for inferno and
/// flamegraph.pl. csv: one row a call. perfetto: its own trace, with processes, causes and counters.
/// speedscope: stacks with what they cost. parquet: the rows of csv, typed, for DuckDB and Arrow.
/// Of many ranks, chrome and csv: their starts beside each other, and who waited for whom at MPI_Init.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm export run.becalm --format jsonl | jq 'select(.error == \"ENOENT\")'
  becalm export run.becalm --format folded | inferno-flamegraph > run.svg
  becalm export run.becalm --format perfetto -o run.pftrace    then open it in ui.perfetto.dev
  becalm export run.becalm --format parquet -o run.parquet
  becalm export ranks.becalm --format chrome -o ranks.json    a track a rank: who waited for whom")]
pub struct ExportArgs {
    /// A recording that `becalm record` made
    recording: PathBuf,
    /// Which format
    #[arg(long, value_parser = format())]
    format: ExportFormat,
    /// Of folded stacks, what their numbers are: calls, or microseconds
    #[arg(long, default_value = "count", value_parser = weight())]
    weight: Weight,
    /// Write to this file (whole or not at all), not to standard output (`-`)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print what was written as one JSON object
    #[arg(long, requires = "output")]
    json: bool,
}

fn format() -> impl TypedValueParser<Value = ExportFormat> {
    PossibleValuesParser::new(ExportFormat::ALL.map(ExportFormat::name))
        .try_map(|word| -> Result<ExportFormat, UnknownFormat> { word.parse() })
}

fn weight() -> impl TypedValueParser<Value = Weight> {
    PossibleValuesParser::new(Weight::ALL.map(Weight::name))
        .try_map(|word| -> Result<Weight, UnknownWeight> { word.parse() })
}

/// Runs the verb.
pub fn run(args: &ExportArgs) -> Result<u8, Failure> {
    let recording = match crate::load::load(&args.recording) {
        Err(error) if error.is_of_ranks() => return ranks::run(args),
        recording => recording?,
    };
    let run = RecordingHead::of(&args.recording, &recording);
    run.warnings().iter().for_each(|line| term::warn(line));
    let options = ExportOptions { weight: args.weight };
    let write = |out: &mut dyn Write| export::write(&recording, args.format, out, &options);
    let Some(file) = file(args)? else {
        if args.format.is_binary() && stdout().is_terminal() {
            let error = anyhow::anyhow!("{} is no text: name a file with -o FILE", args.format);
            return Err(Failure { status: USAGE, error });
        }
        let mut out = BufWriter::with_capacity(256 << 10, stdout().lock());
        write(&mut out).and_then(|()| out.flush()).context("standard output")?;
        return Ok(0);
    };
    refuse_recording(file, &args.recording)?;
    save::whole(file, &args.recording, write)?;
    if is_standard_output(file) {
        return Ok(0);
    }
    let done = Export::of(run, args.format, file);
    term::print_answer(args.json, &done, |_| done.render())?;
    Ok(0)
}

/// The file to write; none for standard output.
fn file(args: &ExportArgs) -> Result<Option<&Path>, Failure> {
    let file = args.output.as_deref().filter(|file| file.as_os_str() != "-");
    if file.is_none() && args.json {
        let error = anyhow::anyhow!("--json needs a file: -o FILE");
        return Err(Failure { status: USAGE, error });
    }
    Ok(file)
}

fn refuse_recording(file: &Path, source: &Path) -> anyhow::Result<()> {
    if is_another_recording(file, source) {
        anyhow::bail!("{}: it is a recording; choose another name", file.display());
    }
    Ok(())
}

/// Whether what was written is what this process writes to, by another name: `/dev/stdout`. Then nothing comes
/// behind it.
fn is_standard_output(file: &Path) -> bool {
    let own = rustix::fs::fstat(stdout()).ok().map(|it| (it.st_dev, it.st_ino));
    own.is_some() && own == file.metadata().ok().map(|it| (it.dev(), it.ino()))
}

/// Whether a file that would be replaced is a recording, which cannot be made again, and not the one
/// that is read.
fn is_another_recording(target: &Path, source: &Path) -> bool {
    let inode = |file: &Path| file.metadata().ok().map(|it| (it.dev(), it.ino()));
    let is_source = || inode(target) == inode(source);
    target.is_file() && !is_source() && crate::load::is_recording(target)
}
