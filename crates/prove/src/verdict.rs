//! The answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::behaviour::Behaviour;
use crate::counts::CountChange;
use crate::times::Speed;

/// Whether it is proven that the change helped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofVerdict {
    /// It behaves the same, asks a filesystem less or takes less time, and does not take more.
    pub proven: bool,
    /// The answer as a sentence.
    pub sentence: String,
}

impl ProofVerdict {
    /// The answer in a word or two, before its sentence.
    pub fn answer(&self) -> &'static str {
        if self.proven { "Proven" } else { "Not proven" }
    }
}

/// Whether the change helped: the same behaviour, fewer metadata operations or less time, and
/// not more time.
pub(crate) fn is_proven(behaviour: &Behaviour, change: CountChange, speed: Speed) -> bool {
    let same = matches!(behaviour, Behaviour::Same | Behaviour::SameStatus);
    let better = change == CountChange::Fewer || speed == Speed::Faster;
    same && better && speed != Speed::Slower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_operations_or_less_time_prove_it_if_it_behaves_the_same_and_is_not_slower() {
        use {CountChange::*, Speed::*};
        let same = |change, speed| is_proven(&Behaviour::Same, change, speed);
        assert!(same(Fewer, Faster) && same(Fewer, NoDifference) && same(Fewer, TooFewRuns));
        assert!(same(Same, Faster) && same(Unclear, Faster) && same(More, Faster));
        assert!(!same(Fewer, Slower) && !same(Same, Slower));
        assert!(
            !same(Same, NoDifference) && !same(More, NoDifference) && !same(Unclear, TooFewRuns)
        );
        let varies = Behaviour::Varies { side: "after".into(), what: "status".into() };
        assert!(!is_proven(&varies, Fewer, Faster));
        assert!(is_proven(&Behaviour::SameStatus, Fewer, Faster));
    }
}
