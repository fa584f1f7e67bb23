//! Whether what is rare is rarer on one side: Fisher's exact test, of one table or of many.

use crate::proportion::Count;
use crate::stirling::binomial;

/// Chances this far below the largest are not kept: no sum of them could be told from 0.
const NEGLIGIBLE: f64 = 1e-290;
/// The same where tables are put together, which costs the product of their lengths.
const NEGLIGIBLE_OF_MANY: f64 = 1e-40;

/// How many of all that were seen fall on the first side, if the sides do not differ.
///
/// Fisher, "The Logic of Inductive Inference", 1935: sizes and the sum that was seen are given,
/// how it is divided is hypergeometric.
#[derive(Clone, Debug, PartialEq)]
pub struct Chance {
    /// The number that the first chance is of.
    first: u64,
    chances: Vec<f64>,
}

impl Chance {
    /// Of two sides.
    pub fn of(one: Count, other: Count) -> Chance {
        let all = (one.seen + other.seen).min(one.of + other.of);
        let least = all.saturating_sub(other.of);
        let most = all.min(one.of);
        // From the likeliest outward, each from its neighbour: that one is computed in full.
        let likeliest = (all as f64 + 1.0) * (one.of as f64 + 1.0);
        let likeliest = (likeliest / (one.of as f64 + other.of as f64 + 2.0)) as u64;
        let likeliest = likeliest.clamp(least, most);
        let peak = hypergeometric(likeliest, all, one.of, other.of);
        let up = |k: u64| {
            let (to, from) = ((one.of - k) as f64, (k + 1) as f64);
            to / from * ((all - k) as f64 / (other.of + k + 1 - all) as f64)
        };
        let mut below = Vec::new();
        let mut chance = peak;
        for k in (least..likeliest).rev() {
            chance /= up(k);
            if chance < peak * NEGLIGIBLE {
                break;
            }
            below.push(chance);
        }
        let first = likeliest - below.len() as u64;
        let mut chances: Vec<f64> = below.into_iter().rev().collect();
        chances.push(peak);
        chance = peak;
        for k in likeliest..most {
            chance *= up(k);
            if chance < peak * NEGLIGIBLE {
                break;
            }
            chances.push(chance);
        }
        Chance { first, chances }
    }

    /// Of two sides that were compared within many blocks, each block a table: the exact form of
    /// Mantel and Haenszel's test (Birch, "The Detection of Partial Association, I", 1964). What
    /// slows a whole block says nothing about its sides. Chances below 1e-40 count as none.
    pub fn within(tables: impl IntoIterator<Item = (Count, Count)>) -> Chance {
        let certain = Chance { first: 0, chances: vec![1.0] };
        // Where nothing was seen, nothing can be divided.
        let tables = tables.into_iter().filter(|(one, other)| one.seen + other.seen > 0);
        tables.fold(certain, |sum, (one, other)| sum.and(&Chance::of(one, other)))
    }

    /// The sum of two such numbers.
    fn and(&self, other: &Chance) -> Chance {
        let mut chances = vec![0.0; self.chances.len() + other.chances.len() - 1];
        for (place, chance) in self.chances.iter().enumerate() {
            for (sum, more) in chances[place..].iter_mut().zip(&other.chances) {
                *sum += chance * more;
            }
        }
        let most = chances.iter().copied().fold(0.0, f64::max) * NEGLIGIBLE_OF_MANY;
        let keep = |chance: &f64| *chance > most;
        let from = chances.iter().position(keep).unwrap_or(0);
        let to = chances.iter().rposition(keep).map_or(chances.len(), |last| last + 1);
        Chance { first: self.first + other.first + from as u64, chances: chances[from..to].into() }
    }

    /// The chance of `seen` or more on the first side: the one-sided p-value.
    pub fn at_least(&self, seen: u64) -> f64 {
        let from = seen.saturating_sub(self.first).min(self.chances.len() as u64) as usize;
        // From the small ones up, so that they are not lost.
        self.chances[from..].iter().rev().sum::<f64>().min(1.0)
    }

    /// The chance of what is at most as likely as `seen`: the two-sided p-value, as R and scipy
    /// define it.
    pub fn as_unlikely(&self, seen: u64) -> f64 {
        let place = seen.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let Some(limit) = place.and_then(|place| self.chances.get(place)) else { return 0.0 };
        // R's tolerance (fisher.test): equal chances may differ in their last digits.
        let limit = limit * (1.0 + 1e-7);
        let mut unlikely: Vec<f64> =
            self.chances.iter().copied().filter(|chance| *chance <= limit).collect();
        // From the small ones up, so that they are not lost.
        unlikely.sort_unstable_by(f64::total_cmp);
        unlikely.iter().sum::<f64>().min(1.0)
    }
}

/// The chance that `k` of `all` fall on a side of the size `one`, by Loader's three binomials.
fn hypergeometric(k: u64, all: u64, one: u64, other: u64) -> f64 {
    let (k, all, one, other) = (k as f64, all as f64, one as f64, other as f64);
    let size = one + other;
    if all == 0.0 || all == size {
        return 1.0;
    }
    let (p, q) = (all / size, (size - all) / size);
    binomial(k, one, p, q) * binomial(all - k, other, p, q) / binomial(all, size, p, q)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn more(one: u64, other: u64, of: u64) -> f64 {
        Chance::of(Count { seen: one, of }, Count { seen: other, of }).at_least(one)
    }

    #[test]
    fn three_slow_ranks_against_none_prove_nothing_and_five_do() {
        assert!((more(3, 0, 38_016) - 0.125).abs() < 1e-4);
        assert!((more(5, 0, 38_016) - 0.031).abs() < 1e-3);
        assert!((more(6, 0, 38_016) - 0.016).abs() < 1e-3);
    }

    #[test]
    fn sides_of_any_size_have_a_chance_that_sums_to_one() {
        for (one, other) in [(0, 0), (0, 5), (5, 0), (7, 7), (1, 1_000_000)] {
            for seen in [0, one.min(3), one] {
                let chance =
                    Chance::of(Count { seen, of: one }, Count { seen: other / 2, of: other });
                let sum: f64 = chance.chances.iter().sum();
                assert!((sum - 1.0).abs() < 1e-9, "{one} {other} {seen}: {sum}");
                assert!(chance.at_least(u64::MAX) == 0.0 && chance.as_unlikely(u64::MAX) == 0.0);
            }
        }
    }

    #[test]
    fn a_block_that_is_slow_as_a_whole_says_nothing() {
        let side = |seen| Count { seen, of: 100 };
        let slow_block = (side(100), side(100));
        let alone = Chance::of(side(4), side(0)).at_least(4);
        let within = Chance::within([(side(4), side(0)), slow_block]).at_least(104);
        assert!((alone - within).abs() < 1e-12);
    }
}
