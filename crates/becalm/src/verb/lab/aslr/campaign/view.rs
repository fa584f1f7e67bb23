//! `becalm lab aslr campaign`: what it can show, before it is run; and what was run.

use std::path::Path;
use std::time::Duration;

use lab::aslr::campaign::{CampaignArm, CampaignOutcome, CampaignPlan, Expected};
use recording::{Nanos, shown_name};
use schemars::JsonSchema;
use serde::Serialize;

use term::number::{count, counted, time};
use term::{plain, quoted_path, style, width};

/// What `becalm lab aslr campaign` answers: as JSON, docs/schema/becalm.lab.aslr.campaign.md; as text,
/// [`AslrCampaign::before`] and [`AslrCampaign::after`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AslrCampaign {
    /// `becalm.lab.aslr.campaign/1`.
    schema: &'static str,
    /// What is run, in words.
    headline: String,
    /// Where its log is.
    directory: String,
    /// What ranks run; the built-in kernel is `kernel`.
    command: Vec<String>,
    /// What starts the ranks of a job; empty where a job is one process.
    launcher: Vec<String>,
    /// `on`, `off`, `job`.
    arms: Vec<CampaignArm>,
    /// How many ranks a job has.
    ranks: u32,
    /// What shuffles the blocks and draws the layouts.
    seed: Option<u64>,
    /// How many blocks earlier runs have done.
    blocks_before: u64,
    /// How many were run now; 0 with `--dry-run`.
    blocks: u64,
    /// How many the log has.
    processes: u64,
    /// How many ranks were slow in the blocks that were run now.
    slow: u64,
    /// How many jobs were run to test slow ranks again.
    retest_jobs: u64,
    /// How long all of it took.
    seconds: f64,
    /// What was told before it was run.
    expected: Expected,
    #[serde(skip)]
    is_done: bool,
    #[serde(skip)]
    next: String,
}

impl AslrCampaign {
    /// A campaign that is to be run.
    pub fn of(plan: &CampaignPlan, expected: Expected) -> AslrCampaign {
        AslrCampaign {
            schema: "becalm.lab.aslr.campaign/1",
            headline: headline(plan, &expected),
            directory: String::new(),
            command: plan.header.command.clone(),
            launcher: plan.launcher.clone(),
            arms: plan.arms.clone(),
            ranks: plan.ranks,
            seed: plan.header.seed,
            blocks_before: 0,
            blocks: 0,
            processes: 0,
            slow: 0,
            retest_jobs: 0,
            seconds: 0.0,
            expected,
            is_done: false,
            next: String::new(),
        }
    }

    /// Where it is, and how many blocks are done already.
    pub fn goes_on(&mut self, directory: &Path, blocks: u64) {
        self.directory = shown_name(directory);
        self.next = format!("becalm lab aslr analyze {}", quoted_path(directory));
        self.blocks_before = blocks;
    }

    /// What was run, in this time.
    pub fn ended(&mut self, done: CampaignOutcome, took: Duration) {
        self.blocks = done.blocks;
        self.slow = done.slow;
        self.retest_jobs = done.retests;
        self.seconds = took.as_secs_f64();
        let a_block = self.arms.len() as u64 * u64::from(self.ranks);
        self.processes = (self.blocks_before + self.blocks) * a_block;
        self.is_done = true;
    }

    /// What it can show, as a person reads it, at most `columns` columns wide.
    pub fn before(&self, columns: usize) -> String {
        let mut text = style::headline(&plain(&self.headline), columns);
        let paragraph = |words: String| width::wrap(&plain(&words), columns);
        let expected = &self.expected;
        if self.blocks_before > 0 {
            let blocks = counted(self.blocks_before, "block is", "blocks are");
            text += &paragraph(format!("{blocks} done already: it goes on."));
        }
        text += &paragraph(format!(
            "Something that slows one rank in {} of one arm, and none of another, is seen with a \
             chance of {}, and proven (Fisher's exact test, 5 %) with one of {}. {}",
            count((1.0 / expected.rate).round() as u64),
            chance(expected.seen),
            chance(expected.power),
            needed(expected)
        ));
        text += &paragraph(format!(
            "No slow rank among {} means: at most {} slow (95 %).",
            count(expected.ranks_per_arm),
            match expected.if_none {
                large if large > 0.1 => format!("{:.0} % are", large * 100.0),
                small => format!("one in {} is", count((1.0 / small) as u64)),
            }
        ));
        text
    }

    /// What was run, as a person reads it, at most `columns` columns wide.
    pub fn after(&self, columns: usize) -> String {
        if !self.is_done {
            return String::new();
        }
        let mut words = format!(
            "{} run in {}, {} logged in {}",
            counted(self.blocks, "block", "blocks"),
            long_time(self.seconds),
            counted(self.processes, "process", "processes"),
            self.directory
        );
        words += &match (self.slow, self.retest_jobs) {
            (0, _) => ".".to_owned(),
            (slow, 0) => format!("; {} slow.", counted(slow, "rank was", "ranks were")),
            (slow, jobs) => format!(
                "; {} slow, and their jobs were run again {}.",
                counted(slow, "rank was", "ranks were"),
                counted(jobs, "time", "times")
            ),
        };
        format!("\n{}{}", width::wrap(&plain(&words), columns), style::next(&self.next))
    }
}

fn headline(plan: &CampaignPlan, expected: &Expected) -> String {
    let arms: Vec<_> = plan.arms.iter().map(|arm| arm.name()).collect();
    format!(
        "{} of {}, {}; {} to be run, in about {}.",
        counted(expected.ranks_per_arm, "rank", "ranks"),
        match arms.as_slice() {
            [one] => format!("the arm {one}"),
            arms => format!("each arm ({})", arms.join(", ")),
        },
        match plan.ranks {
            1 => "one a job".to_owned(),
            ranks => format!("{} a job", count(ranks.into())),
        },
        counted(expected.jobs, "job", "jobs"),
        long_time(expected.seconds)
    )
}

/// What a conclusion takes.
fn needed(expected: &Expected) -> String {
    match (expected.for_80_percent, expected.for_95_percent) {
        (Some(fewer), Some(more)) => format!(
            "{} ranks an arm prove it with a chance of 80 %, {} with one of 95 %.",
            count(fewer),
            count(more)
        ),
        _ => "No number of ranks proves it.".to_owned(),
    }
}

/// A chance, never rounded to what it is not.
fn chance(chance: f64) -> String {
    match chance * 100.0 {
        low if low < 0.1 => "less than 0.1 %".to_owned(),
        high if high > 99.9 => "more than 99.9 %".to_owned(),
        middle => format!("{middle:.1} %"),
    }
}

/// A time in seconds: campaigns may take days.
fn long_time(seconds: f64) -> String {
    match seconds / 3600.0 {
        hours if hours >= 48.0 => format!("{:.1} days", hours / 24.0),
        hours if hours >= 2.0 => format!("{hours:.1} h"),
        _ => time(Nanos((seconds.max(0.0) * 1e9) as u64)),
    }
}
