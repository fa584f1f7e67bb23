//! One series in a few numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a series of values looks like. In the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// How many values there are.
    pub n: usize,
    /// The smallest.
    pub min: f64,
    /// A quarter is below it.
    pub lower_quartile: f64,
    /// Half is below it.
    pub median: f64,
    /// Three quarters are below it.
    pub upper_quartile: f64,
    /// The largest.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The sample's standard deviation (divided by n - 1); none of a single value.
    pub standard_deviation: Option<f64>,
    /// The median of the distances to the median, not scaled.
    pub median_absolute_deviation: f64,
}

impl Summary {
    /// Sums a series up; none if it is empty or holds what is no finite number.
    ///
    /// Quartiles are interpolated as numpy's default does and R's type 7 (Hyndman and Fan,
    /// "Sample Quantiles in Statistical Packages", 1996).
    pub fn of(values: &[f64]) -> Option<Summary> {
        let sorted = sorted(values)?;
        let n = sorted.len();
        // The mean of differences to a value that is among them: sums of large numbers that
        // differ little keep their digits.
        let middle = quantile(&sorted, 0.5);
        let mean = middle + sorted.iter().map(|value| value - middle).sum::<f64>() / n as f64;
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Summary {
            n,
            min: sorted[0],
            lower_quartile: quantile(&sorted, 0.25),
            median: middle,
            upper_quartile: quantile(&sorted, 0.75),
            max: sorted[n - 1],
            mean,
            standard_deviation: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
            median_absolute_deviation: deviation(&sorted, middle),
        })
    }
}

/// The median; none if there are no values, or some are no finite numbers.
pub fn median(values: &[f64]) -> Option<f64> {
    Some(quantile(&sorted(values)?, 0.5))
}

/// How many values lie far from the others: their modified z-score is over 3.5, the limit that
/// Iglewicz and Hoaglin recommend ("How to Detect and Handle Outliers", 1993). None are where
/// half of all values are the same, because then there is no spread to measure by.
pub fn outliers(values: &[f64]) -> usize {
    let Some(sorted) = sorted(values) else { return 0 };
    let middle = quantile(&sorted, 0.5);
    let spread = deviation(&sorted, middle);
    let is_far = |value: &&f64| spread > 0.0 && 0.6745 * (*value - middle).abs() / spread > 3.5;
    sorted.iter().filter(is_far).count()
}

/// The values in order, if there are any and all are finite.
pub(crate) fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// The value below which that share of the sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

fn deviation(sorted: &[f64], middle: f64) -> f64 {
    let mut distances: Vec<_> = sorted.iter().map(|value| (value - middle).abs()).collect();
    distances.sort_by(f64::total_cmp);
    quantile(&distances, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_without_values_or_with_what_is_no_number_has_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of(&[f64::INFINITY]), None);
    }

    #[test]
    fn one_value_is_its_own_summary_and_has_no_standard_deviation() {
        let one = Summary::of(&[7.0]).unwrap();
        assert_eq!((one.min, one.median, one.max, one.mean), (7.0, 7.0, 7.0, 7.0));
        assert_eq!((one.standard_deviation, one.median_absolute_deviation), (None, 0.0));
    }

    #[test]
    fn a_value_far_from_the_others_is_an_outlier() {
        assert_eq!(outliers(&[10.0, 10.1, 9.9, 10.2, 9.8, 30.0]), 1);
        assert_eq!(outliers(&[10.0, 10.1, 9.9, 10.2, 9.8]), 0);
        assert_eq!(outliers(&[1.0, 1.0, 1.0, 5.0]), 0);
    }
}
