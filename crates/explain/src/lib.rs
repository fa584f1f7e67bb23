#![doc = include_str!("../README.md")]
//!
//! | file | what it holds |
//! |---|---|
//! | `findings` | the answer, as data |
//! | `source_path` | a path that a source names |
//! | `survey` | the recording's metadata operations with their causes, and who owns them |
//! | `storm/` | one storm a file: what it claims, what its sources are |
//! | `library/` | how the dynamic loader searched, for the two storms that are its |
//! | `search/` | how programs searched other lists of directories |
//! | `threshold` | from when on it is a storm |
//! | `verdict` | slow, calm, or which of the two is not known |
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
mod search;
mod source_path;
mod storm;
mod survey;
mod tally;
mod threshold;
mod verdict;
mod warnings;
mod who;
mod words;

use std::collections::HashSet;
use std::path::PathBuf;

use ::cost::{CostModel, Prediction};
use recording::{ByteUnits, Micros, Name, Nanos, Recording};

pub use findings::{
    CauseCount, CauseWait, Finding, Findings, OtherWait, RunTotals, RunWarning, Threshold,
    WaitModel,
};
pub use search::{
    ListEntry, ListName, ListSearches, NameSearch, OrderChange, declared_entries, stem,
};
pub use source_path::SourcePath;
pub use storm::{
    AllLists, CallerLine, ConfigurationSource, DataSource, FilesSource, ForkSource, FoundList,
    ImportsAround, LoaderSource, LocaleSource, ModuleTool, ModulesSource, OneList, PathSource,
    PythonSource, RepeatReason, RepeatSource, SearchListSource, Storm, StormSource, SubcommandOps,
    WalkSource,
};
pub use threshold::STARTS;
pub use verdict::StartVerdict;
pub use warnings::{WarningKind, said, warnings, warnings_of_run, watched_until};
pub use words::listed;

use cost::RunWait;
use storm::DetectedStorm;
use survey::{CleanPaths, OpId, OpSurvey};
use words::{counted, operations};

/// What the reader of the findings wants to know beside them.
#[derive(Clone, Debug)]
pub struct ExplainOptions {
    /// The shared filesystem, and how many ranks start on it.
    pub model: CostModel,
    /// Others that the wait is to be told of, too.
    pub other_models: Vec<CostModel>,
    /// What is on it; empty: as [`cost::SharedChoice`] says.
    pub below: Vec<PathBuf>,
    /// The recording's file as a shell takes it, for commands to paste.
    pub recording: String,
    /// Processes that the command left running, where the recording was read before they ended:
    /// it is then not cut, but not at its end either.
    pub still_running: u64,
}

impl Default for ExplainOptions {
    fn default() -> ExplainOptions {
        ExplainOptions {
            model: CostModel::default(),
            other_models: Vec::new(),
            below: Vec::new(),
            recording: "REC".to_owned(),
            still_running: 0,
        }
    }
}

/// What was found, and what each call has to do with it.
#[derive(Clone, Debug)]
pub struct ExplainedCalls {
    /// What was found.
    pub findings: Findings,
    /// Of each storm of the findings, the metadata operations that it claims, by their numbers in
    /// [`Recording::events`]; page faults are no calls.
    pub claims: Vec<Vec<u32>>,
    /// What each call has of the predicted wait.
    pub prediction: Prediction,
}

/// Explains a recording.
pub fn explain(recording: &Recording, options: &ExplainOptions) -> Findings {
    explained(recording, options, false).findings
}

/// Explains a recording, and says which calls are behind what was found.
pub fn explain_calls(recording: &Recording, options: &ExplainOptions) -> ExplainedCalls {
    explained(recording, options, true)
}

/// The calls are collected where they are wanted: of a million, they take much.
fn explained(recording: &Recording, options: &ExplainOptions, calls: bool) -> ExplainedCalls {
    // First, as it takes much that is let go of.
    let wait = RunWait::of(recording, options);
    let paths = CleanPaths::of(recording);
    let mut survey = OpSurvey::new(recording, &paths);
    let mut storms = Vec::new();
    for detect in storm::DETECTORS {
        let Some(case) = detect(&survey) else { continue };
        let (finding, claim) = finding(&survey, case, &wait, options);
        // Execs take time even where they wait for nothing.
        let is_storm = finding.storm == Storm::Fork
            || threshold::is_storm(finding.avoidable_wait, wait.whole().one_rank);
        if is_storm {
            survey.claim(&claim);
            let events = survey.events_of(&claim).map(|event| event as u32);
            let events = if calls { events.collect() } else { Vec::new() };
            storms.push((finding, events));
        }
    }
    storms.extend(faults(&survey, &wait, options).map(|faults| (faults, Vec::new())));
    storms.sort_by(|(one, _), (other, _)| by_wait(one, other));
    let (storms, claims): (Vec<Finding>, _) = storms.into_iter().unzip();
    let rest = causes(&survey, &wait);
    let totals = totals(&survey);
    let program = program(recording);
    let is_own = |op: &survey::MetadataOp| op.exec.is_some_and(recording::Exec::is_becalm_run);
    let own = survey.numbered().filter(|(_, op)| is_own(op)).map(|(id, _)| id);
    let own_wait = wait.part(own.map(|id| survey.event_of(id))).one_rank;
    // What is behind the cut may be a storm.
    let is_cut = recording.cut.is_some() && options.still_running == 0;
    let verdict = match StartVerdict::of(&storms, &totals, wait.told(), own_wait) {
        StartVerdict::Calm | StartVerdict::NoStorm if is_cut => StartVerdict::NotKnown,
        verdict => verdict,
    };
    let findings = Findings {
        verdict,
        headline: headline(&program, &totals, &wait, verdict, &rest),
        left_out: wait.left_out.as_ref().map(|left| Name::of(&left.directory)),
        evidence: format!("becalm report {} --by prefix", options.recording),
        command: recording.header.command(),
        program,
        rest,
        predicted_wait: wait.told(),
        own_wait,
        other_waits: if wait.refused.is_none() { wait.other_waits() } else { Vec::new() },
        page_faults: match storms.iter().any(|storm| storm.storm == Storm::Data) {
            true => Vec::new(),
            false => wait.page_faults(),
        },
        storms,
        threshold: threshold::threshold(&wait.model.profile),
        warnings: warnings::of_run(recording, &wait, options.still_running),
        model: wait.model,
        totals,
    };
    ExplainedCalls { findings, claims, prediction: wait.prediction }
}

/// A case with all its numbers, and the operations that it claims.
fn finding(
    survey: &OpSurvey,
    case: DetectedStorm,
    wait: &RunWait,
    options: &ExplainOptions,
) -> (Finding, Vec<OpId>) {
    let claim = &case.claim;
    let predicted_wait = wait.part(survey.events_of(claim));
    let other_waits = wait.other_waits_of(survey, claim);
    let each = || claim.iter().map(|id| survey.op(*id));
    let metadata_ops = claim.len() as u64;
    let finding = Finding {
        storm: case.storm,
        title: case.title,
        cause: case.cause,
        observed: case.observed,
        metadata_ops,
        enoent: survey.enoent(claim),
        distinct: survey.distinct(claim),
        avoidable: case.avoidable,
        inferred: case
            .inferred
            .unwrap_or_else(|| each().filter(|op| op.why.inferred).count() as u64),
        share: metadata_ops as f64 / survey.total().max(1) as f64,
        time_ns: case.time.unwrap_or_else(|| each().map(|op| op.event.took).sum()),
        causes: survey.causes(claim.iter().copied()),
        sources: case.sources,
        avoidable_wait: predicted_wait.one_rank * case.avoidable as f64
            / metadata_ops.max(1) as f64,
        predicted_wait,
        other_waits,
        evidence: format!("becalm report {} --by {}", options.recording, case.evidence),
    };
    (finding, case.claim)
}

/// What page faults fetch, if that is a storm.
fn faults(survey: &OpSurvey, wait: &RunWait, options: &ExplainOptions) -> Option<Finding> {
    let faults = wait.faults.as_ref()?;
    let case = storm::data::detect(survey, faults)?;
    let finding = Finding {
        predicted_wait: faults.wait,
        other_waits: faults.others.clone(),
        avoidable_wait: faults.avoidable,
        ..finding(survey, case, wait, options).0
    };
    let all = wait.whole().one_rank;
    threshold::is_storm_of_data(finding.avoidable_wait, all).then_some(finding)
}

/// The longest wait of all ranks first; where nobody waits, most operations.
fn by_wait(one: &Finding, other: &Finding) -> std::cmp::Ordering {
    let wait = |storm: &Finding| storm.predicted_wait.all_ranks;
    wait(other).total_cmp(&wait(one)).then(other.metadata_ops.cmp(&one.metadata_ops))
}

/// What belongs to no storm by cause, the longest wait first.
fn causes(survey: &OpSurvey, wait: &RunWait) -> Vec<CauseWait> {
    let free: Vec<_> = survey.free().map(|(id, op)| (id, op.why.cause)).collect();
    let counts = survey.causes(free.iter().map(|(id, _)| *id)).into_iter();
    let waited = |count: CauseCount| {
        let own = free.iter().filter(|(_, cause)| *cause == count.cause).map(|(id, _)| *id);
        let own = own.map(|id| survey.event_of(id));
        CauseWait { count, predicted_wait: wait.part(own).one_rank }
    };
    let mut causes: Vec<_> = counts.map(waited).collect();
    causes.sort_by(|one, other| other.predicted_wait.total_cmp(&one.predicted_wait));
    causes
}

fn totals(survey: &OpSurvey) -> RunTotals {
    let recording = survey.recording;
    let wall = wall(recording);
    let paths: HashSet<_> = survey.ops().filter_map(|op| op.path_id).collect();
    let cpu = recording
        .processes
        .iter()
        .filter_map(|process| process.end)
        .map(|end| end.usage.user.0 + end.usage.system.0)
        .sum();
    let count =
        |wanted: &dyn Fn(&survey::MetadataOp) -> bool| survey.ops().filter(wanted).count() as u64;
    let processes = recording.processes.len() as u64;
    RunTotals {
        metadata_ops: survey.total(),
        enoent: count(&|op| op.is_enoent()),
        refused: count(&|op| !op.succeeded() && !op.is_enoent()),
        distinct: paths.len() as u64,
        in_memory: count(&|op| {
            op.path_id.is_some() && recording.is_answered_on_node(op.event, op.path)
        }),
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
    match recording.command_program() {
        Some(exec) => who::name(recording, exec),
        None => {
            let first = recording.header.command().into_iter().next();
            first.map_or_else(|| "the command".to_owned(), |word| word.to_string())
        }
    }
}

/// What was counted, in one sentence; where no storm explains the wait, what does; `rest` is what
/// there is by cause.
fn headline(
    program: &str,
    totals: &RunTotals,
    wait: &RunWait,
    verdict: StartVerdict,
    rest: &[CauseWait],
) -> String {
    let who = match totals.processes.saturating_sub(1) {
        0 => program.to_owned(),
        others => {
            let processes = counted(others, "process", "processes");
            format!("{program} and the {processes} it forked")
        }
    };
    let made = format!(
        "{who}: {}, {} (ENOENT)",
        operations(totals.metadata_ops),
        counted(totals.enoent, "failed lookup", "failed lookups"),
    );
    let Some(told) = wait.told() else { return made };
    let is_of_data = wait.data * 2.0 > told.one_rank;
    let is_told = match verdict {
        StartVerdict::NoStorm => true,
        StartVerdict::Calm => is_of_data && threshold::is_felt(told.one_rank),
        _ => false,
    };
    if !is_told {
        return made;
    }
    let waits = format!(
        "{made}. One rank waits {} on {}",
        words::seconds(told.one_rank),
        wait.model.profile
    );
    match is_of_data {
        true => format!(
            "{waits}, {} of it for {}{} of data that is read.",
            words::seconds(wait.data),
            if wait.model.data_reads == ::cost::ReadsKnown::Bounded { "about " } else { "" },
            term::number::bytes(ByteUnits(told.bytes_read)),
        ),
        false => {
            format!("{waits}, and no single storm explains it: most is for {}.", contributors(rest),)
        }
    }
}

/// The causes that a start waits longest for: three, or fewer where the others are small.
fn contributors(rest: &[CauseWait]) -> String {
    const NAMED: usize = 3;
    let all: f64 = rest.iter().map(|part| part.predicted_wait).sum();
    let named = rest.iter().take(NAMED).filter(|part| part.predicted_wait * 20.0 >= all);
    let named = named.map(|part| {
        format!("{} ({})", part.count.cause.name(), words::seconds(part.predicted_wait))
    });
    named.collect::<Vec<_>>().join(", ")
}
