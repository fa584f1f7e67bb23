//! Which rank of a parallel job a recording is of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One rank of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rank {
    /// Its number, from 0.
    pub rank: u32,
    /// How many ranks the run has; none where the launcher does not say.
    #[serde(default)]
    pub size: Option<u32>,
    /// The node it runs on, by the launcher's name for it, else as `uname -n`.
    pub node: String,
    /// The launcher and its number for the run, such as `slurm 1234.0`. Ranks of one run have the
    /// same; one with a `?` is known on its own node only.
    pub run: String,
}

impl Rank {
    /// Whether two ranks may be of one run: they are, where the launcher gives it a number.
    pub fn may_be_with(&self, other: &Rank) -> bool {
        let known = |rank: &Rank| rank.run.split('?').next().unwrap_or_default().to_owned();
        self.run == other.run
            || (self.run.contains('?') && other.run.contains('?') && known(self) == known(other))
    }
}
