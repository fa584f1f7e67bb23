//! One start, as all views show it.

use cost::{PredictedWait, RecordedStart};
use explain::{ExplainOptions, Finding, Findings, RunTotals};
use recording::Recording;
use serde::Serialize;

use crate::call_use::{self, CallUse};
use crate::count_tree::{TreeRows, rounded};
use crate::directories::DirectoryCounts;
use crate::libraries::LibraryCounts;
use crate::modules::ModuleCounts;
use crate::pictured_cause::{COUNT, FAULTS};
use crate::returned_memory::give_back;
use crate::timeline::{Timeline, TimelineCounts};
use crate::waits::{self, PicturedWait};

/// Sources of a storm that are named.
const SOURCES: usize = 5;

/// One start.
#[derive(Debug, Serialize)]
pub struct PicturedStart {
    /// Which it is, in a word or two.
    label: String,
    program: String,
    command: String,
    host: String,
    kernel: String,
    started_unix: u64,
    /// `SLOW START`…
    verdict: &'static str,
    headline: String,
    warnings: Vec<String>,
    totals: RunTotals,
    predicted_wait: Option<PredictedWait>,
    profile: String,
    ranks: u64,
    nodes: u64,
    assumptions: Vec<String>,
    threshold: String,
    storms: Vec<PicturedStorm>,
    /// What can be done.
    pub cures: Vec<PicturedCure>,
    /// Metadata operations, failed lookups and wait by cause.
    causes: Vec<CallUse>,
    timeline: Timeline,
    directories: TreeRows,
    libraries: TreeRows,
    modules: TreeRows,
    /// Of several filesystems, the chosen one first; empty where the wait is not known.
    waits: Vec<PicturedWait>,
}

/// What can be done.
#[derive(Clone, Debug, Serialize)]
pub struct PicturedCure {
    /// In words.
    pub text: String,
    /// The command to paste.
    pub command: Option<String>,
    /// What it gains, in words; empty where that is not said.
    pub gain: String,
}

#[derive(Debug, Serialize)]
struct PicturedStorm {
    name: &'static str,
    title: String,
    cause: String,
    ops: u64,
    failed: u64,
    one_rank: f64,
    all_ranks: f64,
    sources: Vec<String>,
}

impl PicturedStorm {
    fn of(storm: &Finding) -> PicturedStorm {
        let sources = storm.sources.iter().take(SOURCES);
        PicturedStorm {
            name: storm.storm.name(),
            title: storm.title.clone(),
            cause: storm.cause.clone(),
            ops: storm.metadata_ops,
            failed: storm.enoent,
            one_rank: storm.predicted_wait.one_rank,
            all_ranks: storm.predicted_wait.all_ranks,
            sources: sources.map(|source| source.sentence(storm.metadata_ops)).collect(),
        }
    }
}

impl PicturedStart {
    /// The program that was started.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// A start that is called `label`, of what was found in its recording.
    pub fn of(
        label: &str,
        recording: &Recording,
        findings: Findings,
        options: &ExplainOptions,
    ) -> PicturedStart {
        // One after the other: each goes through all calls with memory of its own.
        give_back();
        let waits = match findings.predicted_wait {
            Some(_) => waits::of(recording, options),
            None => Vec::new(),
        };
        give_back();
        let views = Views::of(recording, options);
        PicturedStart {
            label: label.to_owned(),
            program: findings.program,
            command: term::shell_line(&findings.command),
            host: recording.header.host.clone(),
            kernel: recording.header.kernel.clone(),
            started_unix: recording.header.started_unix,
            verdict: findings.verdict.name(),
            headline: findings.headline,
            warnings: findings.warnings.into_iter().map(|warning| warning.text).collect(),
            totals: findings.totals,
            predicted_wait: findings.predicted_wait,
            profile: findings.model.profile,
            ranks: findings.model.ranks,
            nodes: findings.model.nodes,
            assumptions: findings.model.assumptions,
            threshold: findings.threshold.words,
            storms: findings.storms.iter().map(PicturedStorm::of).collect(),
            cures: Vec::new(),
            causes: views.causes.to_vec(),
            timeline: views.timeline,
            directories: views.directories,
            libraries: views.libraries,
            modules: views.modules,
            waits,
        }
    }
}

/// What is counted in one pass over the calls.
struct Views {
    causes: [CallUse; COUNT],
    timeline: Timeline,
    directories: TreeRows,
    libraries: TreeRows,
    modules: TreeRows,
}

impl Views {
    fn of(recording: &Recording, options: &ExplainOptions) -> Views {
        let start = RecordedStart::of(recording, &options.below, None);
        let prediction = options.model.predict(&start);
        drop(start);
        give_back();
        let mut causes = [CallUse::default(); COUNT];
        causes[FAULTS].wait = prediction.of_faults().one_rank;
        let mut timeline = TimelineCounts::new(recording);
        let mut directories = DirectoryCounts::new(recording);
        let mut libraries = LibraryCounts::new(recording);
        let mut modules = ModuleCounts::new(recording);
        call_use::each(recording, &prediction, |number, event, cause, uses| {
            causes[cause] += uses;
            timeline.count(event, cause, uses);
            directories.count(event, cause, uses);
            libraries.count(number, cause, uses);
            modules.count(number, cause, uses);
        });
        causes.iter_mut().for_each(|uses| uses.wait = rounded(uses.wait));
        Views {
            causes,
            timeline: timeline.timeline(recording),
            directories: directories.rows(),
            libraries: libraries.rows(recording),
            modules: modules.rows(),
        }
    }
}
