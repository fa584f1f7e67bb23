//! Whether slow processes share a bit of an address: a hint where to look, no cause. Those whose
//! cause is known to be another are not among them.
//!
//! Compared within blocks only: over a whole campaign any bit seems to matter, because the
//! machine's speed changes as slowly as some addresses do.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use stats::{Chance, Count};

use super::LEVEL;
use super::explained::SlowCauses;
use super::read::{RankSample, RankSamples};

/// Pages are mapped, so lower bits do not change; higher ones are all the same to users.
const BITS: std::ops::Range<u32> = 12..47;
/// Pairs of bits that AMD's L1D way predictor puts together (Lipp et al., "Take A Way", 2020).
const PAIRS: [(u32, u32); 8] =
    [(12, 27), (13, 26), (14, 25), (15, 20), (16, 21), (17, 22), (18, 23), (19, 24)];

/// How many are compared of each address.
const NUMBER: usize = (BITS.end - BITS.start) as usize + PAIRS.len();

/// What was compared, and what was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Bits {
    /// How many bits of how many mappings were compared: each is another chance to err.
    pub tested: usize,
    /// Those that slow processes share more than chance allows, after so many tests.
    pub found: Vec<Bit>,
}

/// A bit of a mapping's address.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Bit {
    /// The mapping.
    pub map: String,
    /// The bit, such as `14`, or two that are added, `14^25`.
    pub bit: String,
    /// How many are slow where it is set, in blocks that have slow ones.
    pub set: Count,
    /// And where it is not.
    pub clear: Count,
    /// How often chance alone makes such a difference, times the number of tests.
    pub p: f64,
}

/// Only bits that are this many standard deviations away are looked at closely: after a few
/// hundred tests nothing nearer is found, and the exact test costs more than a look.
const FAR: f64 = 3.0;

/// Counts of processes where a bit is set, and where it is not.
type Sides = (Count, Count);

impl Bits {
    /// None where no process tells its addresses, or of no block.
    pub(super) fn of(samples: &RankSamples, causes: &SlowCauses<'_>) -> Option<Bits> {
        let mut groups = groups(samples);
        if groups.is_empty() {
            return None;
        }
        // Where nothing is slow, slow ones share nothing.
        groups.retain(|group| group.iter().any(|sample| causes.is_open(sample)));
        let (mut tested, mut found) = (0, Vec::new());
        for map in 0..samples.maps.len() {
            let seen = group_bits(samples, causes, &groups, map as u16);
            for number in 0..NUMBER {
                let sides: Vec<Sides> = seen.iter().map(|bits| bits[number]).collect();
                let varies = |(set, clear): &Sides| set.of > 0 && clear.of > 0;
                let sides: Vec<Sides> = sides.into_iter().filter(varies).collect();
                tested += usize::from(!sides.is_empty());
                if distance(&sides) >= FAR {
                    let (set, clear) = sum(&sides);
                    let p = Chance::within(sides).as_unlikely(set.seen);
                    let (map, bit) = (samples.maps[map].clone(), name(number));
                    found.push(Bit { map, bit, set, clear, p });
                }
            }
        }
        found.iter_mut().for_each(|bit| bit.p *= tested as f64);
        found.retain(|bit| bit.p <= LEVEL);
        found.sort_by(|a, b| a.p.total_cmp(&b.p));
        Some(Bits { tested, found })
    }
}

/// Processes of one block and one arm each that tell their addresses: what is started otherwise
/// has other addresses.
fn groups(samples: &RankSamples) -> Vec<Vec<&RankSample>> {
    let mut groups: BTreeMap<_, Vec<&RankSample>> = BTreeMap::new();
    for sample in &samples.samples {
        let run = samples.run(sample);
        let tells = samples.details(sample).is_some_and(|details| !details.maps.is_empty());
        if let (Some(block), true) = (run.block, tells) {
            groups.entry((block, run.arm)).or_default().push(sample);
        }
    }
    groups.into_values().collect()
}

/// The counts of each bit of a mapping, group by group.
fn group_bits(
    samples: &RankSamples,
    causes: &SlowCauses<'_>,
    groups: &[Vec<&RankSample>],
    map: u16,
) -> Vec<[Sides; NUMBER]> {
    let none = Count { seen: 0, of: 0 };
    let of_group = |group: &Vec<&RankSample>| {
        let mut all = [(none, none); NUMBER];
        for sample in group {
            let maps = samples.details(sample).map_or(&[][..], |details| &details.maps);
            let Some((_, address)) = maps.iter().find(|(name, _)| *name == map) else { continue };
            let is_slow = u64::from(causes.is_open(sample));
            for (sides, is_set) in all.iter_mut().zip(bits(*address)) {
                let count = if is_set { &mut sides.0 } else { &mut sides.1 };
                count.of += 1;
                count.seen += is_slow;
            }
        }
        all
    };
    groups.iter().map(of_group).collect()
}

/// How many standard deviations the slow ones with the bit set are from what chance expects:
/// Mantel and Haenszel's statistic.
fn distance(sides: &[Sides]) -> f64 {
    let (mut away, mut variance) = (0.0, 0.0);
    for (set, clear) in sides {
        let (m, n) = (set.of as f64, clear.of as f64);
        let (all, slow) = (m + n, (set.seen + clear.seen) as f64);
        away += set.seen as f64 - slow * m / all;
        if all > 1.0 {
            variance += slow * (all - slow) * m * n / (all * all * (all - 1.0));
        }
    }
    if variance > 0.0 { away.abs() / variance.sqrt() } else { 0.0 }
}

fn sum(sides: &[Sides]) -> Sides {
    let none = Count { seen: 0, of: 0 };
    let add = |sum: Count, one: &Count| Count { seen: sum.seen + one.seen, of: sum.of + one.of };
    sides.iter().fold((none, none), |(a, b), (set, clear)| (add(a, set), add(b, clear)))
}

/// What is compared of an address, in the order of [`name`].
fn bits(address: u64) -> impl Iterator<Item = bool> {
    let bit = move |bit: u32| address >> bit & 1 == 1;
    BITS.map(bit).chain(PAIRS.into_iter().map(move |(low, high)| bit(low) != bit(high)))
}

fn name(number: usize) -> String {
    match PAIRS.get(number.wrapping_sub(BITS.len())) {
        Some((low, high)) => format!("{low}^{high}"),
        None => (BITS.start as usize + number).to_string(),
    }
}
