//! What `becalm check` finds: storms, and what belongs to none, by cause.

use explain::{ExplainedCalls, Storm};
use recording::{Attributor, Recording};

use crate::call_tree::{CallTree, GrowingTree, NOWHERE, ROOT};

/// The tree; of its root alone until it is known what is found.
pub fn tree(recording: &Recording, found: Option<&ExplainedCalls>) -> CallTree {
    let mut tree = GrowingTree::new();
    let mut of_call = vec![NOWHERE; recording.events.len()];
    let Some(found) = found else { return tree.grown(of_call) };
    let mut storms = vec![None; of_call.len()];
    for (storm, claim) in found.findings.storms.iter().zip(&found.claims) {
        let node = tree.add(ROOT, format!("{}: {}", storm.storm.name(), storm.title));
        claim.iter().for_each(|call| storms[*call as usize] = Some(node));
        if storm.storm == Storm::Data {
            tree.faults = Some((node, storm.predicted_wait.one_rank));
        }
    }
    let rest = tree.add(ROOT, "in no storm".to_owned());
    let mut attributor = Attributor::new(recording);
    let calls = of_call.iter_mut().zip(&recording.events).zip(storms);
    for ((node, event), storm) in calls.filter(|((_, event), _)| event.is_metadata()) {
        let cause = attributor.attribute(event).cause.name();
        *node = tree.below(storm.unwrap_or(rest), cause.as_bytes());
    }
    let faults = found.prediction.of_faults().one_rank;
    if tree.faults.is_none() && faults > 0.0 {
        tree.faults = Some((tree.below(rest, b"page faults"), faults));
    }
    tree.grown(of_call)
}
