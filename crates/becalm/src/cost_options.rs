//! `--profile`, `--ranks` and what else a predicted wait depends on: the same for all verbs that
//! predict one.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use cost::{CostModel, FilesystemProfile, JobSize};

use crate::below::{self, NamedDirectory};
use crate::exit::Failure;

/// What stands beside the usual profile.
const OTHER: &str = "lustre";

/// For which shared filesystem, and which job, a wait is predicted.
#[derive(clap::Args)]
pub struct CostOptions {
    /// The shared filesystem: nfs, lustre, gpfs, local, one of your own, or a file [default: the
    /// one of --rehearse, else nfs]
    #[arg(long, value_name = "PROFILE", value_parser = profile())]
    profile: Option<NamedProfile>,

    #[command(flatten)]
    pub job: JobOptions,

    /// What is on the shared filesystem: this directory and all below it; may be given more than
    /// once [default: the network filesystems of the recording; without any, everything but what the
    /// kernel serves from memory]
    #[arg(long, value_name = "DIR", value_parser = below::directory())]
    below: Vec<NamedDirectory>,

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

    /// On how many metadata servers (MDTs) the directories are, each one on one of them
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    mdts: u32,
}

fn from_one() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=1_000_000_000)
}

/// The model where nothing is asked for.
pub fn usual_model() -> Result<CostModel, Failure> {
    let profile = FilesystemProfile::find(FilesystemProfile::DEFAULT.as_ref());
    let profile = profile.map_err(Failure::of_usage)?;
    Ok(CostModel { profile, ..CostModel::default() })
}

impl CostOptions {
    /// The model that is asked for; `rehearsed` is the filesystem that the command is run on, where
    /// it is emulated.
    pub fn model(&self, rehearsed: Option<&FilesystemProfile>) -> Result<CostModel, Failure> {
        let profile = match (&self.profile, rehearsed) {
            (Some(named), _) => self.job.profile(named)?,
            (None, Some(rehearsed)) => rehearsed.clone(),
            (None, None) => {
                let usual = FilesystemProfile::find(FilesystemProfile::DEFAULT.as_ref());
                self.job.with_server(usual.map_err(Failure::of_usage)?)?
            }
        };
        Ok(CostModel { profile, job: self.job.size(), warm: self.warm })
    }

    /// Other filesystems that the wait is told of: one of many metadata servers' make, where nobody
    /// has said which it is to be.
    pub fn other_models(
        &self,
        rehearsed: Option<&FilesystemProfile>,
    ) -> Result<Vec<CostModel>, Failure> {
        if self.profile.is_some() || rehearsed.is_some() {
            return Ok(Vec::new());
        }
        let profile = FilesystemProfile::find(OTHER.as_ref()).map_err(Failure::of_usage)?;
        let profile = self.job.with_server(profile)?;
        Ok(vec![CostModel { profile, job: self.job.size(), warm: self.warm }])
    }

    /// What was named as shared, by each of its names.
    pub fn below(&self) -> Vec<PathBuf> {
        self.below.iter().flat_map(NamedDirectory::names).cloned().collect()
    }

    /// The same for a command that is yet to run here.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn below_here(&self) -> Result<Vec<PathBuf>, Failure> {
        self.below.iter().try_for_each(NamedDirectory::must_exist)?;
        Ok(self.below())
    }
}

/// A profile, and the name by which it was chosen.
#[derive(Clone, Debug)]
pub struct NamedProfile {
    /// As it was given.
    pub name: OsString,
    profile: FilesystemProfile,
}

/// Finds a profile while the command line is read: one that there is not is wrong usage of any verb.
pub fn profile() -> impl TypedValueParser<Value = NamedProfile> {
    OsStringValueParser::new().try_map(|name| {
        FilesystemProfile::find(&name).map(|profile| NamedProfile { name, profile })
    })
}

impl JobOptions {
    /// The profile with the server that is asked for.
    pub fn profile(&self, named: &NamedProfile) -> Result<FilesystemProfile, Failure> {
        self.with_server(named.profile.clone())
    }

    fn with_server(&self, profile: FilesystemProfile) -> Result<FilesystemProfile, Failure> {
        let profile = profile.with_metadata_servers(self.mdts);
        let profile = if self.cold_server { profile.with_cold_server() } else { Ok(profile) };
        profile.map_err(Failure::of_usage)
    }

    /// The job that is asked for.
    pub fn size(&self) -> JobSize {
        match self.nodes {
            Some(nodes) => JobSize::on_nodes(self.ranks, nodes),
            None => JobSize { ranks: self.ranks, ranks_per_node: self.ranks_per_node },
        }
    }
}
