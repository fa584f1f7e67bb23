//! What a campaign of a size can show, before it is run.

use schemars::JsonSchema;
use serde::Serialize;
use stats::{Count, any, power, sample_size};

use crate::aslr::analyze::{CONFIDENCE, LEVEL};

/// What ranks of each arm can show of something that slows one in so many of one arm, and none of
/// another.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Expected {
    /// How many ranks each arm has, those of earlier runs included.
    pub ranks_per_arm: u64,
    /// The chance that a rank is slow, against none.
    pub rate: f64,
    /// How likely at least one is seen.
    pub seen: f64,
    /// How likely Fisher's exact test, one-sided, calls it proven (5 %): of jobs, whose ranks share
    /// their fate.
    pub power: f64,
    /// How many ranks an arm make that 80 % likely.
    pub for_80_percent: Option<u64>,
    /// And 95 %.
    pub for_95_percent: Option<u64>,
    /// Up to which chance is not excluded where none is seen (Clopper and Pearson, 95 %).
    pub if_none: f64,
    /// How long one job takes, in seconds, by the pilot.
    pub seconds_per_job: f64,
    /// How many jobs are to be run now.
    pub jobs: u64,
    /// How long they will take, in seconds, without retests.
    pub seconds: f64,
}

impl Expected {
    /// Of so many jobs of so many ranks an arm, at this rate; `jobs` of all arms to be run now.
    pub fn of(
        (jobs_per_arm, ranks): (u64, u64),
        rate: f64,
        jobs: u64,
        seconds_per_job: f64,
    ) -> Expected {
        let ranks_per_arm = jobs_per_arm * ranks;
        let has_slow = any(ranks, rate);
        let enough = |chance| {
            sample_size(has_slow, 0.0, LEVEL, chance).map(|jobs| jobs.saturating_mul(ranks))
        };
        Expected {
            ranks_per_arm,
            rate,
            seen: any(ranks_per_arm, rate),
            power: power(jobs_per_arm, has_slow, 0.0, LEVEL),
            for_80_percent: enough(0.8),
            for_95_percent: enough(0.95),
            if_none: Count { seen: 0, of: ranks_per_arm }.bounds(CONFIDENCE).high,
            seconds_per_job,
            jobs,
            seconds: seconds_per_job * jobs as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_size_is_told_to_be_too_small_for_one_in_ten_thousand() {
        let expected = Expected::of((38_016, 1), 1e-4, 10, 0.5);
        assert!(expected.power > 0.2 && expected.power < 0.4, "{expected:?}");
        assert!((67_190..67_220).contains(&expected.for_80_percent.unwrap()));
        assert!((expected.if_none - 9.7e-5).abs() < 1e-6, "{expected:?}");
        assert_eq!(expected.seconds, 5.0);
        let of_jobs = Expected::of((198, 192), 1e-4, 10, 0.5);
        assert_eq!(of_jobs.ranks_per_arm, 38_016);
        assert!(of_jobs.power > 0.2 && of_jobs.power < expected.power, "{of_jobs:?}");
        assert!((67_000..69_000).contains(&of_jobs.for_80_percent.unwrap()), "{of_jobs:?}");
    }
}
