//! How the Mann-Whitney U of two samples from one distribution is distributed.

/// Up to this many values in both samples the distribution is counted out: all numbers of
/// arrangements are then below 2^128 (C(128, 64) is 2.4e37).
const EXACT: usize = 128;
/// The normal distribution's 97.5 % point.
const Z: f64 = 1.959_963_984_540_054;

/// Which of the sorted differences between all pairs of two samples of `m` and `n` values bound
/// the shift between them, counted from 0: the `low`th from below and from above, and the
/// chance that the shift lies between these; none if the samples are too small for 95 %.
///
/// Exact for up to 128 values in all, else by the normal approximation (Hollander, Wolfe and
/// Chicken, "Nonparametric Statistical Methods", 3rd edition, 4.3). At most 95 % of the pairs
/// lie inside only if there are no ties; with ties it holds at least as often.
pub(crate) fn shift_rank(m: usize, n: usize) -> Option<(usize, f64)> {
    if m + n <= EXACT { exact(m, n) } else { approximate(m, n) }
}

fn exact(m: usize, n: usize) -> Option<(usize, f64)> {
    let arrangements = arrangements(m, n);
    let all: f64 = arrangements.iter().map(|count| *count as f64).sum();
    let (mut tail, mut best) = (0.0, None);
    for (u, count) in arrangements.iter().enumerate().take(m * n / 2) {
        tail += *count as f64 / all;
        if tail > 0.025 {
            break;
        }
        best = Some((u, 1.0 - 2.0 * tail));
    }
    best
}

/// How many arrangements of `m` and `n` values give each U: the coefficients of the Gaussian
/// binomial, the product of (1 - q^(n + i)) / (1 - q^i) for i from 1 to m. What wraps around on
/// the way wraps back: each result is below 2^128.
fn arrangements(m: usize, n: usize) -> Vec<u128> {
    let mut counts = vec![0u128; m * n + 1];
    counts[0] = 1;
    for i in 1..=m {
        for u in (n + i..counts.len()).rev() {
            counts[u] = counts[u].wrapping_sub(counts[u - n - i]);
        }
        for u in i..counts.len() {
            counts[u] = counts[u].wrapping_add(counts[u - i]);
        }
    }
    counts
}

fn approximate(m: usize, n: usize) -> Option<(usize, f64)> {
    let pairs = m as f64 * n as f64;
    let deviation = (pairs * (m + n + 1) as f64 / 12.0).sqrt();
    let rank = (pairs / 2.0 - Z * deviation).floor();
    // The rank counts from 1.
    (rank >= 1.0).then(|| (rank as usize - 1, crate::CONFIDENCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrangements_of_two_and_three_values_are_counted_out() {
        // The ten arrangements of two values among three: U is 0 to 6.
        assert_eq!(arrangements(2, 3), [1, 1, 2, 2, 2, 1, 1]);
        let all: u128 = arrangements(64, 64).iter().sum();
        assert_eq!(all, 23_951_146_041_928_082_866_135_587_776_380_551_750);
    }

    #[test]
    fn three_and_three_values_are_too_few_four_and_four_are_enough() {
        // Of C(6, 3) = 20 arrangements the most extreme is 5 %; of C(8, 4) = 70, 1.4 %.
        assert_eq!(shift_rank(3, 3), None);
        assert_eq!(shift_rank(4, 4).unwrap().0, 0);
        assert_eq!(shift_rank(0, 5), None);
    }

    #[test]
    fn counting_and_approximating_agree_where_both_are_possible() {
        let (counted, approximated) = (exact(64, 64).unwrap(), approximate(64, 64).unwrap());
        assert!(counted.0.abs_diff(approximated.0) <= 1, "{counted:?} {approximated:?}");
    }
}
