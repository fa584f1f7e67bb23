//! Every process as a mark in the strip of its arm.

use std::collections::HashSet;

use super::axis::Axis;
use super::svg::{Anchor, Svg, colour, short};
use crate::aslr::analyze::{Analysis, RankSamples};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 940.0;
const TOP: f64 = 40.0;
/// From one strip to the next, and how much of that marks take.
const STRIP: f64 = 90.0;
const MARKS: u64 = 60;

/// The plot.
pub(in crate::aslr::analyze) fn strip(samples: &RankSamples, analysis: &Analysis) -> String {
    let bottom = TOP + STRIP * analysis.arms.len() as f64;
    let title = "Every process, by its time";
    let mut svg = Svg::new(WIDTH, bottom + 50.0, title);
    svg.label((LEFT, 20.0), Anchor::Start, title);
    let low = analysis.arms.iter().map(|arm| arm.times.min).fold(f64::INFINITY, f64::min);
    let high = analysis.arms.iter().map(|arm| arm.times.max).fold(analysis.limit, f64::max);
    let axis = Axis::of_times(low, high, LEFT, RIGHT);
    for (number, arm) in analysis.arms.iter().enumerate() {
        let top = TOP + STRIP * number as f64;
        svg.label((LEFT - 8.0, top + STRIP / 2.0), Anchor::End, short(&arm.name));
        let places: HashSet<_> = samples
            .of_arm(number)
            .enumerate()
            .map(|(at, sample)| (axis.place(sample.value) as u32, (top + height(at)) as u32))
            .collect();
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_unstable();
        svg.dots(colour(number), places.into_iter());
    }
    for (at, slow) in analysis.slow_ranks.iter().enumerate() {
        let arm = analysis.arms.iter().position(|arm| arm.name == slow.arm).unwrap_or(0);
        let place = (axis.place(slow.time), TOP + STRIP * arm as f64 + height(at));
        svg.circle(
            colour(arm),
            place,
            &format!("rank {} of {}: {}", slow.rank, slow.file, slow.why),
        );
    }
    let limit = axis.place(analysis.limit);
    svg.line((limit, TOP), (limit, bottom), true);
    svg.label((limit, TOP - 4.0), Anchor::Middle, "slow");
    svg.line((LEFT, bottom), (RIGHT, bottom), false);
    for tick in axis.ticks() {
        let x = axis.place(tick);
        svg.line((x, bottom), (x, bottom + 5.0), false);
        svg.label((x, bottom + 20.0), Anchor::Middle, &format!("{}", tick as f32));
    }
    svg.label((RIGHT, bottom + 40.0), Anchor::End, "seconds");
    svg.end()
}

/// How far down its strip a mark is: spread evenly, the same in every plot (multiples of the
/// golden ratio).
fn height(at: usize) -> f64 {
    let spread = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    15.0 + ((spread * MARKS) >> 32) as f64
}
