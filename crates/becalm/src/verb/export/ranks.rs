//! The starts of many ranks, in another program's format.

use std::io::{Write, stdout};

use anyhow::Context;
use recording::export::{ExportFormat, ranks};

use super::view::ExportedRanks;
use super::{ExportArgs, file, is_standard_output, refuse_recording};
use crate::exit::{Failure, USAGE};
use crate::save;
use crate::verb::report::view::ranks::RanksReport;

/// Writes the starts of all ranks of a recording beside each other.
pub(super) fn run(args: &ExportArgs) -> Result<u8, Failure> {
    if !matches!(args.format, ExportFormat::Chrome | ExportFormat::Csv) {
        let error = anyhow::anyhow!(
            "{}: it is of many ranks, of which chrome and csv are written; for one of them as {}: \
             becalm merge --rank N -o ONE FILE",
            args.recording.display(),
            args.format
        );
        return Err(Failure { status: USAGE, error });
    }
    let file = file(args)?;
    let report = RanksReport::of(&args.recording, &crate::load::load_ranks(&args.recording)?);
    report.warnings().iter().for_each(|line| term::warn(line));
    let write = |out: &mut dyn Write| match args.format {
        ExportFormat::Chrome => ranks::chrome(&report.starts, &report.run, out),
        _ => ranks::csv(&report.starts, out),
    };
    let Some(file) = file else {
        write(&mut stdout().lock()).context("standard output")?;
        return Ok(0);
    };
    refuse_recording(file, &args.recording)?;
    save::whole(file, &args.recording, write)?;
    if is_standard_output(file) {
        return Ok(0);
    }
    let done = ExportedRanks::of(&report, args.format, file);
    term::print_answer(args.json, &done, |_| done.render())?;
    Ok(0)
}
