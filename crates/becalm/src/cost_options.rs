//! `--profile`, `--ranks` and what else a predicted wait depends on: the same for all verbs that
//! predict one.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use anyhow::Context;
use cost::{CostModel, FilesystemProfile, JobSize, ProfileError};

/// For which shared filesystem, and which job, a wait is predicted.
#[derive(clap::Args)]
pub struct CostOptions {
    /// The shared filesystem: nfs, lustre, gpfs, local, one of your own, or a file [default: the
    /// one of --rehearse, else nfs]
    #[arg(long, value_name = "PROFILE")]
    profile: Option<OsString>,

    #[command(flatten)]
    pub job: JobOptions,

    /// What is on the shared filesystem: this and all below it [default: the network filesystems of
    /// the recording; without any, everything but what the kernel serves from memory]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    below: Vec<PathBuf>,

    /// Predict for nodes that have had such a start before
    #[arg(long)]
    warm: bool,
}

/// How many ranks start at once, and what the server has in memory by then.
#[derive(clap::Args)]
pub struct JobOptions {
    /// How many ranks start at once
    #[arg(long, value_name = "N", default_value_t = JobSize::default().ranks,
          value_parser = from_one())]
    ranks: u64,

    /// On how many nodes
    #[arg(long, value_name = "M", conflicts_with = "ranks_per_node", value_parser = from_one())]
    nodes: Option<u64>,

    /// How many ranks share a node, and its cache
    #[arg(long, value_name = "K", default_value_t = JobSize::default().ranks_per_node,
          value_parser = from_one())]
    ranks_per_node: u64,

    /// Take the server to be cold: what is asked of it first, it reads from its disk
    #[arg(long)]
    cold_server: bool,
}

fn from_one() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=1_000_000_000)
}

impl CostOptions {
    /// The model that is asked for; `rehearsed` is the filesystem that the command is run on, where
    /// it is emulated.
    pub fn model(&self, rehearsed: Option<&FilesystemProfile>) -> Result<CostModel, ProfileError> {
        let profile = match (&self.profile, rehearsed) {
            (Some(name), _) => self.job.profile(name)?,
            (None, Some(rehearsed)) => rehearsed.clone(),
            (None, None) => self.job.profile(FilesystemProfile::DEFAULT.as_ref())?,
        };
        Ok(CostModel { profile, job: self.job.size(), warm: self.warm })
    }

    /// What was named as shared, absolute.
    pub fn below(&self) -> anyhow::Result<Vec<PathBuf>> {
        let below = self.below.iter().map(std::path::absolute).collect::<Result<Vec<_>, _>>();
        below.context("--below")
    }
}

impl JobOptions {
    /// The profile of this name, with the server that is asked for.
    pub fn profile(&self, name: &OsStr) -> Result<FilesystemProfile, ProfileError> {
        let profile = FilesystemProfile::find(name)?;
        if self.cold_server { profile.with_cold_server() } else { Ok(profile) }
    }

    /// The job that is asked for.
    pub fn size(&self) -> JobSize {
        match self.nodes {
            Some(nodes) => JobSize::on_nodes(self.ranks, nodes),
            None => JobSize { ranks: self.ranks, ranks_per_node: self.ranks_per_node },
        }
    }
}
