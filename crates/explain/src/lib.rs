//! Recording to Findings: which storms hit a run, what causes them, what they cost.
//!
//! | file | what it holds |
//! |---|---|
//! | `findings` | the answer, as data |
//! | `source_path` | a path that a source names |
//! | `survey` | the recording's metadata operations with their causes, and who owns them |
//! | `storm/` | one storm a file: what it claims, what its sources are |
//! | `library/` | how the dynamic loader searched, for the two storms that are its |
//! | `threshold` | from when on it is a storm |
//! | `cost` | what operations cost on a cold shared filesystem |
//! | `who` | what a person would call a program |
//! | `warnings` | what the reader must know before believing the numbers |
//! | `words` | numbers and names inside sentences |
//!
//! An operation belongs to one storm: detectors run in the order of [`storm::DETECTORS`], and each
//! sees only what those before it have left. So the shares of a table add up to at most 100 %.
//!
//! What can be done about a storm is the crate `cure`'s to say.

mod cost;
mod findings;
mod library;
mod source_path;
mod storm;
mod survey;
mod tally;
mod threshold;
mod warnings;
mod who;
mod words;

use std::collections::HashSet;

use recording::{Micros, Nanos, Recording};

pub use findings::{CauseCount, Cost, Finding, Findings, Model, RunTotals, RunWarning, Threshold};
pub use source_path::SourcePath;
pub use storm::{
    AllLists, ForkSource, LoaderSource, LocaleSource, ModuleTool, ModulesSource, OneList,
    PathSource, PythonSource, RepeatSource, Storm, StormSource, SubcommandOps, WalkSource,
};
pub use threshold::STARTS;
pub use warnings::{WarningKind, said, warnings};
pub use words::listed;

use storm::DetectedStorm;
use survey::{CleanPaths, OpSurvey};
use words::{counted, operations};

/// What the reader of the findings wants to know beside them.
#[derive(Clone, Debug)]
pub struct ExplainOptions {
    /// Ranks that start at once.
    pub ranks: u64,
    /// Ranks that share a node, and its cache.
    pub ranks_per_node: u64,
    /// The recording's file as a shell takes it, for commands to paste.
    pub recording: String,
    /// Processes that the command left running, where the recording was read before they ended:
    /// it is then not cut, but not at its end either.
    pub still_running: u64,
}

impl Default for ExplainOptions {
    fn default() -> ExplainOptions {
        ExplainOptions {
            ranks: 1000,
            ranks_per_node: 64,
            recording: "REC".to_owned(),
            still_running: 0,
        }
    }
}

/// Explains a recording.
pub fn explain(recording: &Recording, options: &ExplainOptions) -> Findings {
    let paths = CleanPaths::of(recording);
    let mut survey = OpSurvey::new(recording, &paths);
    let model = cost::model(options);
    let mut storms = Vec::new();
    for detect in storm::DETECTORS {
        if let Some(case) = detect(&survey) {
            survey.claim(&case.claim);
            storms.push(finding(&survey, case, &model, options));
        }
    }
    storms.sort_by_key(|storm: &Finding| std::cmp::Reverse(storm.metadata_ops));
    let totals = totals(&survey);
    let program = program(recording);
    Findings {
        headline: headline(&program, &totals, storms.is_empty()),
        command: recording.header.command(),
        program,
        storms,
        rest: survey.causes(survey.free().map(|(id, _)| id)),
        cost: cost::cost(&survey, 0..survey.ops.len(), &model),
        model,
        threshold: threshold::threshold(),
        warnings: warnings::of_run(recording, options.still_running),
        totals,
    }
}

/// A case with all its numbers.
fn finding(
    survey: &OpSurvey,
    case: DetectedStorm,
    model: &Model,
    options: &ExplainOptions,
) -> Finding {
    let claim = &case.claim;
    let each = || claim.iter().map(|id| &survey.ops[*id]);
    let metadata_ops = claim.len() as u64;
    Finding {
        storm: case.storm,
        title: case.title,
        cause: case.cause,
        observed: case.observed,
        metadata_ops,
        enoent: survey.enoent(claim),
        distinct: survey.distinct(claim),
        avoidable: case.avoidable,
        inferred: case.inferred.unwrap_or_else(|| each().filter(|op| op.why.guess).count() as u64),
        share: metadata_ops as f64 / survey.total().max(1) as f64,
        time_ns: case.time.unwrap_or_else(|| each().map(|op| op.event.took).sum()),
        causes: survey.causes(claim.iter().copied()),
        sources: case.sources,
        cost: cost::cost(survey, claim.iter().copied(), model),
        evidence: format!("becalm report {} --by {}", options.recording, case.evidence),
    }
}

fn totals(survey: &OpSurvey) -> RunTotals {
    let recording = survey.recording;
    let header = &recording.header;
    let ops = &survey.ops;
    let wall = wall(recording);
    let paths: HashSet<_> = ops.iter().filter_map(|op| op.path_id).collect();
    let in_memory: HashSet<_> =
        paths.iter().filter(|path| header.is_answered_on_node(survey.path(**path))).collect();
    let cpu = recording
        .processes
        .iter()
        .filter_map(|process| process.end)
        .map(|end| end.usage.user.0 + end.usage.system.0)
        .sum();
    let count = |wanted: &dyn Fn(&survey::MetadataOp) -> bool| {
        ops.iter().filter(|op| wanted(op)).count() as u64
    };
    let processes = recording.processes.len() as u64;
    RunTotals {
        metadata_ops: survey.total(),
        enoent: count(&|op| op.is_enoent()),
        refused: count(&|op| !op.succeeded() && !op.is_enoent()),
        distinct: paths.len() as u64,
        in_memory: count(&|op| op.path_id.is_some_and(|path| in_memory.contains(&path))),
        processes,
        processes_per_second: match wall.seconds() {
            0.0 => 0.0,
            seconds => processes as f64 / seconds,
        },
        wall_ns: wall,
        cpu_us: Micros(cpu),
        status: recording.processes.first().and_then(|first| first.end).map(|end| end.status),
    }
}

/// How long the run took: to its end, or in a cut recording to the last thing seen.
fn wall(recording: &Recording) -> Nanos {
    let ended = recording.summary.as_ref().map(|summary| summary.ended);
    let ends = recording.processes.iter().filter_map(|process| process.end).map(|end| end.at);
    let calls = recording.events.iter().map(|event| event.start + event.took);
    ended.or_else(|| ends.chain(calls).max()).unwrap_or_default()
}

/// What a person would call the command.
fn program(recording: &Recording) -> String {
    match recording.processes.first().and_then(|process| process.execs.first()) {
        Some(exec) => who::name(recording, exec),
        None => {
            let first = recording.header.command().into_iter().next();
            first.map_or_else(|| "the command".to_owned(), |word| word.to_string())
        }
    }
}

/// The answer in one sentence.
fn headline(program: &str, totals: &RunTotals, is_calm: bool) -> String {
    let who = match totals.processes.saturating_sub(1) {
        0 => program.to_owned(),
        others => {
            let processes = counted(others, "process", "processes");
            format!("{program} and the {processes} it started")
        }
    };
    let calm = if is_calm { "No storm: " } else { "" };
    let to_start = if totals.processes > 1 { "" } else { " to start" };
    let made = operations(totals.metadata_ops);
    format!("{calm}{who} made {made}{to_start}; {} of these failed.", words::count(totals.enoent))
}
