//! `becalm attach`.

use std::path::PathBuf;

use recording::{JoinedRun, LetGo, LetGoReason};
use schemars::JsonSchema;
use serde::Serialize;
use watch::Until;

use super::check::{CheckAnswer, not_kept};
use crate::attached::{self, AttachRequest};
use crate::cost_options::CostOptions;
use crate::exit::Failure;
use crate::{last, machine};

/// Watch processes that run already, with all below them, and say which storms hit them
///
/// They are left as they were: at Ctrl-C, when the time of --until is over, or if becalm is killed,
/// they run on untraced. While they are watched, every system call of theirs stops twice. What came
/// before and comes after is not in the report, which says so.
#[derive(clap::Args)]
#[command(after_help = "\
It takes what strace -p takes: your own processes where kernel.yama.ptrace_scope is 0, any as root.
A process is refused, with the reason, that another one traces already, or that becalm itself is below.

Examples:
  becalm attach --until 10 $(pgrep -o make)
  becalm attach -o build.becalm 4711
  becalm attach --job 1234.0 --until 30")]
#[command(group = clap::ArgGroup::new("who").required(true).args(["pids", "job"]))]
pub struct AttachArgs {
    /// Keep the recording in this file
    #[arg(short, long, value_name = "REC")]
    output: Option<PathBuf>,

    /// Let go at the first of SECONDS, quiet (nothing new was opened for 0.5 s), exec:NAME,
    /// open:GLOB. May be given several times. [default: at Ctrl-C, or when the last process has
    /// ended]
    #[arg(long, value_name = "WHEN", value_parser = attached::until)]
    until: Vec<Until>,

    /// Watch what a Slurm job, or one of its steps, runs on this node
    #[arg(long, value_name = "JOBID[.STEP]")]
    job: Option<String>,

    /// Watch from the moment that each of them executes its next program, and wait for that, at most
    /// 10 s: for a launcher's child, as a task prolog of Slurm's knows it. Its first few calls may
    /// be missed
    #[arg(long, conflicts_with = "job")]
    from_exec: bool,

    #[command(flatten)]
    cost: CostOptions,

    /// Print one JSON object (docs/schema/becalm.attach.md)
    #[arg(long)]
    json: bool,

    /// The processes, by number
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pids: Vec<i32>,
}

/// What `becalm attach` answers.
#[derive(Serialize, JsonSchema)]
pub struct AttachAnswer<'a> {
    /// `becalm.attach/1`.
    schema: &'static str,
    /// Whom it was asked to watch, and how long the oldest of them had run.
    joined: Option<&'a JoinedRun>,
    /// For how long they were watched.
    watched_ns: u64,
    /// Why they are watched no longer.
    end: &'static str,
    /// How many processes run on.
    left: usize,
    /// What was seen of them, as `becalm check` has it.
    check: &'a CheckAnswer,
}

/// Runs the verb.
pub fn run(args: &AttachArgs) -> Result<u8, Failure> {
    let model = args.cost.model(None)?;
    let other_models = args.cost.other_models(None)?;
    let below = args.cost.below_here()?;
    let pids = match &args.job {
        Some(job) => attached::of_job(job)?,
        None => args.pids.clone(),
    };
    let wanted =
        AttachRequest { pids, from_exec: args.from_exec, until: args.until.clone(), starts: None };
    let attached = attached::and_read(wanted, args.output.as_deref())?;
    let recording = &attached.recording;
    let lost = last::keep(&attached.file).err().filter(|_| args.output.is_none());
    let options = explain::ExplainOptions {
        model,
        other_models,
        below,
        recording: match (&args.output, &lost) {
            (Some(kept), _) => term::quoted_path(kept),
            (None, None) => last::NAME.to_owned(),
            (None, Some(_)) => "start.becalm".to_owned(),
        },
        still_running: 0,
    };
    let mut findings = explain::explain(recording, &options);
    findings.warnings.extend(lost.as_ref().map(not_kept));
    let how = cure::CureOptions::new(&options);
    let plan = cure::CurePlan::of(recording, &findings, &machine::here(), &how);
    let mut check = CheckAnswer::of(recording, args.output.as_deref(), findings, plan);
    check.is_lost = lost.is_some();
    let text = match args.json {
        false => check.render(term::width::terminal()),
        true => term::json(&AttachAnswer {
            schema: "becalm.attach/1",
            joined: recording.header.joined.as_ref(),
            watched_ns: recording.summary.as_ref().map_or(0, |summary| summary.ended.0),
            end: end(recording.let_go()),
            left: attached.watched.left,
            check: &check,
        })?,
    };
    term::print(&text)?;
    Ok(0)
}

/// Why processes are watched no longer, in a word.
fn end(let_go: Option<&LetGo>) -> &'static str {
    match let_go.map(|let_go| &let_go.why) {
        None => "all_ended",
        Some(LetGoReason::MpiInit) => "mpi_init",
        Some(LetGoReason::Quiet { .. }) => "quiet",
        Some(LetGoReason::Passed { .. }) => "passed",
        Some(LetGoReason::Exec { .. }) => "exec",
        Some(LetGoReason::Open { .. }) => "open",
        Some(LetGoReason::Asked) => "asked",
    }
}
