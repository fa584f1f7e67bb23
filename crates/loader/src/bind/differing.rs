//! Because of which edits a start would load something else, or look up more: not all that it loads need stay
//! as it is, and one odd file in a store's every start would keep the whole store from being bound.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::resolve::{LoaderRun, Resolver};
use crate::PlannedWorld;

/// Makes the world in which these files alone are edited, by their numbers.
pub(super) type EditedWorld<'a> = dyn Fn(&dyn Fn(usize) -> bool) -> PlannedWorld<'a> + Sync + 'a;

/// A start, and the edited files in it, in its order.
pub(super) struct EditedStart<'a> {
    pub start: &'a LoaderRun,
    pub edited: Vec<usize>,
}

/// Of so many starts the files are looked for at a time: others differ because of the same ones.
const STARTS: usize = 16;

/// Of one start, so many files are looked for. After that all that is left is one.
const FILES: usize = 16;

/// The files because of whose edits some starts are not as they should be beside today's, at least one of each.
pub(super) fn because_of(
    resolver: &Resolver<'_>,
    with: &EditedWorld<'_>,
    starts: &[&EditedStart<'_>],
    is_right: impl Fn(&LoaderRun, &LoaderRun) -> bool + Sync,
) -> BTreeSet<usize> {
    let of_one = |edited: &&EditedStart<'_>| {
        let agrees = |these: &BTreeSet<usize>| {
            let world = with(&|number| these.contains(&number));
            let after = resolver.again(&world, edited.start);
            after.is_ok_and(|after| is_right(edited.start, &after))
        };
        disagreeing(&edited.edited, agrees)
    };
    let starts = &starts[..starts.len().min(STARTS)];
    starts.par_iter().flat_map_iter(of_one).collect()
}

/// Of edits that do not agree together, some without which the others do: each time the first that
/// does not agree with those before it.
fn disagreeing(edited: &[usize], agrees: impl Fn(&BTreeSet<usize>) -> bool) -> Vec<usize> {
    let (mut agreeing, mut left) = (BTreeSet::new(), edited);
    let mut found = Vec::new();
    let together = |agreeing: &BTreeSet<usize>, more: &[usize]| {
        agreeing.iter().chain(more).copied().collect::<BTreeSet<usize>>()
    };
    if !agrees(&agreeing) {
        return edited.to_vec();
    }
    while !agrees(&together(&agreeing, left)) {
        if found.len() == FILES {
            found.extend(left);
            break;
        }
        if left.is_empty() {
            // These agreed a moment ago: the files that are asked for are being changed.
            return edited.to_vec();
        }
        // `good` of them agree, `bad` of them do not.
        let (mut good, mut bad) = (0, left.len());
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            match agrees(&together(&agreeing, &left[..middle])) {
                true => good = middle,
                false => bad = middle,
            }
        }
        agreeing = together(&agreeing, &left[..good]);
        found.push(left[good]);
        left = &left[bad..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edits_that_do_not_agree_are_told_from_those_that_do() {
        let all: Vec<usize> = (0..100).collect();
        let without = |bad: &[usize]| {
            let bad = bad.to_vec();
            disagreeing(&all, move |edited| !bad.iter().any(|number| edited.contains(number)))
        };
        assert_eq!(without(&[0]), [0]);
        assert_eq!(without(&[99]), [99]);
        assert_eq!(without(&[3, 40, 41]), [3, 40, 41]);
        // Of two that disagree with each other only, the later one.
        let both = |edited: &BTreeSet<usize>| !(edited.contains(&7) && edited.contains(&70));
        assert_eq!(disagreeing(&all, both), [70]);
        // What differs with no edit at all is nobody's in particular, and of too many all are left.
        assert_eq!(disagreeing(&all, |_| false), all);
        assert_eq!(disagreeing(&all, BTreeSet::is_empty), all);
        // Where files are exchanged meanwhile, the same question gets another answer.
        let asked = std::cell::Cell::new(0);
        let at_random = |_: &BTreeSet<usize>| {
            asked.set(asked.get() + 1);
            asked.get() % 3 == 1
        };
        assert_eq!(disagreeing(&all[..1], at_random), [0]);
    }
}
