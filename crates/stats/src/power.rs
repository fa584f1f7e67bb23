//! How many tries a conclusion takes.

use crate::fisher::Chance;
use crate::proportion::{Count, at_least};
use crate::stirling::binomial;

/// No experiment is longer.
const MOST: u64 = 1 << 40;
/// What the other side may show is summed over so many numbers at most, evenly spaced.
const NUMBERS: u64 = 64;
/// Numbers that are less likely are left out of the sum.
const UNLIKELY: f64 = 1e-12;

/// The least number seen on a side of `of` tries that Fisher's one-sided test calls more than
/// `other`, at this level; none if even all of them are too few.
pub fn least_seen(of: u64, other: Count, level: f64) -> Option<u64> {
    least_seen_from(0, of, other, level)
}

/// The same, where it is known to be `from` at least: that is mostly near.
fn least_seen_from(from: u64, of: u64, other: Count, level: f64) -> Option<u64> {
    let is_enough = |seen| Chance::of(Count { seen, of }, other).at_least(seen) <= level;
    let (mut few, mut enough, mut step) = (from, from.min(of), 1);
    while !is_enough(enough) {
        if enough == of {
            return None;
        }
        few = enough + 1;
        enough = enough.saturating_add(step).min(of);
        step *= 2;
    }
    while few < enough {
        let middle = few + (enough - few) / 2;
        if is_enough(middle) {
            enough = middle;
        } else {
            few = middle + 1;
        }
    }
    Some(enough)
}

/// The chance that Fisher's one-sided test at this level finds that what has the chance `p` is
/// more frequent than what has the chance `other`, from `tries` of each.
///
/// Summed exactly over what the other side may show; over 64 evenly spaced numbers where these
/// are more.
pub fn power(tries: u64, p: f64, other: f64, level: f64) -> f64 {
    let n = tries as f64;
    let deviation = (n * other * (1.0 - other)).sqrt();
    let low = (n * other - 8.0 * deviation).floor().max(0.0) as u64;
    let high = (n * other + 8.0 * deviation + 10.0).ceil().min(n) as u64;
    let high = if other <= 0.0 { 0 } else { high };
    let step = ((high - low) / NUMBERS).max(1);
    let (mut sum, mut weights) = (0.0, 0.0);
    // The more the other side has seen, the more it takes.
    let mut least = Some(0);
    for seen in (low..=high).step_by(step as usize) {
        let weight = binomial(seen as f64, n, other, 1.0 - other);
        weights += weight;
        if weight > UNLIKELY {
            let other = Count { seen, of: tries };
            least = least.and_then(|least| least_seen_from(least, tries, other, level));
            sum += weight * least.map_or(0.0, |least| at_least(least, tries, p));
        }
    }
    if weights > 0.0 { sum / weights } else { 0.0 }
}

/// How many tries of each side give that [`power`]; none if no number up to 1e12 does, as where
/// `p` is not above `other`.
///
/// The power of an exact test rises in teeth, not evenly: a few more tries may have a little less.
pub fn sample_size(p: f64, other: f64, level: f64, wanted: f64) -> Option<u64> {
    if p.is_nan() || p <= other || p > 1.0 {
        return None;
    }
    let mut enough = 1u64;
    while power(enough, p, other, level) < wanted {
        enough = enough.checked_mul(2).filter(|tries| *tries <= MOST)?;
    }
    let mut few = enough / 2;
    while enough - few > 1 {
        let middle = few + (enough - few) / 2;
        if power(middle, p, other, level) < wanted {
            few = middle;
        } else {
            enough = middle;
        }
    }
    Some(enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn against_none_five_are_needed_whatever_the_size() {
        for of in [10_000, 38_016, 1_000_000] {
            assert_eq!(least_seen(of, Count { seen: 0, of }, 0.05), Some(5));
        }
        assert_eq!(least_seen(2, Count { seen: 2, of: 2 }, 0.05), None);
    }

    #[test]
    fn the_least_number_is_the_first_that_is_enough_wherever_the_search_begins() {
        for (of, seen) in [(20, 0), (20, 3), (300, 40), (50, 49)] {
            let other = Count { seen, of };
            let is_enough = |seen| Chance::of(Count { seen, of }, other).at_least(seen) <= 0.05;
            let first = (0..=of).find(|seen| is_enough(*seen));
            assert_eq!(least_seen(of, other, 0.05), first);
            for from in 0..=first.unwrap_or(0) {
                assert_eq!(least_seen_from(from, of, other, 0.05), first, "{of} {seen} {from}");
            }
        }
    }

    #[test]
    fn one_in_ten_thousand_against_none_takes_tens_of_thousands() {
        // By Poisson's distribution 67,210 and 91,536; the binomial one takes a few less.
        let few = sample_size(1e-4, 0.0, 0.05, 0.8).unwrap();
        let many = sample_size(1e-4, 0.0, 0.05, 0.95).unwrap();
        assert!(
            (67_190..67_220).contains(&few) && (91_500..91_540).contains(&many),
            "{few} {many}"
        );
        assert!(power(few, 1e-4, 0.0, 0.05) >= 0.8 && power(few - 1, 1e-4, 0.0, 0.05) < 0.8);
    }

    #[test]
    fn what_is_not_more_frequent_is_never_found_to_be() {
        assert_eq!(sample_size(0.1, 0.1, 0.05, 0.8), None);
        assert_eq!(sample_size(f64::NAN, 0.0, 0.05, 0.8), None);
    }
}
