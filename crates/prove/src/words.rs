//! The answer as a sentence, and what should be known before believing it.

use launch::Ended;
use stats::{Interval, Ratio};
use term::number::count;

use crate::behaviour::{Behaviour, ending};
use crate::counts::{CountChange, range};
use crate::proof::{Proof, RunOrder};
use crate::side::Side;
use crate::times::Speed;

/// `metadata operations 5,737 to 153 (openat 5,565 to 152), same output, same status; on this warm
/// local disk (ext4) no slower, 1.7 times faster (95 % 1.5-1.9)`.
pub(crate) fn sentence(proof: &Proof) -> String {
    format!("{}, {}; on {} {}", operations(proof), behaviour(proof), place(proof), speed(proof))
}

fn operations(proof: &Proof) -> String {
    match proof.counts.rpcs {
        Some(change) => rpcs(proof, change),
        None => calls(proof),
    }
}

/// What reached the server of a rehearsed filesystem.
fn rpcs(proof: &Proof, change: CountChange) -> String {
    let [before, after] = [&proof.before, &proof.after].map(|side| ranged(side.served_range()));
    match change {
        CountChange::Fewer => format!("RPCs to the server {before} to {after}"),
        CountChange::More => format!("more RPCs to the server: {before} to {after}"),
        CountChange::Same => format!("as many RPCs to the server ({before})"),
        CountChange::Unclear => {
            format!("no difference shown in RPCs to the server ({before} to {after})")
        }
    }
}

/// What the commands asked, whoever answered.
fn calls(proof: &Proof) -> String {
    let (before, after) = (proof.before.first_counted(), proof.after.first_counted());
    let to = |name: &str, before: u64, after: u64| {
        format!("{name} {} to {}", count(before), count(after))
    };
    match (proof.counts.change, &proof.counts.headline) {
        (CountChange::Fewer, call) => {
            let all = to("metadata operations", before.metadata_ops, after.metadata_ops);
            let most = call.as_ref().map(|call| {
                format!(" ({})", to(call, before.call(call).calls, after.call(call).calls))
            });
            all + &most.unwrap_or_default()
        }
        (CountChange::More, _) => {
            to("more metadata operations:", before.metadata_ops, after.metadata_ops)
        }
        (CountChange::Same, _) => {
            format!("as many metadata operations ({})", count(before.metadata_ops))
        }
        (CountChange::Unclear, _) => format!(
            "no difference shown in metadata operations ({} to {})",
            spread(&proof.before),
            spread(&proof.after)
        ),
    }
}

/// The metadata operations of several recordings.
fn spread(side: &Side) -> String {
    ranged(range(&side.counted))
}

/// `152`, or `150-155`.
fn ranged(range: Option<(u64, u64)>) -> String {
    match range {
        None => "not recorded".to_owned(),
        Some((fewest, most)) if fewest == most => count(most),
        Some((fewest, most)) => format!("{}-{}", count(fewest), count(most)),
    }
}

fn behaviour(proof: &Proof) -> String {
    match &proof.behaviour {
        Behaviour::Same => "same output, same status".to_owned(),
        Behaviour::SameStatus => "same status, output not compared".to_owned(),
        Behaviour::Differs(difference) => format!("but not the same {}", difference.what),
        Behaviour::Varies { side, what } => {
            format!("but the {what} of {side} differs from run to run, so it cannot be compared")
        }
    }
}

fn place(proof: &Proof) -> String {
    if let Some(surroundings) = &proof.conditions.surroundings {
        return surroundings.clone();
    }
    let warm = if proof.conditions.warm { "warm " } else { "" };
    let of = |side: &Side| match &side.place {
        Some(place) => format!("{warm}{}", place.words()),
        None => format!("{warm}machine"),
    };
    let (before, after) = (of(&proof.before), of(&proof.after));
    let place = match before == after {
        true => format!("this {before}"),
        false => format!("this {before} before and {after} after,"),
    };
    if proof.conditions.warm { place } else { format!("{place}, prepared before each run,") }
}

fn speed(proof: &Proof) -> String {
    let fraction = |ratio: Ratio| {
        let interval = ratio.interval?;
        Some((ratio.ratio, interval))
    };
    let times = &proof.times;
    match (times.speed, times.ratio.and_then(fraction)) {
        (Speed::Faster, Some((ratio, interval))) => {
            format!("no slower, {}", factor("times faster", ratio, interval))
        }
        (Speed::Slower, Some((ratio, interval))) => {
            let turned =
                Interval { low: 1.0 / interval.high, high: 1.0 / interval.low, ..interval };
            factor("times slower", 1.0 / ratio, turned)
        }
        (Speed::NoDifference, Some((ratio, interval))) => {
            format!("no difference shown ({})", between("times as fast,", ratio, interval))
        }
        _ => format!(
            "no difference shown in time (too few runs to tell: {}, it takes {})",
            proof.before.runs.len().min(proof.after.runs.len()),
            stats::SMALLEST_SERIES
        ),
    }
}

fn factor(words: &str, ratio: f64, interval: Interval) -> String {
    let [ratio, low, high] = numbers(ratio, interval);
    format!("{ratio} {words} (95 % {low}-{high})")
}

fn between(words: &str, ratio: f64, interval: Interval) -> String {
    let [ratio, low, high] = numbers(ratio, interval);
    format!("{ratio} {words} 95 % {low}-{high}")
}

/// With as many digits as it takes to tell the nearest from 1.
fn numbers(ratio: f64, interval: Interval) -> [String; 3] {
    let nearest = [ratio, interval.low, interval.high]
        .map(|number| (number - 1.0).abs())
        .into_iter()
        .fold(f64::INFINITY, f64::min);
    let digits = match nearest {
        nearest if nearest >= 0.1 => 1,
        nearest if nearest >= 0.01 || interval.holds(1.0) => 2,
        _ => 3,
    };
    [ratio, interval.low, interval.high].map(|number| format!("{number:.digits$}"))
}

/// What should be known before believing the verdict, most important first.
pub(crate) fn notes(proof: &Proof) -> Vec<String> {
    let mut notes = Vec::new();
    if let Behaviour::Differs(difference) = &proof.behaviour {
        notes.push(format!("{} differs: {}", difference.what, difference.first));
    }
    if let Behaviour::Varies { .. } = proof.behaviour {
        notes.push("--ignore-output compares the status alone".to_owned());
    }
    if proof.before.ended == proof.after.ended && proof.before.ended != Ended::Exited(0) {
        notes.push(format!("both commands failed: {}", ending(proof.before.ended)));
    }
    if proof.conditions.order == RunOrder::Apart {
        let text = "all runs of before were made first, then all of after: whatever else changed \
                    on this machine meanwhile is in the times";
        notes.push(text.to_owned());
        notes.extend(drift("before", &proof.before).or_else(|| drift("after", &proof.after)));
    }
    if proof.times.speed == Speed::Faster && proof.counts.judged_by() == CountChange::More {
        let text = "faster here, but with more metadata operations: on a shared filesystem it may \
                    be slower";
        notes.push(text.to_owned());
    }
    for (name, side) in [("before", &proof.before), ("after", &proof.after)] {
        notes.extend(side_notes(name, side));
    }
    notes
}

/// Where runs come in pairs, what drifts hits both of a pair; where they do not, it is in the
/// times.
fn drift(name: &str, side: &Side) -> Option<String> {
    let drifts = stats::trend(&side.wall_seconds()).abs() > 3.0;
    drifts.then(|| format!("times of {name} drift: something else does change meanwhile"))
}

fn side_notes(name: &str, side: &Side) -> Vec<String> {
    let mut notes = Vec::new();
    if range(&side.counted).is_some_and(|(fewest, most)| fewest < most) {
        let text =
            format!("counts of {name} vary from run to run: {} metadata operations", spread(side));
        notes.push(text);
    }
    if side.left_processes {
        notes.push(format!("{name} left processes running, which were not waited for"));
    }
    let walls = side.wall_seconds();
    let spread = stats::Summary::of(&walls)
        .map_or(0.0, |summary| (summary.upper_quartile - summary.lower_quartile) / summary.median);
    let outliers = stats::outliers(&walls);
    if spread > 0.1 {
        notes.push(format!(
            "times of {name} vary (their quartiles are {:.0} % apart): on a quieter machine, or \
             with more --runs, the interval would be narrower",
            spread * 100.0
        ));
    } else if outliers * 10 > walls.len() {
        let are = if outliers == 1 { "is an outlier" } else { "are outliers" };
        notes.push(format!("{outliers} of {} times of {name} {are}", walls.len()));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(ratio: f64, low: f64, high: f64) -> String {
        factor("times faster", ratio, Interval { low, high, coverage: 0.95 })
    }

    #[test]
    fn a_ratio_has_the_digits_that_tell_it_from_one() {
        assert_eq!(told(1.7, 1.5, 1.9), "1.7 times faster (95 % 1.5-1.9)");
        assert_eq!(told(1.05, 1.02, 1.09), "1.05 times faster (95 % 1.02-1.09)");
        assert_eq!(told(1.005, 1.002, 1.009), "1.005 times faster (95 % 1.002-1.009)");
        assert_eq!(told(36.6, 30.1, 40.9), "36.6 times faster (95 % 30.1-40.9)");
    }
}
