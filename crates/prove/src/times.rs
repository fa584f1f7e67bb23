//! What the timed runs say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Ratio, Summary};

use crate::proof::RunOrder;
use crate::side::Side;

/// The times of both, and how they compare. Wall times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// Wall times before; none if there was no timed run.
    pub before: Option<Summary>,
    /// Wall times after.
    pub after: Option<Summary>,
    /// How many times longer before took.
    pub ratio: Option<Ratio>,
    /// The same as a word.
    pub speed: Speed,
    /// The median of the CPU time (program and kernel) before, in seconds.
    pub cpu_before: Option<f64>,
    /// The same after.
    pub cpu_after: Option<f64>,
}

/// What the interval of the ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// The whole interval says that after takes less time.
    Faster,
    /// The whole interval says that it takes more.
    Slower,
    /// The interval holds 1: no difference was shown, which is not that there is none.
    NoDifference,
    /// Too few runs for an interval.
    TooFewRuns,
}

impl Times {
    pub(crate) fn of(before: &Side, after: &Side, order: RunOrder) -> Times {
        let (walls_before, walls_after) = (before.wall_seconds(), after.wall_seconds());
        let ratio = match order {
            RunOrder::Interleaved { .. } => stats::paired(&walls_before, &walls_after),
            RunOrder::Apart => stats::independent(&walls_before, &walls_after),
        };
        Times {
            before: Summary::of(&walls_before),
            after: Summary::of(&walls_after),
            speed: speed(ratio),
            ratio,
            cpu_before: cpu(before),
            cpu_after: cpu(after),
        }
    }
}

fn speed(ratio: Option<Ratio>) -> Speed {
    match ratio.and_then(|ratio| ratio.interval) {
        None => Speed::TooFewRuns,
        Some(interval) if interval.holds(1.0) => Speed::NoDifference,
        Some(interval) if interval.low > 1.0 => Speed::Faster,
        Some(_) => Speed::Slower,
    }
}

fn cpu(side: &Side) -> Option<f64> {
    let of = |run: &crate::TimedRun| run.user_us.seconds() + run.system_us.seconds();
    stats::median(&side.runs.iter().map(of).collect::<Vec<_>>())
}
