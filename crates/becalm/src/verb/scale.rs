//! `becalm scale`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use cost::{CostModel, FilesystemProfile, JobSize, Projection, RecordedStart, csv};
use recording::{Nanos, Recording};
use show::Scale;

use crate::exit::{Failure, USAGE};
use crate::recording_head::RecordingHead;
use crate::save;

/// Project what a recorded start would cost many ranks on a shared filesystem
///
/// All ranks start at once on cold nodes and ask one metadata server. What a node keeps, the
/// first of its ranks asks; what it does not, every rank asks. docs/scale.md says how it is
/// computed, and how well that was met. Only what is on the shared filesystem counts: the
/// network filesystems of the recording; without any, all top directories that a compute node does
/// not have for itself; or what --below names.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm scale run.becalm --ranks 24576 --nodes 128 --profile lustre
  becalm scale before.becalm --vs after.becalm --ranks 4096
  becalm scale run.becalm --below /usr --csv scale.csv")]
pub struct Args {
    /// A recording that `becalm record` made
    recording: PathBuf,
    /// How many ranks start at once
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = from_one())]
    ranks: u64,
    /// On how many nodes
    #[arg(long, value_name = "M", conflicts_with = "ranks_per_node", value_parser = from_one())]
    nodes: Option<u64>,
    /// How many ranks share a node, and what it keeps
    #[arg(long, value_name = "K", default_value_t = 64, value_parser = from_one())]
    ranks_per_node: u64,
    /// The shared filesystem: nfs, lustre, gpfs, local, one of your own, or a file
    #[arg(long, value_name = "PROFILE", default_value = "nfs")]
    profile: OsString,
    /// A recording of the same command after a fix
    #[arg(long, value_name = "RECORDING")]
    vs: Option<PathBuf>,
    /// What is on the shared filesystem: this and all below it
    #[arg(long, value_name = "PATH", num_args = 1..)]
    below: Vec<PathBuf>,
    /// How long a rank computes, in seconds [default: as between the recorded calls]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    compute: Option<Nanos>,
    /// Start on nodes that have had such a start before
    #[arg(long)]
    warm: bool,
    /// Write a row for each number of ranks
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print one JSON object (docs/schema/becalm.scale.md)
    #[arg(long)]
    json: bool,
}

fn from_one() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=1_000_000_000)
}

fn seconds(text: &str) -> Result<Nanos, String> {
    let span = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let nanos = span.and_then(|span| u64::try_from(span.as_nanos()).ok());
    nanos.map(Nanos).ok_or_else(|| "give a number of seconds".to_owned())
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let profile = FilesystemProfile::find(&args.profile);
    let profile = profile.map_err(|error| Failure { status: USAGE, error: error.into() })?;
    let job = match args.nodes {
        Some(nodes) => JobSize::on_nodes(args.ranks, nodes),
        None => JobSize { ranks: args.ranks, ranks_per_node: args.ranks_per_node },
    };
    let below = args.below.iter().map(std::path::absolute).collect::<Result<Vec<_>, _>>();
    let below = below.context("--below")?;
    let model = CostModel { profile: profile.clone(), job, warm: args.warm };
    let projected = |file: &Path| -> Result<(Recording, Projection), Failure> {
        let recording = crate::load::load(file)?;
        let start = RecordedStart::of(&recording, &below, args.compute);
        start.check().with_context(|| show::plain(&file.to_string_lossy()))?;
        let projection = model.project(&start);
        drop(start);
        Ok((recording, projection))
    };
    let (recording, before) = projected(&args.recording)?;
    warn(&args.recording, &recording);
    let after = args.vs.as_deref().map(|file| projected(file).map(|after| (file, after)));
    let after = after.transpose()?.map(|(file, (recording, after))| {
        warn(file, &recording);
        warn_of_another(&before, &after, file);
        after
    });
    if let Some(target) = &args.csv {
        let text = csv(&before, after.as_ref());
        save::whole(target, &args.recording, |out| out.write_all(text.as_bytes()))?;
    }
    let scale = Scale::of(profile, job, args.warm, before, after);
    if args.json {
        show::print(&show::json(&scale)?)?;
    } else {
        show::print(&scale.render(show::width::terminal(), &next(args)))?;
    }
    Ok(0)
}

/// What the recording does not show, the projection does not, either.
fn warn(file: &Path, recording: &Recording) {
    RecordingHead::of(file, recording).warnings().iter().for_each(|line| show::warn(line));
}

/// Two different programs can be compared, but seldom should.
fn warn_of_another(before: &Projection, after: &Projection, file: &Path) {
    if before.program != after.program {
        show::warn(&format!(
            "{}: is a recording of {}, the other one of {}: not the same program",
            show::plain(&file.to_string_lossy()),
            after.program,
            before.program
        ));
    }
}

/// What to do next: find what to mend, or prove that it is mended.
fn next(args: &Args) -> String {
    let quoted = |file: &Path| show::quoted(file.as_os_str().as_bytes());
    match &args.vs {
        Some(after) => {
            format!("becalm diff {} {} --paths", quoted(&args.recording), quoted(after))
        }
        None => format!("becalm report {} --by prefix", quoted(&args.recording)),
    }
}
