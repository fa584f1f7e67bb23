//! The ways to lie, tried by turns, and what they show.

use launch::layout::LayoutOffset;
use launch::{Arrangement, Command, Ended, arranged_start};
use stats::Random;

use super::region::{LayoutRegion, RegionMap};
use super::{ExplainError, ExplainOptions, LayoutCause, LayoutTrials, RegionTrial};
use crate::aslr::campaign::TimedBy;
use crate::aslr::scan::shuffle;

/// A way to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayoutTrial {
    /// As the kernel lays it out: the reference, or the layout.
    AsIs { is_slow: bool },
    /// Spread: the reference, or the layout.
    Spread { is_slow: bool },
    /// Spread, and this region alone as in the layout.
    Alone(usize),
    /// Spread, and all but this one.
    AllBut(usize),
}

/// The ways to lie, with what they took.
struct TrialTimes(Vec<(LayoutTrial, Vec<f64>)>);

/// Tries the layout, and then each of its regions.
pub(super) fn tried(
    command: &Command,
    options: &ExplainOptions,
    tell: &dyn Fn(&'static str, u64, u64),
) -> Result<LayoutTrials, ExplainError> {
    let map = region_map(command, options)?;
    let mut random = Random::seeded(options.seed);
    let mut run = |what, trials: Vec<LayoutTrial>| -> Result<TrialTimes, ExplainError> {
        let mut times = TrialTimes(trials.into_iter().map(|trial| (trial, Vec::new())).collect());
        let of = (options.rounds * times.0.len()) as u64;
        for round in 0..options.rounds {
            let mut turns: Vec<usize> = (0..times.0.len()).collect();
            shuffle(&mut turns, &mut random);
            for (turn, at) in turns.into_iter().enumerate() {
                tell(what, (round * times.0.len() + turn) as u64, of);
                let (layout, arrangement) = map.arranged(options, times.0[at].0);
                let took = time(command, options.by, layout, &arrangement)?;
                times.0[at].1.push(took);
            }
        }
        Ok(times)
    };
    let both = |form: fn(bool) -> LayoutTrial| [form(false), form(true)];
    let as_is = both(|is_slow| LayoutTrial::AsIs { is_slow });
    let spread = both(|is_slow| LayoutTrial::Spread { is_slow });
    let first = run("timing the layout", [as_is, spread].concat())?;
    let mut runs = first.runs();
    let [times_reference, spread_times] =
        [as_is, spread].map(|[reference, slow]| first.quickest(slow) / first.quickest(reference));
    let is_slow = |ratio: f64| ratio > 1.0 + options.threshold;
    let mut trials = LayoutTrials {
        layout: format!("layout:{}", options.slow),
        reference: format!("layout:{}", options.reference),
        cause: LayoutCause::NotSlow,
        threshold: options.threshold,
        runs,
        reference_time: first.quickest(as_is[0]),
        times_reference,
        spread_times_reference: is_slow(times_reference).then_some(spread_times),
        regions: Vec::new(),
    };
    if !is_slow(times_reference) {
        return Ok(trials);
    }
    if !is_slow(spread_times) {
        trials.cause = LayoutCause::Distance;
        return Ok(trials);
    }
    let each = (0..map.regions.len())
        .flat_map(|region| [LayoutTrial::Alone(region), LayoutTrial::AllBut(region)]);
    let moved = run("moving each region", spread.into_iter().chain(each).collect())?;
    runs += moved.runs();
    let ratio = |trial| moved.quickest(trial) / moved.quickest(spread[0]);
    trials.runs = runs;
    trials.regions = map
        .regions
        .iter()
        .enumerate()
        .map(|(at, region)| {
            let (alone, all_but) = (ratio(LayoutTrial::Alone(at)), ratio(LayoutTrial::AllBut(at)));
            outcome(region, alone, all_but)
        })
        .collect();
    trials.cause = judge(&mut trials.regions, is_slow);
    Ok(trials)
}

/// One run, in seconds from the program's first instruction.
fn time(
    command: &Command,
    by: TimedBy,
    layout: LayoutOffset,
    arrangement: &Arrangement,
) -> Result<f64, ExplainError> {
    let timed = arranged_start(command, layout, arrangement)?.timed()?;
    if timed.ended != Ended::Exited(0) {
        let layout = format!("layout:{layout}");
        return Err(ExplainError::Failed { ended: timed.ended, layout });
    }
    let took = match by {
        TimedBy::Cpu => timed.user + timed.system,
        TimedBy::Wall => timed.wall,
    };
    if took.is_zero() { Err(ExplainError::NoTime) } else { Ok(took.as_secs_f64()) }
}

/// Both layouts, as the kernel and the loader make them.
fn region_map(command: &Command, options: &ExplainOptions) -> Result<RegionMap, ExplainError> {
    let start = |layout| arranged_start(command, layout, &Arrangement::default());
    let reference = start(options.reference)?;
    let slow = start(options.slow)?;
    RegionMap::of(&reference, &slow, options).ok_or(ExplainError::Changes)
}

fn outcome(region: &LayoutRegion, alone: f64, all_but: f64) -> RegionTrial {
    RegionTrial {
        name: region.name.clone(),
        reference_at: region.at.map(|at| at[0]),
        layout_at: region.at.map(|at| at[1]),
        alone,
        all_but,
        matters: false,
    }
}

/// Which regions matter.
fn judge(regions: &mut [RegionTrial], is_slow: impl Fn(f64) -> bool) -> LayoutCause {
    let is_any_alone = regions.iter().any(|region| is_slow(region.alone));
    for region in &mut *regions {
        region.matters = match is_any_alone {
            true => is_slow(region.alone),
            false => !is_slow(region.all_but),
        };
    }
    match (is_any_alone, regions.iter().any(|region| region.matters)) {
        (true, _) => LayoutCause::Alone,
        (false, true) => LayoutCause::Together,
        (false, false) => LayoutCause::Unclear,
    }
}

impl TrialTimes {
    fn runs(&self) -> u64 {
        self.0.iter().map(|(_, times)| times.len() as u64).sum()
    }

    /// Noise only adds time.
    fn quickest(&self, trial: LayoutTrial) -> f64 {
        let of = self.0.iter().filter(|(other, _)| *other == trial).flat_map(|(_, times)| times);
        of.copied().fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(alone: f64, all_but: f64) -> RegionTrial {
        let (reference_at, layout_at) = (Some(0x1000), Some(0x2000));
        RegionTrial { name: "libm".into(), reference_at, layout_at, alone, all_but, matters: false }
    }

    #[test]
    fn a_region_matters_alone_or_where_none_does_so_together_with_others() {
        let judged = |ratios: &[(f64, f64)]| {
            let mut regions: Vec<_> =
                ratios.iter().map(|(alone, all_but)| region(*alone, *all_but)).collect();
            let cause = judge(&mut regions, |ratio| ratio > 1.1);
            (cause, regions.iter().map(|region| region.matters).collect::<Vec<_>>())
        };
        assert_eq!(judged(&[(1.5, 1.0), (1.0, 1.5)]), (LayoutCause::Alone, vec![true, false]));
        let three = [(1.0, 1.0), (1.02, 1.01), (1.0, 1.5)];
        assert_eq!(judged(&three), (LayoutCause::Together, vec![true, true, false]));
        assert_eq!(judged(&[(1.0, 1.5), (1.0, 1.5)]), (LayoutCause::Unclear, vec![false, false]));
    }
}
