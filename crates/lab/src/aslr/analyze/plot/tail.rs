//! Which share of each arm took longer than a time.

use super::axis::Axis;
use super::svg::{Anchor, Svg, colour, short};
use crate::aslr::analyze::{Analysis, RankSamples};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 780.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 460.0;

/// The plot.
pub(in crate::aslr::analyze) fn tail(samples: &RankSamples, analysis: &Analysis) -> String {
    let title = "Which share of processes took longer";
    let mut svg = Svg::new(WIDTH, BOTTOM + 60.0, title);
    svg.label((LEFT, 20.0), Anchor::Start, title);
    let arms = &analysis.arms;
    let low = arms.iter().map(|arm| arm.times.min).fold(f64::INFINITY, f64::min);
    let high = arms.iter().map(|arm| arm.times.max).fold(analysis.limit, f64::max);
    let most = arms.iter().map(|arm| arm.times.n).max().unwrap_or(1).max(10);
    let times = Axis::of_times(low, high, LEFT, RIGHT);
    let shares = Axis::log(1.0 / most as f64, 1.0, BOTTOM, TOP);
    for (number, arm) in arms.iter().enumerate() {
        let mut values = samples.values(number);
        values.sort_unstable_by(f64::total_cmp);
        svg.curve(colour(number), &steps(&values, &times, &shares));
        let y = TOP + 20.0 * number as f64;
        svg.curve(colour(number), &[(RIGHT + 6.0, y - 4.0), (RIGHT + 18.0, y - 4.0)]);
        let label = format!("{}: {} of {} slow", short(&arm.name), arm.slow.seen, arm.slow.of);
        svg.label((RIGHT + 22.0, y), Anchor::Start, &label);
    }
    let limit = times.place(analysis.limit);
    svg.line((limit, TOP), (limit, BOTTOM), true);
    svg.label((limit, TOP - 4.0), Anchor::Middle, "slow");
    axes(&mut svg, &times, &shares);
    svg.end()
}

/// A step down at each value, but no two at one place.
fn steps(values: &[f64], times: &Axis, shares: &Axis) -> Vec<(f64, f64)> {
    let n = values.len() as f64;
    let mut places: Vec<(f64, f64)> = vec![(times.place(values[0]), shares.place(1.0))];
    for (at, value) in values.iter().enumerate() {
        let x = times.place(*value);
        // The last value is not exceeded: its step ends at the floor.
        let y = shares.place((values.len() - at - 1) as f64 / n);
        let (last_x, last_y) = places[places.len() - 1];
        if x - last_x < 0.5 && y - last_y < 0.5 && at + 1 < values.len() {
            continue;
        }
        places.extend([(x, last_y), (x, y)]);
    }
    places
}

fn axes(svg: &mut Svg, times: &Axis, shares: &Axis) {
    svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), false);
    svg.line((LEFT, TOP), (LEFT, BOTTOM), false);
    for tick in times.ticks() {
        let x = times.place(tick);
        svg.line((x, BOTTOM), (x, BOTTOM + 5.0), false);
        svg.label((x, BOTTOM + 20.0), Anchor::Middle, &format!("{}", tick as f32));
    }
    svg.label((RIGHT, BOTTOM + 40.0), Anchor::End, "seconds");
    for tick in shares.ticks() {
        let y = shares.place(tick);
        svg.line((LEFT - 5.0, y), (LEFT, y), false);
        svg.label((LEFT - 8.0, y + 4.0), Anchor::End, &format!("{}", tick as f32));
    }
}
