//! The incomplete beta function, to which binomial tails, Clopper-Pearson and Student's t come
//! down.

use std::f64::consts::TAU;

use crate::stirling::{correction, deviance};

/// More steps than the fraction takes for shapes of 1e9: they grow with the square root.
const MOST_STEPS: u32 = 200_000;

/// How a beta distribution is split by a point: both parts to their own last digits, however
/// small the one is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// The chance to be below the point: I_x(a, b).
    pub below: f64,
    /// The chance to be above it: I_y(b, a).
    pub above: f64,
}

/// The beta distribution of the shapes `a` and `b`, both above 0, split at `x`; `y` is 1 - x,
/// which the caller may know to more digits than x says.
pub fn beta_split(a: f64, b: f64, x: f64, y: f64) -> Split {
    if x <= 0.0 {
        return Split { below: 0.0, above: 1.0 };
    }
    if y <= 0.0 {
        return Split { below: 1.0, above: 0.0 };
    }
    // The fraction is quick on the side of the smaller tail.
    if x < (a + 1.0) / (a + b + 2.0) {
        let below = (power(a, b, x, y) * fraction(a, b, x) / a).min(1.0);
        Split { below, above: 1.0 - below }
    } else {
        let above = (power(a, b, x, y) * fraction(b, a, y) / b).min(1.0);
        Split { below: 1.0 - above, above }
    }
}

/// Below which point the share `below` of the beta distribution of the shapes `a` and `b` lies,
/// for a share between 0 and 1.
pub fn beta_quantile(a: f64, b: f64, below: f64) -> f64 {
    bisect(1.0, |x| beta_split(a, b, x, 1.0 - x).below < below)
}

/// Where a condition that holds from 0 on ceases to hold, at the latest at `most`. Positive
/// doubles are ordered as their bits are, so 62 halvings find the last digit, of whatever size.
pub(crate) fn bisect(most: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0u64, most.to_bits());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(f64::from_bits(middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::from_bits(high)
}

/// x^a y^b / B(a, b)
fn power(a: f64, b: f64, x: f64, y: f64) -> f64 {
    let n = a + b;
    let log =
        correction(n) - correction(a) - correction(b) - deviance(a, n * x) - deviance(b, n * y);
    (a * b / (TAU * n)).sqrt() * log.exp()
}

/// The continued fraction 8.17.22 of the Digital Library of Mathematical Functions, by Lentz's
/// method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let nonzero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for step in 1..=MOST_STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / nonzero(1.0 + term * d);
            c = nonzero(1.0 + term / c);
            value *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-16 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_certain() {
        assert_eq!(beta_split(2.0, 3.0, 0.0, 1.0), Split { below: 0.0, above: 1.0 });
        assert_eq!(beta_split(2.0, 3.0, 1.0, 0.0), Split { below: 1.0, above: 0.0 });
    }

    #[test]
    fn shapes_of_a_billion_end_in_time() {
        let half = beta_split(1e9, 1e9, 0.5, 0.5);
        assert!((half.below - 0.5).abs() < 1e-6, "{half:?}");
    }
}
