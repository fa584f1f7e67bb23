//! `becalm check`.

pub mod budget;
mod openmetrics;
pub mod view;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use explain::{RunWarning, WarningKind};
use job::RecordingTarget;
use picture::{Picture, PicturedStart};
use recording::Recording;
use script::builtins::{self, CountFile};

use crate::command_report::ReportOptions;
use crate::cost_options::CostOptions;
use crate::exit::Failure;
use crate::pictured;
use crate::rehearsed::{self, RehearseOptions};
use crate::until_options::UntilOptions;
use crate::{last, machine, recorded};
use budget::{BudgetOptions, StartCounts};
pub use view::{CheckAnswer, RehearsedRun};

/// Run a command, and say which storms of file operations hit it, why, and what to do
///
/// The command's own output is left alone: the report follows on standard error (on standard
/// output, if only that is a terminal). Its exit status is passed on.
#[derive(clap::Args)]
#[command(after_help = "\
The wait is predicted for a cold shared filesystem, as by becalm scale (docs/scale.md): --profile
says which, --ranks and --nodes who starts on it. A storm is 0.1 s of it that can be avoided.

Under srun or mpirun every rank is watched and only one reports, on itself. With -o the ranks of each
node are kept in one file, as by becalm record.

Examples:
  becalm check -- python3 -c 'import numpy'
  becalm check --rehearse nfs -- python3 -c 'import numpy'
  becalm check -o app.becalm --profile lustre --ranks 24576 --nodes 128 -- ./app --version
  becalm check --html start.html -- ./app --version
  becalm check --budget ops=500,failed=0 -- ./app --version
  becalm check --json -- ./app --version | jq '.storms[0].sources'")]
pub struct CheckArgs {
    /// Keep the recording in this file
    #[arg(short, long, value_name = "REC")]
    output: Option<PathBuf>,

    /// Write a picture of the start, too: one HTML file that needs no network
    #[arg(long, value_name = "FILE", value_parser = pictured::file())]
    html: Option<PathBuf>,

    /// Write the start in numbers, too, as OpenMetrics text: a NAME.prom in the directory of the node
    /// exporter's textfile collector
    #[arg(long, value_name = "FILE", value_parser = pictured::file())]
    openmetrics: Option<PathBuf>,

    /// Stop at reads, writes and closes, too: slower, and what was read is counted exactly
    #[arg(long)]
    data: bool,

    #[command(flatten)]
    until: UntilOptions,

    #[command(flatten)]
    place: RehearseOptions,

    #[command(flatten)]
    cost: CostOptions,

    #[command(flatten)]
    budget: BudgetOptions,

    #[command(flatten)]
    report: ReportOptions,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: &CheckArgs) -> Result<u8, Failure> {
    let report = args.report.begin()?;
    let wanted = recorded::RecordRequest {
        until: args.until.conditions(),
        calls: match args.data {
            true => watch::WatchedCalls::WithData,
            false => watch::WatchedCalls::MetadataOnly,
        },
        ..recorded::RecordRequest::of(&args.command)
    };
    let place = args.place.wanted(&[&args.command], &args.cost.job)?;
    let profile = place.as_ref().map(|place| &place.profile);
    let model = args.cost.model(profile)?;
    let other_models = args.cost.other_models(profile)?;
    let below = args.cost.below_here()?;
    if let Some(target) = &args.html {
        pictured::PICTURE.check(target).map_err(Failure::of_command)?;
    }
    if let Some(target) = &args.openmetrics {
        openmetrics::METRICS.check(target).map_err(Failure::of_command)?;
    }
    let budget =
        args.budget.begin(&args.command, [args.output.as_deref(), args.report.json_file()])?;
    let count = count_starts(&args.command);
    let enter = || match &place {
        Some(place) => Ok(Some((place, rehearsed::enter(place)?))),
        None => Ok(None),
    };
    let target = args.output.as_deref().map(|output| RecordingTarget::of(output, None));
    let target = target.transpose().map_err(Failure::of_command)?;
    let kept = target.as_ref().map(|target| target.file().to_owned());
    let shared = target.as_ref().is_some_and(|target| target.rank().is_some());
    let record = |path: Option<&Path>| recorded::there(&wanted, path, enter);
    let (ran, joined) = match target {
        Some(target) => {
            recorded::to_target(target, |path| record(Some(path)), |recorded| &recorded.finished)
        }
        None => (record(None), Ok(())),
    };
    let ran = ran?;
    let recording = ran.read()?;
    let finished = ran.finished;
    if report.rank.is_silent() {
        joined?;
        return recorded::pass_on(&finished);
    }
    let lost = last::keep(&ran.file).err();
    let rehearsed = ran.entered;
    let rehearsed = rehearsed
        .map(|(place, entered)| rehearsed::told(place, entered, &recording))
        .transpose()?;
    let named = match (&kept, &lost) {
        (Some(kept), _) => term::quoted_path(kept),
        (None, None) => last::NAME.to_owned(),
        (None, Some(_)) => NOT_KEPT.to_owned(),
    };
    let options = explain::ExplainOptions {
        model,
        other_models,
        below,
        recording: match report.rank.number().filter(|_| shared) {
            Some(rank) => format!("{named} --rank {rank}"),
            None => named,
        },
        still_running: finished.still_running as u64,
    };
    let mut findings = explain::explain(&recording, &options);
    let is_lost = kept.is_none() && lost.is_some();
    findings.warnings.extend(lost.filter(|_| kept.is_none()).as_ref().map(not_kept));
    let how = cure::CureOptions::new(&options);
    let plan = cure::CurePlan::of(&recording, &findings, &machine::here(), &how);
    let mut check = CheckAnswer::of(&recording, kept.as_deref(), findings, plan);
    check.is_lost = is_lost;
    check.rehearsed = rehearsed;
    check.rank = report.rank.number();
    check.budget = budget.as_ref().map(|it| it.judge(&recording, &check.findings, &options));
    check.counts = report.is_json().then(|| StartCounts::of(&recording).bounded());
    check.builtins = count.and_then(|count| count.read().ok()).filter(|counted| counted.shells > 0);
    if let Some(target) = &args.html {
        write_picture(target, file(args), &check, &recording, &options);
    }
    if let Some(target) = &args.openmetrics {
        let written = openmetrics::write(target, file(args), &check, &recording);
        written.unwrap_or_else(|error| term::warn(&format!("{error:#}")));
    }
    let others = match kept {
        Some(kept) => format!("how the ranks compare: becalm report {}", kept.display()),
        None => "with -o REC the other ranks are kept, too".to_owned(),
    };
    report.print(file(args), &check, |columns| check.render(columns), &others)?;
    if let (Some(budget), Some(answer)) = (&budget, &check.budget) {
        budget.tell(answer, &check.findings);
    }
    joined?;
    Ok(budget::status(recorded::pass_on(&finished)?, check.budget.as_ref()))
}

/// Has the shells of a `becalm run` count the starts that they avoid. Where that cannot be, nothing
/// is said of them.
fn count_starts(command: &[OsString]) -> Option<CountFile> {
    let file = launch::Command::of(command.to_vec()).file().ok()?.canonicalize().ok()?;
    let is_run = command.get(1).is_some_and(|verb| verb == "run");
    if !is_run || std::env::current_exe().ok()?.canonicalize().ok()? != file {
        return None;
    }
    let count = CountFile::new().ok()?;
    launch::set_variables(&[(builtins::COUNT_VARIABLE.into(), count.file().into())]);
    Some(count)
}

/// Writes the picture of a start. The command has ended, and its status is passed: where it cannot
/// be written, that is said in a line.
fn write_picture(
    target: &Path,
    source: &Path,
    check: &CheckAnswer,
    recording: &Recording,
    options: &explain::ExplainOptions,
) {
    let mut start = PicturedStart::of("start", recording, check.findings.clone(), options);
    start.cures = check.pictured_cures();
    if let Err(error) = pictured::write(&Picture::of_starts(vec![start]), target, source) {
        term::warn(&format!("{error:#}"));
    }
}

/// What a recording that is nowhere would be called.
const NOT_KEPT: &str = "start.becalm";

/// That the recording is gone.
pub fn not_kept(why: &anyhow::Error) -> RunWarning {
    let text = format!("the recording is not kept as the last one: {why:#}");
    RunWarning { kind: WarningKind::NotKept, text: term::plain(&text) }
}

/// The recording's file, or what a kept one would be called.
fn file(args: &CheckArgs) -> &Path {
    args.output.as_deref().unwrap_or(Path::new(NOT_KEPT))
}
