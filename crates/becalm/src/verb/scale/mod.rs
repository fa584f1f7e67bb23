//! `becalm scale`.

mod plot;
pub mod view;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use cost::{Bandwidth, Projection, RecordedStart, csv};
use explain::ExplainOptions;
use recording::{Nanos, Recording};

use crate::cost_options::CostOptions;
use crate::exit::Failure;
use crate::pictured;
use crate::recording_head::RecordingHead;
use crate::save::{self, OutputKind};
use view::ScaleAnswer;

/// Project how long a recorded start waits for a shared filesystem with many ranks
///
/// All ranks start at once on cold nodes of one metadata server. What a node caches, the first of
/// its ranks sends an RPC for; what it does not, every rank. docs/scale.md says how it is computed,
/// and how well that was met. Only what is on the shared filesystem counts: the network filesystems
/// of the recording; without any, everything but what the kernel serves from memory; or what
/// --below names.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm scale run.becalm --ranks 24576 --nodes 128 --profile lustre
  becalm scale before.becalm --vs after.becalm --ranks 4096
  becalm scale run.becalm --below /usr --csv scale.csv
  becalm scale run.becalm --profile gpfs --html scale.html")]
pub struct ScaleArgs {
    /// A recording that `becalm record` made
    recording: PathBuf,
    #[command(flatten)]
    cost: CostOptions,

    /// A recording of the same command after a fix
    #[arg(long, value_name = "RECORDING")]
    vs: Option<PathBuf>,
    /// At which rate a node sends to another, where what is read of an image is spread to all nodes
    #[arg(long, value_name = "RATE", default_value = "1GB/s")]
    network: Bandwidth,
    /// How long a rank computes, in seconds [default: as between the recorded calls]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    compute: Option<Nanos>,
    /// Write a picture, too, with this model as sliders: one HTML file that needs no network
    #[arg(long, value_name = "FILE", value_parser = pictured::file())]
    html: Option<PathBuf>,
    /// Write a row for each number of ranks
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print one JSON object (docs/schema/becalm.scale.md)
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Nanos, String> {
    let span = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let nanos = span.and_then(|span| u64::try_from(span.as_nanos()).ok());
    nanos.map(Nanos).ok_or_else(|| "give a number of seconds".to_owned())
}

const CSV: OutputKind = OutputKind {
    what: "projection",
    kind: "CSV file of becalm scale",
    is_one: |start| start.starts_with(b"ranks,nodes,"),
};

/// Runs the verb.
pub fn run(args: &ScaleArgs) -> Result<u8, Failure> {
    args.html.as_deref().map_or(Ok(()), |target| pictured::PICTURE.check(target))?;
    args.csv.as_deref().map_or(Ok(()), |target| CSV.check(target))?;
    let model = args.cost.model(None)?;
    let below = args.cost.below();
    let projected = |file: &Path| -> Result<(Recording, Projection), Failure> {
        let recording = crate::load::load(file)?;
        let start = RecordedStart::of(&recording, &below, args.compute);
        start.check().with_context(|| term::plain(&file.to_string_lossy()))?;
        let projection = model.project_spread(&start, args.network);
        drop(start);
        Ok((recording, projection))
    };
    let (recording, before) = projected(&args.recording)?;
    warn(&args.recording, &recording);
    let after = args.vs.as_deref().map(|file| projected(file).map(|after| (file, after)));
    let after = after.transpose()?;
    if let Some((file, (recording, after))) = &after {
        warn(file, recording);
        warn_of_another(&before, after, file);
    }
    if args.html.is_some() && model.profile.metadata_servers > 1 {
        let error = anyhow!("--mdts: the picture's sliders are of one metadata server");
        return Err(Failure::of_usage(error));
    }
    if let Some(target) = &args.html {
        let options = ExplainOptions { model: model.clone(), below, ..ExplainOptions::default() };
        let after = after.as_ref().map(|(file, (recording, _))| (*file, recording));
        let picture = pictured::of_recordings((&args.recording, &recording), after, &options);
        pictured::write(&picture, target, &args.recording)?;
    }
    let after = after.map(|(_, (_, after))| after);
    if let Some(target) = &args.csv {
        let text = csv(&before, after.as_ref());
        save::whole(target, &args.recording, |out| out.write_all(text.as_bytes()))?;
    }
    let scale = ScaleAnswer::of(model, before, after);
    term::print_answer(args.json, &scale, |columns| scale.render(columns, &next(args)))?;
    Ok(0)
}

/// What the recording does not show, the projection does not, either.
fn warn(file: &Path, recording: &Recording) {
    RecordingHead::of(file, recording).warnings().iter().for_each(|line| term::warn(line));
}

/// Two different programs can be compared, but seldom should.
fn warn_of_another(before: &Projection, after: &Projection, file: &Path) {
    if before.program != after.program {
        term::warn(&format!(
            "{}: is a recording of {}, the other one of {}: not the same program",
            term::plain(&file.to_string_lossy()),
            after.program,
            before.program
        ));
    }
}

/// What to do next: find what to mend, or prove that it is mended.
fn next(args: &ScaleArgs) -> String {
    match &args.vs {
        Some(after) => {
            format!(
                "becalm diff {} {} --paths",
                term::quoted_path(&args.recording),
                term::quoted_path(after)
            )
        }
        None => format!("becalm report {} --by prefix", term::quoted_path(&args.recording)),
    }
}
