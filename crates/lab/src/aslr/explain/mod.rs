//! Why a layout is slow: the layout again, with each of its regions moved alone.
//!
//! Libraries lie next to each other, so that one cannot move by a few pages without lying on
//! another. For the trials they are therefore spread: each has room of its own, and keeps the lower
//! 32 bits of its address, which is all that caches, branch predictors and the comparison of loads
//! with stores look at. Whether the layout is slow in that form, too, is tried first.
//!
//! | file | what it holds |
//! |---|---|
//! | `trial` | the ways to lie, tried by turns, and what they show |
//! | `region` | what of a layout can be moved alone, and where it lies then |
//! | `observed` | runs in both layouts that are counted and looked at |
//! | `counter` | what the processor and the kernel count |
//! | `colour` | which part of the second-level cache a process's pages share |

pub mod colour;
pub mod counter;
#[cfg(target_arch = "x86_64")]
mod observed;
#[cfg(target_arch = "x86_64")]
mod region;
#[cfg(target_arch = "x86_64")]
mod trial;

use launch::layout::LayoutOffset;
use launch::{Command, Ended};
use schemars::JsonSchema;
use serde::Serialize;

use super::campaign::TimedBy;
use counter::CounterEvent;

/// What is to be explained.
#[derive(Clone, Debug)]
pub struct ExplainOptions {
    /// The layout that is slow.
    pub slow: LayoutOffset,
    /// The one that it is compared with.
    pub reference: LayoutOffset,
    /// Slow is what takes longer than the reference by this share.
    pub threshold: f64,
    /// How often each trial is made.
    pub rounds: usize,
    /// What shuffles.
    pub seed: u64,
    /// Which time counts.
    pub by: TimedBy,
    /// What is counted.
    pub events: Vec<CounterEvent>,
}

/// What trials have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LayoutCause {
    /// The layout is not slow.
    NotSlow,
    /// It is, but not with its regions further from each other: their distance is the cause, or a
    /// bit of an address above the 32nd.
    Distance,
    /// One region, moved alone, makes it slow.
    Alone,
    /// Several do together, and none alone.
    Together,
    /// No region can be named.
    Unclear,
}

/// What was found. A ratio is of the quickest of a trial's times, to the quickest of the reference's.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LayoutTrials {
    /// The layout, as `becalm run --aslr` takes it.
    pub layout: String,
    /// What it is compared with.
    pub reference: String,
    /// What trials have shown.
    pub cause: LayoutCause,
    /// Slow is what takes longer by this share.
    pub threshold: f64,
    /// How often the command was timed.
    pub runs: u64,
    /// The reference's quickest time, in seconds, from the program's first instruction.
    pub reference_time: f64,
    /// The ratio of the layout as it is.
    pub times_reference: f64,
    /// The ratio of the layout with its regions spread, to the reference with its regions spread;
    /// null where the layout is not slow.
    pub spread_times_reference: Option<f64>,
    /// What can be moved alone; nothing where that was not tried.
    pub regions: Vec<RegionTrial>,
}

/// A region, moved.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RegionTrial {
    /// What it is: a library's name, `stack`, …
    pub name: String,
    /// Its address in the reference; null for what has none of its own.
    pub reference_at: Option<u64>,
    /// And in the layout.
    pub layout_at: Option<u64>,
    /// The ratio where it alone lies as in the layout.
    pub alone: f64,
    /// The ratio where all but it lies as in the layout.
    pub all_but: f64,
    /// Whether it makes the layout slow: alone, or, where no region does that, together with others.
    pub matters: bool,
}

/// What was counted, and looked at in the end, of runs in both layouts: the medians.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LayoutCounts {
    /// How often the command ran in each.
    pub runs: u64,
    /// What, the kernel's first.
    pub counts: Vec<LayoutCount>,
    /// What could not be counted, and why.
    pub refused: Vec<CountRefused>,
}

/// A count, in both layouts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LayoutCount {
    /// What was counted.
    pub name: String,
    /// In the reference.
    pub reference: f64,
    /// In the layout.
    pub layout: f64,
}

/// What could not be counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CountRefused {
    /// What.
    pub names: Vec<String>,
    /// Why.
    pub why: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The command cannot be started so.
    #[cfg(target_arch = "x86_64")]
    #[error(transparent)]
    Start(#[from] launch::LoadedError),
    /// Registers of a stopped process are known of x86-64 only.
    #[error("the regions of a layout are moved on x86-64 only")]
    Processor,
    /// It cannot be waited for, or counted.
    #[error("the command cannot be followed to its end: {0}")]
    System(#[from] std::io::Error),
    /// The command failed.
    #[error("the command {} in {layout}", how_it_ended(.ended))]
    Failed {
        /// How.
        ended: Ended,
        /// Where.
        layout: String,
    },
    /// Its time is zero.
    #[error("the command took no time that the kernel measures; give it more to do, or --by wall")]
    NoTime,
    /// Its loader maps other things each time.
    #[error("its loader does not map the same each time it is started: no part of it can be moved")]
    Changes,
}

/// Explains a layout, and tells how many runs of how many are done. The command's output is the
/// caller's. This process must have one thread.
///
/// # Errors
/// [`ExplainError`].
#[cfg(not(target_arch = "x86_64"))]
pub fn explain(
    _command: &Command,
    _options: &ExplainOptions,
    _tell: impl Fn(&'static str, u64, u64),
) -> Result<(LayoutTrials, LayoutCounts), ExplainError> {
    Err(ExplainError::Processor)
}

/// Explains a layout, and tells how many runs of how many are done. The command's output is the
/// caller's. This process must have one thread.
///
/// # Errors
/// [`ExplainError`].
#[cfg(target_arch = "x86_64")]
pub fn explain(
    command: &Command,
    options: &ExplainOptions,
    tell: impl Fn(&'static str, u64, u64),
) -> Result<(LayoutTrials, LayoutCounts), ExplainError> {
    let trials = trial::tried(command, options, &tell)?;
    let counts = observed::counted(command, options, &tell)?;
    Ok((trials, counts))
}

fn how_it_ended(ended: &Ended) -> String {
    match ended {
        Ended::Exited(status) => format!("failed with status {status}"),
        Ended::Signaled(signal) => format!("was killed by signal {signal}"),
    }
}
