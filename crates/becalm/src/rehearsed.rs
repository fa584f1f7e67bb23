//! `--rehearse`: the verbs that run a command can run it on a rehearsed filesystem.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use cost::{FilesystemProfile, RpcKind};
use prove::{RunSurroundings, ServerCounts, SurroundingsStay};
use recording::{ByteUnits, Nanos, Recording};
use rehearse::report::RehearsalReport;
use rehearse::{Account, Rehearsal, RehearsalRequest};

use crate::cost_options::{JobOptions, NamedProfile, profile};
use crate::exit::Failure;
use crate::verb::check::RehearsedRun;

/// On which filesystem a command is run.
#[derive(clap::Args)]
pub struct RehearseOptions {
    /// Run it on a slow shared filesystem of this profile, on a cold node: nfs, lustre, gpfs or
    /// one of your own (becalm rehearse --profiles)
    #[arg(long, value_name = "PROFILE", value_parser = profile())]
    rehearse: Option<NamedProfile>,

    /// A directory that is on it [default: the directories that a cluster would share: /home, /opt
    /// and the like, and what the command names below /tmp]
    #[arg(long, value_name = "PATH", requires = "rehearse")]
    rehearse_path: Vec<PathBuf>,
}

impl RehearseOptions {
    /// What is to be rehearsed for these commands; nothing if that is not wanted.
    ///
    /// The directories stay writable: the command does what it does without a rehearsal.
    pub fn wanted(
        &self,
        commands: &[&[OsString]],
        job: &JobOptions,
    ) -> Result<Option<RehearsalRequest>, Failure> {
        let Some(name) = &self.rehearse else { return Ok(None) };
        let profile = job.profile(name)?;
        check_servers(&profile)?;
        let mut paths = self.rehearse_path.clone();
        if paths.is_empty() {
            paths = commands.iter().flat_map(|words| rehearse::shared_directories(words)).collect();
            paths.sort();
            paths.dedup();
        }
        if paths.is_empty() {
            let why = anyhow!("this machine has no directory that a cluster would share");
            return Err(Failure::of_command(why.context("name one with --rehearse-path")));
        }
        Ok(Some(RehearsalRequest { profile, paths, writable: true }))
    }
}

/// A node of a cluster, cold for each run.
pub struct ColdNode(pub RehearsalRequest);

impl RunSurroundings for ColdNode {
    fn words(&self) -> String {
        let profile = &self.0.profile;
        format!(
            "a cold node of a rehearsed {} (metadata latency {})",
            profile.title(),
            term::number::time(profile.latency())
        )
    }

    fn enter(&self) -> Result<Box<dyn SurroundingsStay>, String> {
        let entered = Rehearsal::enter(&self.0).map_err(|error| error.to_string())?;
        Ok(Box::new(EnteredNode(entered)))
    }
}

struct EnteredNode(Rehearsal);

impl SurroundingsStay for EnteredNode {
    fn leave(self: Box<Self>) -> Result<ServerCounts, String> {
        let account = self.0.finish().map_err(|error| error.to_string())?;
        Ok(server_counts(&account))
    }
}

/// What an account says of a whole run.
fn server_counts(account: &Account) -> ServerCounts {
    let all = account.metadata();
    let transferred = account.of(RpcKind::Read).and(account.of(RpcKind::Write));
    ServerCounts {
        rpcs: all.rpcs,
        enoent: all.enoent,
        waited_ns: all.waited + transferred.waited,
        queued_ns: all.queued + transferred.queued,
        bytes: ByteUnits(transferred.bytes),
    }
}

/// Enters the rehearsal for a command that this process runs itself.
pub fn enter(wanted: &RehearsalRequest) -> Result<Rehearsal, Failure> {
    Rehearsal::enter(wanted).context("cannot rehearse").map_err(Failure::of_command)
}

/// What a recorded run asked there, to be told by `check`.
pub fn told(
    wanted: &RehearsalRequest,
    entered: Rehearsal,
    recording: &Recording,
) -> Result<RehearsedRun, Failure> {
    let places = entered.places().to_vec();
    let account = entered.finish().map_err(Failure::of_command)?;
    let report =
        RehearsalReport::of(&account, &wanted.profile, &places, Duration::ZERO, Some(recording));
    Ok(RehearsedRun {
        profile: wanted.profile.name.clone(),
        cold_server: wanted.profile.cold_server,
        directories: places
            .iter()
            .map(|place| term::plain(&place.path.to_string_lossy()))
            .collect(),
        metadata_ops: report.rpcs,
        enoent: report.enoent,
        waiting_ns: Nanos(report.waiting_ns),
        waited_ns: Nanos(report.waited_ns),
        queued_ns: Nanos(report.queued_ns),
    })
}

/// A rehearsal has one queue.
pub fn check_servers(profile: &FilesystemProfile) -> Result<(), Failure> {
    match profile.metadata_servers {
        0 | 1 => Ok(()),
        _ => Err(Failure::of_usage(anyhow!(
            "--mdts: a rehearsal has one metadata server; becalm check and scale predict for several"
        ))),
    }
}
