//! Budgets: whether a start keeps within what was said, or what it was before.

mod annotations;
mod answer;
mod baseline;
mod counts;
mod growth;
mod junit;
mod limit;
mod render;
mod steady_wait;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use explain::{ExplainOptions, Findings};
use recording::Recording;

use crate::exit::{Failure, OVER_BUDGET};
use crate::pictured;
use crate::save::{self, OutputKind};
pub use answer::{BudgetAnswer, BudgetVerdict};
use baseline::Baseline;
pub use counts::StartCounts;
use limit::Limit;

/// What a start is held against.
#[derive(clap::Args)]
pub struct BudgetOptions {
    /// End with status 3 if the start has more than this: ops, failed, distinct, processes, wait
    /// (predicted, of one rank for metadata); of a cause: loader.ops, python.failed… Several at
    /// once: ops=500,failed=0,wait=1s
    #[arg(long, value_name = "LIMITS", value_delimiter = ',', conflicts_with = "rehearse")]
    budget: Vec<Limit>,

    /// End with status 3 if the start has more operations, failed lookups, paths or processes than
    /// this one had: what --json=FILE wrote, or a recording, which says more of what grew
    #[arg(long, value_name = "FILE", conflicts_with = "rehearse")]
    baseline: Option<PathBuf>,

    /// How much more than the baseline is no growth
    #[arg(long, value_name = "PERCENT", requires = "baseline", default_value = "0%",
          value_parser = limit::percent)]
    tolerance: f64,

    /// Write what was held against the budget as JUnit XML, too
    #[arg(long, value_name = "FILE", value_parser = pictured::file())]
    junit: Option<PathBuf>,

    /// Print a GitHub annotation for each limit that is not kept
    #[arg(long)]
    github: bool,
}

const JUNIT: OutputKind = OutputKind {
    what: "JUnit report",
    kind: "XML file",
    is_one: |start| start.starts_with(b"<?xml"),
};

impl BudgetOptions {
    /// Reads, before the command runs, what its start is to be held against; none where nothing was
    /// asked for.
    ///
    /// # Errors
    /// Wrong usage; the baseline cannot be read, or is of another program; the file cannot be
    /// written.
    pub fn begin(
        &self,
        command: &[std::ffi::OsString],
        outputs: [Option<&Path>; 2],
    ) -> Result<Option<StartBudget<'_>>, Failure> {
        if self.budget.is_empty() && self.baseline.is_none() {
            return match self.junit.is_some() || self.github {
                true => Err(Failure::of_usage(anyhow!(
                    "--junit and --github need --budget or --baseline: there is nothing to tell"
                ))),
                false => Ok(None),
            };
        }
        let baseline = self.baseline.as_deref().map(Baseline::read).transpose();
        let baseline = baseline.map_err(Failure::of_command)?;
        if let Some(before) = &baseline {
            before.must_be_of(command).map_err(Failure::of_command)?;
        }
        let is_it = |output: &Path| {
            let file = self.baseline.as_deref()?.canonicalize().ok()?;
            (output.canonicalize().ok()? == file).then_some(())
        };
        if let Some(output) = outputs.into_iter().flatten().find(|output| is_it(output).is_some()) {
            let output = term::plain(&output.to_string_lossy());
            let why =
                anyhow!("{output}: it is the baseline, and would be replaced; choose another name");
            return Err(Failure::of_command(why));
        }
        if let Some(target) = &self.junit {
            JUNIT.check(target).map_err(Failure::of_command)?;
        }
        Ok(Some(StartBudget { options: self, baseline }))
    }
}

/// What a start is held against.
pub struct StartBudget<'a> {
    options: &'a BudgetOptions,
    baseline: Option<Baseline>,
}

impl StartBudget<'_> {
    /// Holds a start against it.
    pub fn judge(
        &self,
        recording: &Recording,
        findings: &Findings,
        how: &ExplainOptions,
    ) -> BudgetAnswer {
        let start = answer::JudgedStart::of(recording, findings, how);
        start.judge(&self.options.budget, self.baseline.as_ref(), self.options.tolerance)
    }

    /// Tells the tools that were named. The command has ended, and its status is passed: where the
    /// file cannot be written, that is said in a line.
    pub fn tell(&self, answer: &BudgetAnswer, findings: &Findings) {
        if self.options.github {
            term::print_beside(&annotations::of(answer, findings));
        }
        let Some(target) = &self.options.junit else { return };
        let source = self.options.baseline.as_deref().unwrap_or(Path::new(""));
        let text = junit::of(answer, findings);
        let written = JUNIT
            .may_replace(target)
            .and_then(|()| Ok(save::whole(target, source, |out| out.write_all(text.as_bytes()))?));
        if let Err(error) = written {
            term::warn(&format!("{error:#}"));
        }
    }
}

/// The status of a verb whose command ended with this one: a command that fails has its own.
pub fn status(command: u8, answer: Option<&BudgetAnswer>) -> u8 {
    match answer {
        Some(answer) if command == 0 && answer.verdict != BudgetVerdict::Within => OVER_BUDGET,
        _ => command,
    }
}
