//! Why nothing can be told, where that is so: better said than guessed.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::compare::{ArmComparison, ComparedUnit};
use super::count::SlowTally;
use super::limit::SlowLimits;
use super::read::RankSamples;

/// Jobs whose sizes differ by less than this share are taken for equal: lines get lost.
const ALIKE: f64 = 0.1;

/// Why nothing can be told of the arms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// Jobs are of several speeds: which is the usual one, nobody can tell.
    Speeds,
    /// Jobs of one arm have more processes than those of another, and so more slow ones.
    Sizes,
    /// No node has run jobs of both arms: what differs may be the nodes.
    Nodes,
}

pub(super) fn doubt(
    limits: &SlowLimits,
    tally: &SlowTally,
    samples: &RankSamples,
    baseline: usize,
    comparisons: &[ArmComparison],
) -> Option<Doubt> {
    if limits.are_of_several_speeds {
        return Some(Doubt::Speeds);
    }
    let by_jobs = comparisons.iter().any(|comparison| comparison.by == ComparedUnit::Jobs);
    let size = |arm| {
        let jobs = tally.of_arm(samples, arm).count();
        tally.processes(samples, arm).of as f64 / jobs.max(1) as f64
    };
    let sizes: Vec<f64> = (0..samples.arms.len()).map(size).collect();
    let least = sizes.iter().copied().fold(f64::INFINITY, f64::min);
    let most = sizes.iter().copied().fold(0.0, f64::max);
    if by_jobs && most > least * (1.0 + ALIKE) {
        return Some(Doubt::Sizes);
    }
    share_no_node(samples, baseline).then_some(Doubt::Nodes)
}

/// Whether an arm has run on other nodes than the baseline, all of whose processes tell theirs.
fn share_no_node(samples: &RankSamples, baseline: usize) -> bool {
    let mut nodes: Vec<Option<HashSet<&str>>> = vec![Some(HashSet::new()); samples.arms.len()];
    for sample in &samples.samples {
        let node = samples.details(sample).and_then(|details| details.node.as_deref());
        let of_arm = &mut nodes[samples.run(sample).arm];
        match (node, of_arm.as_mut()) {
            (Some(node), Some(told)) => _ = told.insert(node),
            _ => *of_arm = None,
        }
    }
    let Some(of_baseline) = nodes[baseline].take() else { return false };
    nodes.iter().flatten().any(|of_arm| of_arm.is_disjoint(&of_baseline))
}
