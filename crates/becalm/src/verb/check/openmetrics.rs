//! `--openmetrics FILE`: a start in numbers, as OpenMetrics text for Prometheus, whose node exporter
//! reads it from its textfile collector's directory.
//!
//! OpenMetrics 1.0 (<https://prometheus.io/docs/specs/om/open_metrics_spec/>): a metric's name ends with
//! its unit, its lines stand together, and `# EOF` is the last. All are gauges, as each start is
//! counted anew; the text has no timestamps, which the collector refuses.

use std::fmt::Display;
use std::path::Path;

use explain::{CauseCount, Findings};
use recording::{Cause, Recording};

use super::budget::BudgetVerdict;
use super::view::CheckAnswer;
use crate::save::{self, OutputKind};

/// What is written.
pub const METRICS: OutputKind = OutputKind {
    what: "metrics",
    kind: "file of becalm's metrics",
    is_one: |start| start.starts_with(b"# TYPE becalm_"),
};

/// Writes the metrics of a start to a file, whole or not at all.
///
/// # Errors
/// Those of writing.
pub fn write(
    target: &Path,
    source: &Path,
    answer: &CheckAnswer,
    recording: &Recording,
) -> anyhow::Result<()> {
    METRICS.may_replace(target)?;
    let text = text(answer, recording);
    Ok(save::whole(target, source, |out| out.write_all(text.as_bytes()))?)
}

fn text(answer: &CheckAnswer, recording: &Recording) -> String {
    let findings = &answer.findings;
    let totals = &findings.totals;
    let mut metrics = Metrics { text: String::new(), program: escaped(&findings.program) };
    by_cause(&mut metrics, findings);
    metrics.one(
        "distinct_paths",
        "paths",
        "Distinct paths that metadata operations named.",
        totals.distinct,
    );
    metrics.one("processes", "processes", "Processes of the start.", totals.processes);
    let seconds = totals.wall_ns.0 as f64 / 1e9;
    metrics.one(
        "traced_seconds",
        "seconds",
        "From the start to the end of the recording, as traced.",
        seconds,
    );
    let seconds = totals.cpu_us.0 as f64 / 1e6;
    metrics.one(
        "cpu_seconds",
        "seconds",
        "CPU of all processes that ended, user and system.",
        seconds,
    );
    waits(&mut metrics, findings);
    let started = recording.header.started_unix;
    metrics.one(
        "recorded_timestamp_seconds",
        "seconds",
        "When it was recorded, since 1970.",
        started,
    );
    let failed = u8::from(totals.status.and_then(recording::ExitStatus::failure).is_some());
    metrics.one("command_failed", "", "Whether the command failed: 1, or else 0.", failed);
    let whole = u8::from(recording.is_whole());
    metrics.one("whole", "", "Whether all of the run was seen: 1, or else 0.", whole);
    if let Some(budget) = &answer.budget {
        let within = u8::from(budget.verdict == BudgetVerdict::Within);
        metrics.one(
            "within_budget",
            "",
            "Whether the start keeps within its budget: 1, or else 0.",
            within,
        );
    }
    metrics.text + "# EOF\n"
}

fn by_cause(metrics: &mut Metrics, findings: &Findings) {
    let in_storms = findings.storms.iter().flat_map(|storm| &storm.causes);
    let all: Vec<_> = in_storms.chain(findings.rest.iter().map(|part| &part.count)).collect();
    let mut metric = |name: &str, unit: &str, help: &str, of: &dyn Fn(&CauseCount) -> u64| {
        metrics.begin(name, unit, help);
        for cause in Cause::ALL {
            let own = all.iter().filter(|count| count.cause == cause);
            let label = format!(",cause=\"{}\"", escaped(cause.name()));
            metrics.sample(name, &label, own.map(|count| of(count)).sum::<u64>());
        }
    };
    let help = "Metadata operations, by cause.";
    metric("metadata_operations", "operations", help, &|count| count.metadata_ops);
    let help = "Metadata operations that ended with ENOENT or ENOTDIR, by cause.";
    metric("failed_lookups", "lookups", help, &|count| count.enoent);
}

fn waits(metrics: &mut Metrics, findings: &Findings) {
    let profile = escaped(&findings.model.profile);
    if let Some(wait) = findings.predicted_wait {
        let help = "What the start is predicted to wait for a shared filesystem.";
        metrics.begin("predicted_wait_seconds", "seconds", help);
        for (ranks, seconds) in [(1, wait.one_rank), (findings.model.ranks, wait.all_ranks)] {
            let labels = format!(",profile=\"{profile}\",ranks=\"{ranks}\"");
            metrics.sample("predicted_wait_seconds", &labels, seconds);
            if findings.model.ranks == 1 {
                break;
            }
        }
    }
    if !findings.storms.is_empty() {
        let help = "What known cures would take away of one rank's wait, by storm.";
        metrics.begin("avoidable_wait_seconds", "seconds", help);
        for storm in &findings.storms {
            let labels =
                format!(",profile=\"{profile}\",storm=\"{}\"", escaped(storm.storm.name()));
            metrics.sample("avoidable_wait_seconds", &labels, storm.avoidable_wait);
        }
    }
}

/// Text in the making; what its samples are of.
struct Metrics {
    text: String,
    program: String,
}

impl Metrics {
    /// A metric of one sample.
    fn one(&mut self, name: &str, unit: &str, help: &str, value: impl Display) {
        self.begin(name, unit, help);
        self.sample(name, "", value);
    }

    fn begin(&mut self, name: &str, unit: &str, help: &str) {
        self.text.push_str(&format!("# TYPE becalm_start_{name} gauge\n"));
        if !unit.is_empty() {
            self.text.push_str(&format!("# UNIT becalm_start_{name} {unit}\n"));
        }
        self.text.push_str(&format!("# HELP becalm_start_{name} {help}\n"));
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let program = &self.program;
        self.text
            .push_str(&format!("becalm_start_{name}{{program=\"{program}\"{labels}}} {value}\n"));
    }
}

/// A label's value: a backslash, a quote and the end of a line are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
