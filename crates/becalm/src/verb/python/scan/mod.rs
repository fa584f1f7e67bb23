//! `becalm python scan`.

pub mod view;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use python::ImportScan;
use recording::Recording;

use super::{hooked, importtime};
use crate::asked_to_end::asked_by_end;
use crate::command_report::ReportOptions;
use crate::exit::Failure;
use crate::{again, recorded};
use view::PythonScan;

/// Count the metadata operations of each import, say why they are made, and what each entry of
/// sys.path adds
///
/// A hook makes Python say where each import begins and ends, and is taken out of all counts.
/// Where it cannot run (-I, -E, -S, Pythons started by Python, a recording), files name their
/// modules. The command's own output is left alone: the report follows on standard error. Its
/// exit status is passed on. Under srun or mpirun every rank is watched alike and one reports.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm python scan -- python3 -c 'import numpy'
  becalm python scan --importtime --all -- python3 app.py
  becalm python scan all.becalm --rank 7
  becalm python scan --json -- python3 app.py | jq '.packages[0]'")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["recording", "command"]))]
pub struct PythonScanArgs {
    /// A recording that `becalm record` made, instead of a command
    recording: Option<PathBuf>,

    #[command(flatten)]
    report: ReportOptions,

    /// Run the command once more, not recorded, and show `python -X importtime` beside the counts
    #[arg(long, conflicts_with = "recording")]
    importtime: bool,

    /// Run the command as it is; the import of each operation is then inferred from its path
    #[arg(long, conflicts_with = "recording")]
    no_hook: bool,

    /// Show every row, and the imports as a tree
    #[arg(long)]
    all: bool,

    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: &PythonScanArgs) -> Result<u8, Failure> {
    match &args.recording {
        Some(file) => of_recording(args, file),
        None => of_command(args),
    }
}

fn of_recording(args: &PythonScanArgs, file: &Path) -> Result<u8, Failure> {
    let recording = args.report.rank.load(file)?;
    let mut answer = PythonScan::of(&recording, Some(file), python::scan(&recording, None), 0);
    answer.rank = args.report.rank.asked_for();
    let next = format!("becalm report {} --by module", args.report.rank.quoted(file));
    let report = |columns| answer.render(columns, args.all, &next);
    args.report.print_of_recording(file, &answer, report)?;
    Ok(0)
}

fn of_command(args: &PythonScanArgs) -> Result<u8, Failure> {
    let report = args.report.begin()?;
    let (recording, scan, finished) = record(args)?;
    let mut answer = PythonScan::of(&recording, None, scan, finished.still_running);
    answer.rank = report.rank.number();
    // Who has ended the first run wants no second one.
    if args.importtime && asked_by_end(finished.ended).is_none() {
        answer.no_times = importtime::beside(&args.command, &mut answer.scan)?;
    }
    let next = next(args);
    report.print(
        Path::new(""),
        &answer,
        |columns| answer.render(columns, args.all, &next),
        "--rank N is another's; all of them: becalm record, merge, python scan REC",
    )?;
    recorded::pass_on(&finished)
}

/// Runs and records the command, with the hook unless it is not wanted.
fn record(args: &PythonScanArgs) -> Result<(Recording, ImportScan, watch::Finished), Failure> {
    let (recording, hook, finished) = hooked::record(&args.command, !args.no_hook)?;
    let scan = python::scan(&recording, hook.map(|hook| hook.marks()).as_ref());
    Ok((recording, scan, finished))
}

/// What to do next: the same with times, and then the whole tree.
fn next(args: &PythonScanArgs) -> String {
    match (args.importtime, args.all) {
        (false, _) => again::with(2, &["--importtime"]),
        (true, false) => again::with(2, &["--all"]),
        (true, true) => format!("becalm fix -- {}", term::shell_line(&args.command)),
    }
}
