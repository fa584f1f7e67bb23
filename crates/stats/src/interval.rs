//! An interval that holds the median of a distribution, from the ranks of a sample alone.

/// How often an interval must hold the true value, over many samples.
pub const CONFIDENCE: f64 = 0.95;

/// The fewest values whose range is such an interval: the median lies outside the range of n
/// values with the chance 2 / 2^n, which is 3.1 % for six and 6.3 % for five.
pub const SMALLEST_SERIES: usize = 6;

/// Which values of a sorted sample bound the median, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianRanks {
    /// The lower bound, counted from 0 upward.
    pub low: usize,
    /// The upper bound, counted from 0 upward.
    pub high: usize,
    /// The chance that the median lies between them (for a continuous distribution; at least
    /// this for any other).
    pub coverage: f64,
}

/// The narrowest symmetric pair of ranks in a sorted sample of `n` that holds the median with a
/// chance of at least [`CONFIDENCE`]; none below [`SMALLEST_SERIES`].
///
/// This is the sign test turned around: each value is below the median with the chance 1/2,
/// whatever the distribution, so how many are is binomial (Conover, "Practical Nonparametric
/// Statistics", 3rd edition, 3.2).
pub fn median_ranks(n: usize) -> Option<MedianRanks> {
    // The chance that at most `low` of n values are below the median, added up from none. In
    // logarithms, because 2^-n is no number for large n.
    let mut log_chance = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    let mut best = None;
    for low in 0..n / 2 {
        tail += log_chance.exp();
        if 1.0 - 2.0 * tail < CONFIDENCE {
            break;
        }
        best = Some(MedianRanks { low, high: n - 1 - low, coverage: 1.0 - 2.0 * tail });
        log_chance += ((n - low) as f64 / (low + 1) as f64).ln();
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_is_the_smallest_sample_with_an_interval() {
        assert_eq!(median_ranks(SMALLEST_SERIES - 1), None);
        let six = median_ranks(SMALLEST_SERIES).unwrap();
        assert_eq!((six.low, six.high), (0, 5));
        assert!((six.coverage - (1.0 - 2.0 / 64.0)).abs() < 1e-12);
        assert_eq!(median_ranks(0), None);
    }

    #[test]
    fn a_large_sample_is_no_trouble() {
        let ranks = median_ranks(100_000).unwrap();
        // The normal approximation: n / 2 - 1.96 sqrt(n) / 2.
        assert!(ranks.low.abs_diff(49_690) <= 1, "{ranks:?}");
        assert!(ranks.coverage >= CONFIDENCE && ranks.coverage < 0.951, "{ranks:?}");
    }
}
