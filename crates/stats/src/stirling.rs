//! What Stirling's formula leaves out, and how far a count is from its expectation: the two parts
//! from which binomial and beta probabilities are put together without losing digits.
//!
//! Differences of log-gammas lose them: that of a million is 1.3e7, whose last digit alone is
//! 2e-9. Loader, "Fast and Accurate Computation of Binomial Probabilities", 2000.

use std::f64::consts::TAU;

/// From here on the series alone is exact to a double's digits.
const LARGE: f64 = 16.0;

/// The logarithm of z! divided by Stirling's formula for it, for z above 0.
pub(crate) fn correction(z: f64) -> f64 {
    let (mut z, mut sum) = (z, 0.0);
    // The correction of z and that of z + 1 differ by what Stirling's formula does.
    while z < LARGE {
        sum += (z + 0.5) * (1.0 / z).ln_1p() - 1.0;
        z += 1.0;
    }
    let square = z * z;
    let series = 1.0 / 1188.0;
    let series = 1.0 / 1680.0 - series / square;
    let series = 1.0 / 1260.0 - series / square;
    let series = 1.0 / 360.0 - series / square;
    sum + (1.0 / 12.0 - series / square) / z
}

/// k ln(k / expected) + expected - k, which is small and positive near the expectation.
pub(crate) fn deviance(k: f64, expected: f64) -> f64 {
    let (difference, sum) = (k - expected, k + expected);
    if difference.abs() > 0.1 * sum {
        return k * (k / expected).ln() + expected - k;
    }
    // The same as a series in their relative difference, because the terms above cancel here.
    let part = difference / sum;
    let mut total = difference * part;
    let mut term = 2.0 * k * part;
    for odd in (3..).step_by(2) {
        term *= part * part;
        let next = total + term / f64::from(odd);
        if next == total {
            break;
        }
        total = next;
    }
    total
}

/// The chance of k of n, each with the chance `p`, and `q` its complement.
pub(crate) fn binomial(k: f64, n: f64, p: f64, q: f64) -> f64 {
    if k < 0.0 || k > n {
        return 0.0;
    }
    if p <= 0.0 || q <= 0.0 {
        let certain = if p <= 0.0 { 0.0 } else { n };
        return f64::from(k == certain);
    }
    if k == 0.0 || k == n {
        let (few, other) = if k == 0.0 { (q, p) } else { (p, q) };
        // Of the two forms of ln, the one that keeps the digits of what is near 1.
        return (n * if few > 0.5 { (-other).ln_1p() } else { few.ln() }).exp();
    }
    let rest = n - k;
    let log = correction(n)
        - correction(k)
        - correction(rest)
        - deviance(k, n * p)
        - deviance(rest, n * q);
    (n / (TAU * k * rest)).sqrt() * log.exp()
}
