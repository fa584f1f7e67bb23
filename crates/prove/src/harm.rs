//! Whether a change does harm: then it is not kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::behaviour::Behaviour;
use crate::counts::CountChange;
use crate::proof::Proof;
use crate::times::Speed;

/// What speaks against a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Harm {
    /// The command does not behave as before.
    Behaviour,
    /// It takes longer: the whole interval says so.
    Slower,
    /// It makes more metadata operations.
    MoreOperations,
}

impl Proof {
    /// What speaks against the change, the worst of it; `operations` is what became of the
    /// metadata operations. That nothing is proven speaks neither for it nor against it.
    pub fn harm(&self, operations: CountChange) -> Option<Harm> {
        harm(self.behaves_the_same(), operations, self.times.speed)
    }

    /// A command whose output tells the time cannot be compared, but its status can.
    fn behaves_the_same(&self) -> bool {
        match &self.behaviour {
            Behaviour::Same | Behaviour::SameStatus => true,
            Behaviour::Differs(_) => false,
            Behaviour::Varies { .. } => self.before.ended == self.after.ended,
        }
    }
}

fn harm(is_same: bool, operations: CountChange, speed: Speed) -> Option<Harm> {
    match (is_same, operations, speed) {
        (false, _, _) => Some(Harm::Behaviour),
        (_, _, Speed::Slower) => Some(Harm::Slower),
        (_, CountChange::More, _) => Some(Harm::MoreOperations),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_behaviour_a_longer_time_and_more_operations_are_harm_and_no_proof_is_none() {
        use {CountChange::*, Speed::*};
        assert_eq!(harm(false, Fewer, Faster), Some(Harm::Behaviour));
        assert_eq!(harm(true, Fewer, Slower), Some(Harm::Slower));
        assert_eq!(harm(true, Same, Slower), Some(Harm::Slower));
        assert_eq!(harm(true, More, NoDifference), Some(Harm::MoreOperations));
        for operations in [Fewer, Same, Unclear] {
            for speed in [Faster, NoDifference, TooFewRuns] {
                assert_eq!(harm(true, operations, speed), None, "{operations:?} {speed:?}");
            }
        }
    }
}
