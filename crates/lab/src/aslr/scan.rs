//! Layouts walked one by one, instead of waiting for the unlucky one.
//!
//! Between the layouts of a block, in shuffled order, runs a reference layout, so that a machine
//! that slows down does not look like a layout. What was slow once is tested again: noise only adds
//! time, so a layout is slow if the quickest of its second tests is.

use std::time::Instant;

use launch::layout::LayoutOffset;
use schemars::JsonSchema;
use serde::Serialize;
use stats::Random;

/// So many layouts are in a block, and so many runs of the reference among them.
const BLOCK: usize = 16;
const REFERENCES: usize = 4;

/// What is to be walked.
#[derive(Clone, Copy, Debug)]
pub struct LayoutScanOptions {
    /// The first layout, which is the reference, too.
    pub first: LayoutOffset,
    /// How many there are.
    pub layouts: u64,
    /// How many pages apart.
    pub step: u64,
    /// Slow is what takes longer than the reference by this share.
    pub threshold: f64,
    /// How often a layout that was slow is tested again.
    pub retests: usize,
    /// What shuffles.
    pub seed: u64,
}

/// What was found. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LayoutScan {
    /// How many layouts were walked.
    pub layouts: u64,
    /// How often the command ran.
    pub runs: u64,
    /// The reference, as `becalm run --aslr` takes it.
    pub reference: String,
    /// Its median time.
    pub reference_time: f64,
    /// The median distance of its times to that, as a share.
    pub noise: f64,
    /// What a run took beside the command's time, in seconds, on average: its exec, its loader where
    /// that is not timed, and becalm.
    pub beside: f64,
    /// Slow is what takes longer by this share.
    pub threshold: f64,
    /// How many layouts were slow once, and not when tested again.
    pub passing: u64,
    /// Those that stayed slow, the slowest first.
    pub slow: Vec<Slow>,
}

/// A slow layout.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Slow {
    /// As `becalm run --aslr` takes it.
    pub layout: String,
    /// The quickest second test, by the quickest of the references among them.
    pub times_reference: f64,
    /// Its first time.
    pub first: f64,
    /// Its second tests.
    pub retests: Vec<f64>,
}

/// Walks; `time` runs the command in a layout, and `tell` hears how many layouts of how many are
/// done.
///
/// # Errors
/// What `time` fails with.
pub fn scan<E>(
    options: &LayoutScanOptions,
    mut time: impl FnMut(LayoutOffset) -> Result<f64, E>,
    tell: impl Fn(&'static str, u64, u64),
) -> Result<LayoutScan, E> {
    let (since, mut commands) = (Instant::now(), 0.0);
    let mut time = |moved| time(moved).inspect(|took| commands += took);
    let mut random = Random::seeded(options.seed);
    let (mut references, mut suspects) = (Vec::new(), Vec::new());
    let mut runs = 0;
    let all: Vec<u64> = (0..options.layouts).collect();
    for block in all.chunks(BLOCK) {
        let mut turns: Vec<_> = block.iter().map(|at| Some(*at)).collect();
        turns.extend([None; REFERENCES]);
        shuffle(&mut turns, &mut random);
        let (mut here, mut seen) = (Vec::new(), Vec::new());
        for turn in turns {
            let took = time(options.at(turn.unwrap_or(0)))?;
            runs += 1;
            match turn {
                Some(at) => seen.push((at, took)),
                None => here.push(took),
            }
        }
        let limit = stats::median(&here).unwrap_or(0.0) * (1.0 + options.threshold);
        suspects.extend(seen.into_iter().filter(|(_, took)| *took > limit));
        references.extend(here);
        tell("walking layouts", block.last().map_or(0, |at| at + 1), options.layouts);
    }
    let mut slow = Vec::new();
    let suspected = suspects.len() as u64;
    for (done, (at, first)) in (0..).zip(&suspects) {
        tell("testing slow ones again", done, suspected);
        slow.extend(again(options, *at, *first, &mut time, &mut random)?);
        runs += 2 * options.retests as u64;
    }
    let all = since.elapsed().as_secs_f64();
    slow.sort_by(|a, b| b.times_reference.total_cmp(&a.times_reference));
    let median = stats::median(&references).unwrap_or(0.0);
    let distances: Vec<_> = references.iter().map(|took| (took - median).abs()).collect();
    Ok(LayoutScan {
        layouts: options.layouts,
        runs,
        reference: format!("layout:{}", options.first),
        reference_time: median,
        noise: stats::median(&distances).unwrap_or(0.0) / median,
        beside: (all - commands).max(0.0) / runs as f64,
        threshold: options.threshold,
        passing: suspected - slow.len() as u64,
        slow,
    })
}

impl LayoutScanOptions {
    fn at(&self, number: u64) -> LayoutOffset {
        LayoutOffset { pages: self.first.pages + number * self.step, ..self.first }
    }
}

/// Tests a layout again, among as many runs of the reference.
fn again<E>(
    options: &LayoutScanOptions,
    at: u64,
    first: f64,
    time: &mut impl FnMut(LayoutOffset) -> Result<f64, E>,
    random: &mut Random,
) -> Result<Option<Slow>, E> {
    let mut turns: Vec<bool> = (0..2 * options.retests).map(|turn| turn % 2 == 0).collect();
    shuffle(&mut turns, random);
    let (mut retests, mut references) = (Vec::new(), Vec::new());
    for is_suspect in turns {
        let took = time(options.at(if is_suspect { at } else { 0 }))?;
        if is_suspect { retests.push(took) } else { references.push(took) }
    }
    let quickest = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let ratio = quickest(&retests) / quickest(&references);
    let layout = format!("layout:{}", options.at(at));
    let slow = Slow { layout, times_reference: ratio, first, retests };
    Ok((ratio > 1.0 + options.threshold).then_some(slow))
}

/// Fisher and Yates.
pub(super) fn shuffle<T>(turns: &mut [T], random: &mut Random) {
    for last in (1..turns.len()).rev() {
        turns.swap(last, (random.bits() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_layouts_are_found_among_noise_and_noise_is_not() {
        let options = LayoutScanOptions {
            first: LayoutOffset { pages: 100, stack: 0 },
            layouts: 500,
            step: 1,
            threshold: 0.1,
            retests: 5,
            seed: 1,
        };
        let mut noise = Random::seeded(7);
        let time = |moved: LayoutOffset| {
            let slow = if moved.pages % 128 == 9 { 1.3 } else { 1.0 };
            let late = if noise.bits().is_multiple_of(20) { 1.5 } else { 1.0 };
            Ok::<_, ()>(slow * late * (1.0 + (noise.bits() % 100) as f64 * 1e-4))
        };
        let found = scan(&options, time, |_, _, _| {}).unwrap();
        let mut layouts: Vec<_> = found.slow.iter().map(|slow| slow.layout.as_str()).collect();
        layouts.sort_unstable();
        assert_eq!(
            layouts,
            ["layout:0x109", "layout:0x189", "layout:0x209", "layout:0x89"][..][..]
        );
        assert!(found.passing > 5 && found.noise < 0.01, "{found:?}");
    }
}
