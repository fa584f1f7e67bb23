//! Whether a start keeps within its budget.

use explain::{ExplainOptions, Findings};
use recording::{Blind, Name, Recording};
use schemars::JsonSchema;
use serde::Serialize;

use super::baseline::Baseline;
use super::counts::{CountRow, CountedKind, StartCounts};
use super::growth::Growth;
use super::limit::{Amount, Limit, Limited, Measure};
use super::steady_wait::steady_wait;

/// Rows of each kind that are told of a start that has too much.
const MOST_ROWS: usize = 5;

/// Whether a start keeps within what it is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetVerdict {
    /// It does.
    Within,
    /// Not all of it was seen, so nobody knows.
    NotKnown,
    /// It has more.
    Over,
}

impl BudgetVerdict {
    /// As a person reads it.
    pub fn name(self) -> &'static str {
        match self {
            BudgetVerdict::Within => "WITHIN BUDGET",
            BudgetVerdict::NotKnown => "NOT KNOWN",
            BudgetVerdict::Over => "OVER BUDGET",
        }
    }
}

/// How a start stands to its budget.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BudgetAnswer {
    /// The answer in a word: the worst of the limits.
    pub verdict: BudgetVerdict,
    /// Each limit.
    pub limits: Vec<JudgedLimit>,
    /// What it was compared with; none where nothing was.
    pub baseline: Option<ComparedWith>,
    /// What grew since then; empty where nothing did, or nothing was compared.
    pub grown: Growth,
    /// Where most of it is, where there is too much: by cause and by directory.
    pub largest: Vec<CountRow>,
    /// What must be known, in a sentence each.
    pub notes: Vec<String>,
}

/// One limit, and what there is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JudgedLimit {
    /// What is limited.
    #[schemars(with = "String")]
    pub limit: Limited,
    /// By what: `budget` or `baseline`.
    pub by: &'static str,
    /// How much there was before, of a baseline.
    pub before: Option<Amount>,
    /// The most that there may be.
    pub most: Amount,
    /// What there is; none where the recording does not tell.
    pub found: Option<Amount>,
    /// Whether that is within.
    pub verdict: BudgetVerdict,
}

/// What a start was compared with.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedWith {
    /// Its file.
    pub file: Name,
    /// How much more is no growth, in percent.
    pub tolerance_percent: f64,
    /// The command that it is of.
    pub command: Vec<Name>,
    /// The machine that it is of.
    pub host: String,
    /// That machine's kernel.
    pub kernel: String,
}

/// A start that is held against a budget.
pub struct JudgedStart<'a> {
    recording: &'a Recording,
    findings: &'a Findings,
    how: &'a ExplainOptions,
    counts: StartCounts,
}

impl<'a> JudgedStart<'a> {
    /// Counts it.
    pub fn of(
        recording: &'a Recording,
        findings: &'a Findings,
        how: &'a ExplainOptions,
    ) -> JudgedStart<'a> {
        JudgedStart { recording, findings, how, counts: StartCounts::of(recording) }
    }

    /// Holds it against limits, and against a start of before.
    pub fn judge(
        &self,
        limits: &[Limit],
        baseline: Option<&Baseline>,
        tolerance: f64,
    ) -> BudgetAnswer {
        let unseen = self.unseen(baseline);
        let given = limits.iter().map(|limit| (limit.of, "budget", None, limit.most));
        let since = baseline.into_iter().flat_map(|before| since(before, tolerance));
        let judged = given.chain(since).map(|(limit, by, before, most)| {
            let found = self.found(limit);
            let verdict = match found {
                Some(found) if found > most => BudgetVerdict::Over,
                Some(_) if unseen.is_none() => BudgetVerdict::Within,
                _ => BudgetVerdict::NotKnown,
            };
            JudgedLimit { limit, by, before, most, found, verdict }
        });
        let limits: Vec<_> = judged.collect();
        let verdict = limits.iter().map(|limit| limit.verdict).max();
        let verdict = verdict.unwrap_or(BudgetVerdict::Within);
        let is_over = verdict == BudgetVerdict::Over;
        let mut notes: Vec<_> = unseen.into_iter().collect();
        notes.extend(self.timed());
        notes.extend(baseline.into_iter().flat_map(|before| self.differences(before, is_over)));
        let grown = baseline.filter(|_| verdict != BudgetVerdict::Within);
        BudgetAnswer {
            verdict,
            limits,
            baseline: baseline.map(|before| ComparedWith {
                file: Name::of(&before.file),
                tolerance_percent: tolerance,
                command: before.command.clone(),
                host: before.host.clone(),
                kernel: before.kernel.clone(),
            }),
            grown: grown
                .map(|before| Growth::of(before, &self.counts, self.recording))
                .unwrap_or_default(),
            largest: if is_over { self.largest() } else { Vec::new() },
            notes,
        }
    }

    fn found(&self, of: Limited) -> Option<Amount> {
        let (ops, failed) = match of.cause {
            Some(cause) => self.counts.of_cause(cause),
            None => self.counts.of_all(),
        };
        let count = match of.measure {
            Measure::Ops => ops,
            Measure::Failed => failed,
            Measure::Distinct => self.counts.distinct,
            Measure::Processes => self.findings.totals.processes,
            Measure::Wait => return steady_wait(self.recording, self.how).map(Amount::Seconds),
        };
        Some(Amount::Count(count))
    }

    /// Why nobody knows whether there is more, where that is so.
    fn unseen(&self, baseline: Option<&Baseline>) -> Option<String> {
        let recording = self.recording;
        if recording.cut.is_some() && self.how.still_running == 0 {
            return Some("the recording is cut: there is more than was counted".to_owned());
        }
        if recording.blinds.iter().any(Blind::hides_calls) {
            return Some("not every call was seen: there may be more than was counted".to_owned());
        }
        let until = &baseline?.counts.until;
        (*until != self.counts.until).then(|| {
            let words = |until: &str| match until {
                "end" => "to its end".to_owned(),
                other => format!("until {}", term::plain(other)),
            };
            let (before, now) = (words(until), words(&self.counts.until));
            format!("the baseline was watched {before} and this start {now}: --until says the same of both")
        })
    }

    /// What was counted up to a moment that is another the next time.
    fn timed(&self) -> Option<String> {
        if self.how.still_running > 0 {
            return Some(
                "processes of the command still run: they were counted until it ended".into(),
            );
        }
        let is_timed = matches!(self.counts.until.as_str(), "quiet" | "passed" | "asked");
        is_timed.then(|| {
            "a time ended the watching, so counts may differ: --until exit, exec:NAME or open:GLOB is \
             the same each time"
                .to_owned()
        })
    }

    /// What is another than in the baseline.
    fn differences(&self, before: &Baseline, is_over: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(failed) = &before.failed {
            notes.push(format!("the baseline's command {failed}: make it anew of one that works"));
        }
        let header = &self.recording.header;
        let arguments = |command: &[Name]| command.iter().skip(1).cloned().collect::<Vec<_>>();
        if arguments(&before.command) != arguments(&header.command()) {
            let line = term::shell_line(&before.command);
            notes.push(format!("the baseline is of other arguments: {line}"));
        }
        if is_over && (&before.host, &before.kernel) != (&header.host, &header.kernel) {
            notes.push(format!(
                "the baseline is of another machine ({}, {}): its processor, libraries or settings may \
                 be why",
                term::plain(&before.host),
                term::plain(&before.kernel)
            ));
        }
        if is_over && !before.has_paths() {
            notes.push(
                "a recording as the baseline (becalm check -o FILE) names the paths that are new, too"
                    .to_owned(),
            );
        }
        notes
    }

    /// Where most is: causes, and directories.
    fn largest(&self) -> Vec<CountRow> {
        let of = |what: CountedKind| {
            let rows = self.counts.rows.iter().filter(move |row| row.of.what == what);
            rows.take(MOST_ROWS).cloned()
        };
        of(CountedKind::Cause).chain(of(CountedKind::Directory)).collect()
    }
}

/// What a start of before limits.
fn since(
    before: &Baseline,
    tolerance: f64,
) -> impl Iterator<Item = (Limited, &'static str, Option<Amount>, Amount)> {
    let (ops, failed) = before.counts.of_all();
    let counts = [
        (Measure::Ops, ops),
        (Measure::Failed, failed),
        (Measure::Distinct, before.counts.distinct),
        (Measure::Processes, before.processes),
    ];
    counts.into_iter().map(move |(measure, count)| {
        let most = count.saturating_add((count as f64 * tolerance / 100.0) as u64);
        (Limited::whole(measure), "baseline", Some(Amount::Count(count)), Amount::Count(most))
    })
}
