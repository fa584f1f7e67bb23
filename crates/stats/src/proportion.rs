//! How often something happens, from how often it was seen.

use schemars::JsonSchema;
use serde::Serialize;

use crate::beta::{beta_quantile, beta_split};

/// So many of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Count {
    /// How often it was seen.
    pub seen: u64,
    /// In how many tries; at least as many.
    pub of: u64,
}

/// Where a chance lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bounds {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Count {
    /// The share that was seen; none of nothing.
    pub fn share(&self) -> Option<f64> {
        (self.of > 0).then(|| self.seen as f64 / self.of as f64)
    }

    /// Where the chance lies, with at least this confidence (such as 0.95): the exact interval of
    /// Clopper and Pearson, "The Use of Confidence or Fiducial Limits", 1934. From 0 to 1 if
    /// there were no tries. It supposes that tries do not depend on each other.
    pub fn bounds(&self, confidence: f64) -> Bounds {
        let tail = (1.0 - confidence) / 2.0;
        let (seen, missed) = (self.seen as f64, self.of.saturating_sub(self.seen) as f64);
        Bounds {
            low: if self.seen == 0 { 0.0 } else { beta_quantile(seen, missed + 1.0, tail) },
            // From the other side, where a chance near 0 keeps its digits.
            high: match (self.seen, self.of.saturating_sub(self.seen)) {
                (_, 0) => 1.0,
                (0, missed) => -(tail.ln() / missed as f64).exp_m1(),
                _ => beta_quantile(seen + 1.0, missed, 1.0 - tail),
            },
        }
    }
}

/// The chance of at least `least` in `tries`, each with the chance `p`.
pub fn at_least(least: u64, tries: u64, p: f64) -> f64 {
    match least {
        0 => 1.0,
        least if least > tries => 0.0,
        least => beta_split(least as f64, (tries - least + 1) as f64, p, 1.0 - p).below,
    }
}

/// The chance of at least one in `tries`, each with the chance `p`.
pub fn any(tries: u64, p: f64) -> f64 {
    -(tries as f64 * (-p).ln_1p()).exp_m1()
}

/// How many tries show what has the chance `p` at least once, with this confidence; none where
/// no number does.
pub fn to_see_one(p: f64, confidence: f64) -> Option<u64> {
    let tries = ((1.0 - confidence).ln() / (-p).ln_1p()).ceil();
    (p > 0.0 && tries.is_finite()).then_some((tries as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_no_tries_nothing_is_known() {
        let none = Count { seen: 0, of: 0 };
        assert_eq!((none.share(), none.bounds(0.95)), (None, Bounds { low: 0.0, high: 1.0 }));
    }

    #[test]
    fn what_was_always_or_never_seen_has_one_bound() {
        assert_eq!(Count { seen: 0, of: 9 }.bounds(0.95).low, 0.0);
        assert_eq!(Count { seen: 9, of: 9 }.bounds(0.95).high, 1.0);
    }

    #[test]
    fn one_slow_process_in_ten_thousand_slows_nine_of_ten_large_jobs() {
        assert!((any(24_576, 1e-4) - 0.9144).abs() < 1e-4);
        assert!((any(202, 1e-4) - 0.02).abs() < 1e-4);
        assert_eq!(to_see_one(1e-4, 0.95), Some(29_956));
        assert_eq!(to_see_one(0.0, 0.95), None);
        assert_eq!(to_see_one(1.0, 0.95), Some(1));
    }
}
