//! The proof, as one value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::behaviour::{self, Behaviour};
use crate::counts::{self, CountComparison};
use crate::side::Side;
use crate::times::Times;
use crate::verdict::{ProofVerdict, is_proven};
use crate::words;

/// The schema that a proof is written in.
pub const SCHEMA: &str = "becalm.prove/1";

/// Before and after, and what they prove: docs/schema/becalm.prove.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// [`SCHEMA`].
    pub schema: String,
    /// The answer.
    pub verdict: ProofVerdict,
    /// What should be known before believing it.
    pub notes: Vec<String>,
    /// What became of the metadata operations.
    pub counts: CountComparison,
    /// Whether both behave the same.
    pub behaviour: Behaviour,
    /// What became of the times.
    pub times: Times,
    /// How it was measured.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// This machine's name.
    pub host: String,
    /// Its kernel's release.
    pub kernel: String,
    /// The one command.
    pub before: Side,
    /// The other.
    pub after: Side,
}

/// How the two sides were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// In which order the runs were made.
    pub order: RunOrder,
    /// Whether the output of the two is left out of the comparison.
    pub ignore_output: bool,
    /// Whether each run found the caches as the one before it left them.
    pub warm: bool,
    /// Where the runs were made, if not simply on this machine: it takes the filesystem's place
    /// in the verdict (`on …`).
    pub surroundings: Option<String>,
}

impl Conditions {
    /// Each side by itself, on this machine as it is, around a change that is made once.
    pub fn apart() -> Conditions {
        Conditions { order: RunOrder::Apart, ignore_output: false, warm: true, surroundings: None }
    }
}

/// In which order the runs were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunOrder {
    /// In pairs, one of each; a coin decided which came first.
    Interleaved {
        /// The coin's seed.
        seed: u64,
    },
    /// First all of before, then all of after: what else changed in between is in the times.
    Apart,
}

impl Proof {
    /// Draws the conclusions from two sides that were measured.
    pub fn of(before: Side, after: Side, conditions: Conditions) -> Proof {
        let counts = counts::compare(&before, &after);
        let behaviour = behaviour::compare(&before, &after, conditions.ignore_output);
        let times = Times::of(&before, &after, conditions.order);
        let proven = is_proven(&behaviour, counts.judged_by(), times.speed);
        let kernel = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
            text.unwrap_or_default().trim_end().to_owned()
        };
        let mut proof = Proof {
            schema: SCHEMA.to_owned(),
            verdict: ProofVerdict { proven, sentence: String::new() },
            notes: Vec::new(),
            counts,
            behaviour,
            times,
            conditions,
            host: kernel("hostname"),
            kernel: kernel("osrelease"),
            before,
            after,
        };
        proof.verdict.sentence = words::sentence(&proof);
        proof.notes = words::notes(&proof);
        proof
    }
}
