//! Which rank of which launch this process is, as its launcher says.
//!
//! Ranks of one launch start at one moment: what one of them has compared holds for the others, so
//! that a node asks once and not each rank. Whoever is no rank, and the rank that compared, may have
//! come back after an edit, and compare again.

use std::env;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::asked::JOBS;

/// For so long a comparison holds for other ranks of its launch.
pub(crate) const HOLDS: Duration = Duration::from_secs(60);
/// The variables by which launchers number ranks: Open MPI's, PMIx's, PMI's, Flux's, PALS', Slurm's.
const RANKS: [&str; 6] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "FLUX_TASK_RANK",
    "PALS_RANKID",
    "SLURM_PROCID",
];
/// What launchers call a launch, where it has a name that no other has.
const LAUNCHES: [&str; 3] = ["SLURM_STEP_ID", "PMIX_NAMESPACE", "PALS_APID"];
/// srun's, of a step that is talked to: a shell in it is no rank.
const TALKED_TO: &str = "SLURM_PTY_PORT";

/// A rank of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankOfLaunch {
    launch: String,
    rank: String,
}

impl RankOfLaunch {
    /// This process; none where no launcher says that it is a rank, as in a batch script or a shell.
    pub fn own() -> Option<RankOfLaunch> {
        let mut launch = values(&LAUNCHES);
        let (name, rank) = RANKS.iter().find_map(|name| Some((*name, env::var(name).ok()?)))?;
        // A batch script has the number 0 and no step.
        let is_shell = name == "SLURM_PROCID" && launch.is_empty();
        if is_shell || env::var_os(TALKED_TO).is_some() {
            return None;
        }
        if launch.is_empty() {
            // Ranks of one launch on a node have its daemon for a parent.
            launch = format!("{:?}", rustix::process::getppid());
        }
        Some(RankOfLaunch { launch: values(&JOBS) + &launch, rank })
    }

    /// Whether what `other` compared holds for this rank, if it was a moment ago.
    pub fn may_trust(&self, other: &RankOfLaunch) -> bool {
        self.launch == other.launch && self.rank != other.rank
    }
}

fn values(names: &[&str]) -> String {
    let value = |name: &&str| env::var(name).ok().map(|value| format!("{name}={value} "));
    names.iter().filter_map(value).collect()
}
