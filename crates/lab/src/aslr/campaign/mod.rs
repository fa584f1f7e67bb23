//! Many processes of arms that differ in their layout only: run, timed, written down.
//!
//! | file | what it holds |
//! |---|---|
//! | `plan` | arms, blocks, the shuffled order; what makes a campaign the same one |
//! | `expected` | what a size can show, before it is run |
//! | `kernel`, `kernel.c` | the repeated-pow test, compiled on the spot |
//! | `rank` | one rank: started with its layout, timed, told in a line |
//! | `control` | a loop that has no layout, timed beside a rank |
//! | `start` | a job: all of its ranks, by the launcher |
//! | `gather` | what they have printed, as a process each |
//! | `output` | their output, line by line |
//! | `run` | block after block, and slow ranks started again |
//! | `logged` | the log, which can go on after an interruption |
//! | `batch` | a script for Slurm |

mod batch;
mod control;
mod expected;
mod gather;
mod kernel;
mod logged;
mod output;
mod plan;
mod rank;
mod run;
mod start;

pub use batch::Batch;
pub use expected::Expected;
pub use gather::GatherError;
pub use kernel::{Kernel, KernelError};
pub use logged::{Logged, LoggedError};
pub use plan::{CampaignArm, CampaignJob, CampaignPlan, TimedBy};
pub use rank::{RankDetails, RankError, RankMeasures, RankStart, run as run_rank};
pub use run::{CampaignOptions, CampaignOutcome, RunError};
pub use start::{JobStart, StartError, Starter};
