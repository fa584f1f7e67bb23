//! How many times one series is another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::median_ranks;
use crate::rank_sum::shift_rank;
use crate::summary::{median, sorted};

/// How many times larger the values before are than those after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// Before divided by after: over 1 where the values after are smaller.
    pub ratio: f64,
    /// Where the true ratio lies; none if there are too few values to say.
    pub interval: Option<Interval>,
    /// How both were found.
    pub method: Method,
}

/// Where a true value lies, with a chance of at least 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The chance that the interval holds the true value: 0.95 or a little more, as ranks come
    /// in steps.
    pub coverage: f64,
}

impl Interval {
    /// Whether the value is inside.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// How a ratio was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The median of the ratios of pairs, with the exact sign-test interval.
    PairedMedian,
    /// Hodges and Lehmann's estimate from the ratios of all with all, with the rank-sum test's
    /// interval.
    HodgesLehmann,
}

/// Compares values that were measured in pairs, the two of a pair one right after the other.
/// What changes slowly (a busy neighbour, a clock that throttles) hits both of a pair, and falls
/// out of their ratio.
///
/// The ratio is the median of the pairs' ratios; its interval is exact for any distribution, and
/// exists from [`crate::SMALLEST_SERIES`] pairs on. None if there are no pairs, the series are
/// not equally long, or a value is not above zero.
pub fn paired(before: &[f64], after: &[f64]) -> Option<Ratio> {
    if before.len() != after.len() || !all_positive(before) || !all_positive(after) {
        return None;
    }
    let ratios: Vec<_> = before.iter().zip(after).map(|(before, after)| before / after).collect();
    let ratios = sorted(&ratios)?;
    let interval = median_ranks(ratios.len()).map(|ranks| Interval {
        low: ratios[ranks.low],
        high: ratios[ranks.high],
        coverage: ranks.coverage,
    });
    Some(Ratio { ratio: median(&ratios)?, interval, method: Method::PairedMedian })
}

/// Compares values that were measured apart: all of one series, then all of the other.
///
/// The ratio is the median of the ratios of all values before with all after (Hodges and
/// Lehmann, "Estimates of Location Based on Rank Tests", 1963, on logarithms); its interval
/// turns the rank-sum test around. It supposes that the two distributions have one shape on a
/// logarithmic scale and that nothing else changed between the series. The time and memory it
/// takes grow with the product of the lengths. None if a series is empty or a value is not
/// above zero.
pub fn independent(before: &[f64], after: &[f64]) -> Option<Ratio> {
    if !all_positive(before) || !all_positive(after) {
        return None;
    }
    let pairs = before.iter().flat_map(|before| after.iter().map(move |after| before / after));
    let ratios = sorted(&pairs.map(f64::ln).collect::<Vec<_>>())?;
    let interval = shift_rank(before.len(), after.len()).map(|(rank, coverage)| Interval {
        low: ratios[rank].exp(),
        high: ratios[ratios.len() - 1 - rank].exp(),
        coverage,
    });
    let ratio = median(&ratios)?.exp();
    Some(Ratio { ratio, interval, method: Method::HodgesLehmann })
}

fn all_positive(values: &[f64]) -> bool {
    values.iter().all(|value| value.is_finite() && *value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_that_hits_both_of_a_pair_falls_out() {
        // The machine gets three times slower over the runs; after is always half of before.
        let before: Vec<f64> = (0..12).map(|run| 100.0 + 20.0 * f64::from(run)).collect();
        let after: Vec<f64> = before.iter().map(|time| time / 2.0).collect();
        let ratio = paired(&before, &after).unwrap();
        let interval = ratio.interval.unwrap();
        assert_eq!((ratio.ratio, interval.low, interval.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn the_interval_is_of_ranks_so_one_outlier_moves_nothing() {
        let before = [10.0, 10.2, 9.9, 10.1, 10.0, 9.8, 10.3, 10.1, 9.9, 500.0];
        let ratio = paired(&before, &[5.0; 10]).unwrap();
        assert!(ratio.interval.unwrap().high < 2.1, "{ratio:?}");
    }

    #[test]
    fn too_few_pairs_give_a_ratio_without_an_interval() {
        let five = paired(&[2.0; 5], &[1.0; 5]).unwrap();
        assert_eq!((five.ratio, five.interval), (2.0, None));
        assert!(paired(&[2.0; 6], &[1.0; 6]).unwrap().interval.is_some());
    }

    #[test]
    fn what_is_no_time_is_not_compared() {
        assert_eq!(paired(&[1.0], &[0.0]), None);
        assert_eq!(paired(&[], &[]), None);
        assert_eq!(paired(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(independent(&[1.0], &[-1.0]), None);
        assert_eq!(independent(&[], &[1.0]), None);
    }
}
