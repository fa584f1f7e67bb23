//! Whether a series rises or falls.

/// How strongly a series rises (above 0) or falls (below 0) from its start to its end, as the
/// z-score of the Mann-Kendall test (Mann, "Nonparametric Tests Against Trend", 1945): beyond 3
/// one way or the other, chance alone does it less than three times in a thousand series. 0 for
/// a series of less than three values.
pub fn trend(values: &[f64]) -> f64 {
    if values.len() < 3 {
        return 0.0;
    }
    let mut score = 0i64;
    for (at, early) in values.iter().enumerate() {
        for late in &values[at + 1..] {
            score += i64::from(late > early) - i64::from(late < early);
        }
    }
    let n = values.len() as f64;
    let ties: f64 = runs_of_equal(values).map(|t| t * (t - 1.0) * (2.0 * t + 5.0)).sum();
    let variance = (n * (n - 1.0) * (2.0 * n + 5.0) - ties) / 18.0;
    if variance <= 0.0 {
        return 0.0;
    }
    // The score comes in steps of two: half a step nearer to zero.
    (score - score.signum()) as f64 / variance.sqrt()
}

/// How many values there are of each that occurs more than once.
fn runs_of_equal(values: &[f64]) -> impl Iterator<Item = f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let runs: Vec<_> = sorted.chunk_by(|a, b| a == b).map(|run| run.len() as f64).collect();
    runs.into_iter().filter(|length| *length > 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_only_rises_has_a_strong_trend_and_its_mirror_the_opposite() {
        let rising: Vec<f64> = (0..20).map(f64::from).collect();
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert!(trend(&rising) > 5.0);
        assert_eq!(trend(&rising), -trend(&falling));
    }

    #[test]
    fn what_goes_up_and_down_or_stays_has_none() {
        let swinging: Vec<f64> = (0..20).map(|run| f64::from(run % 2)).collect();
        assert!(trend(&swinging).abs() < 1.0);
        assert_eq!(trend(&[1.0; 20]), 0.0);
        assert_eq!(trend(&[1.0, 2.0]), 0.0);
    }
}
