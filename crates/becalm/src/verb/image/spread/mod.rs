//! `becalm image spread`.

mod brought;
pub mod view;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use image::hot::{self, HotPart, HotPlace};
use job::{BroadcastMeans, LaunchedRank};

use crate::exit::Failure;
use brought::Nodes;
use view::{Spread, SpreadOutcome};

/// Bring what a start reads of an image to every node of a job, once
///
/// One node reads the hot part of the image, what its trace opened and the image's tables, and
/// brings it to the others: by Slurm's sbcast, else by srun or Open MPI's mpirun. It lies in
/// memory of each node, where `becalm run --image` finds it, and holds each piece against its digest as
/// it is read. All else, and all of it on a node that has none, is read from the image's own file.
#[derive(clap::Args)]
#[command(after_help = "\
Status 1: not every node of the job has it. A job runs all the same.

Examples, the first two in a batch script:
  becalm image spread env.sqsh
  becalm image spread --remove
  becalm image spread app.calm
  becalm image spread --send env.sqsh | flux exec -r all becalm image spread --receive")]
pub struct ImageSpreadArgs {
    /// The image: a squashfs or a SIF; or a calm file that has one
    #[arg(required_unless_present_any = ["receive", "remove"])]
    image: Option<PathBuf>,

    /// Bring it by this, and by nothing else [default: the first of these that works]
    #[arg(long, value_name = "MEANS", value_enum)]
    by: Option<Means>,

    /// Put it there on each node: /dev/shm, or TMPDIR (else /tmp) [default: the first that has room]
    #[arg(long, value_name = "PLACE", value_enum)]
    to: Option<Place>,

    /// No more content than that, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512,
        value_parser = clap::value_parser!(u64).range(1..=65_536))]
    most: u64,

    /// All of the image, whatever its trace read
    #[arg(long)]
    all: bool,

    /// Write the hot part to standard output, for something else to bring
    #[arg(long, conflicts_with_all = ["by", "json", "receive", "remove"])]
    send: bool,

    /// Take a hot part from standard input, for this node
    #[arg(long, conflicts_with_all = ["image", "by", "all", "remove"])]
    receive: bool,

    /// Remove what this job has on its nodes
    #[arg(long, conflicts_with_all = ["image", "all", "to"])]
    remove: bool,

    /// Say what happened in one line of JSON, for the becalm that started this one
    #[arg(long, hide = true)]
    tell: bool,

    /// Print one JSON object (docs/schema/becalm.image.spread.md)
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Means {
    /// Slurm's sbcast: the daemons of the nodes pass it on
    Sbcast,
    /// Slurm's srun: becalm on each node, given one node's copy
    Srun,
    /// Open MPI's mpirun: the same
    Mpirun,
    /// Nothing: for this node only
    Here,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Place {
    Shm,
    Tmpdir,
}

/// Runs the verb.
pub fn run(args: &ImageSpreadArgs) -> Result<u8, Failure> {
    if args.tell {
        return brought::tell(args.receive, &args.places());
    }
    hot::remove_ended();
    let outcome = if args.receive {
        if std::io::stdin().is_terminal() {
            return Err(Failure::of_usage(anyhow!("--receive: standard input is a terminal")));
        }
        received(args)?
    } else if args.remove {
        removed(args)?
    } else {
        let given = args.image.as_deref().unwrap_or(Path::new(""));
        let image = image_of(given)?;
        if args.send {
            return send(args, &image);
        }
        spread(args, &image)?
    };
    let status = u8::from(!outcome.is_everywhere());
    term::print_answer(args.json, &outcome, |columns| outcome.render(columns))?;
    Ok(status)
}

/// An image, or that of a calm file.
fn image_of(given: &Path) -> Result<PathBuf, Failure> {
    match cure::CalmFile::read(given) {
        Err(_) => Ok(given.to_owned()),
        Ok(calm) => match calm.image {
            Some(image) => Ok(image.file),
            None => Err(anyhow!("{}: this calm file has no image", given.display()).into()),
        },
    }
}

impl ImageSpreadArgs {
    fn places(&self) -> Vec<HotPlace> {
        match self.to {
            None => HotPlace::ALL.to_vec(),
            Some(Place::Shm) => vec![HotPlace::Shm],
            Some(Place::Tmpdir) => vec![HotPlace::Tmpdir],
        }
    }

    fn means(&self) -> Vec<BroadcastMeans> {
        match self.by {
            None => BroadcastMeans::usual(),
            Some(Means::Sbcast) => vec![BroadcastMeans::Sbcast],
            Some(Means::Srun) => vec![BroadcastMeans::Srun],
            Some(Means::Mpirun) => vec![BroadcastMeans::Mpirun],
            Some(Means::Here) => vec![BroadcastMeans::Here],
        }
    }

    /// What of the image was asked for: with another answer, what is there is not enough.
    fn asked(&self) -> String {
        format!("{} {}", self.most, self.all)
    }

    /// For becalm on another node.
    fn words(&self, verb: &str) -> Vec<std::ffi::OsString> {
        // The file itself, not the /proc of the process that is asked.
        let own = std::env::current_exe().unwrap_or_else(|_| "becalm".into());
        let mut words = vec![own.into_os_string()];
        words.extend(["image", "spread", verb, "--tell"].map(Into::into));
        let to = match self.to {
            Some(Place::Shm) if verb == "--receive" => Some("shm"),
            Some(Place::Tmpdir) if verb == "--receive" => Some("tmpdir"),
            _ => None,
        };
        words.extend(to.into_iter().flat_map(|to| ["--to", to]).map(Into::into));
        words
    }
}

fn spread(args: &ImageSpreadArgs, image: &Path) -> Result<SpreadOutcome, Failure> {
    if LaunchedRank::one_of_many().is_some() && args.by != Some(Means::Here) {
        return Err(Failure::of_usage(anyhow!(
            "this is one rank of many: spread once, in the batch script before srun or mpirun"
        )));
    }
    let begun = Instant::now();
    let asked = args.asked();
    if let Some(part) = hot::brought(image, &asked) {
        return Ok(SpreadOutcome::of(Spread::There, image, &part, begun));
    }
    let made = hot::make(image, &args.places(), args.all, args.most << 20)?;
    let mut outcome = SpreadOutcome::of(Spread::Spread, image, &made.part, begun);
    let target = made.target().to_owned();
    let mut made = Some(made);
    for means in args.means() {
        let done = match (means, made.as_ref()) {
            (BroadcastMeans::Here, _) => match made.take() {
                Some(made) => made.keep().map(|_| Nodes::one()).map_err(|error| error.to_string()),
                None => break,
            },
            (BroadcastMeans::Sbcast, Some(made)) => {
                BroadcastMeans::sbcast(made.path(), &target).map(|()| Nodes::of_job())
            }
            (means, Some(made)) => brought::send(means, made, &args.words("--receive")),
            (_, None) => break,
        };
        match done {
            Ok(nodes) => {
                outcome.brought(means.name(), nodes);
                break;
            }
            Err(why) => outcome.failed(means.name(), why),
        }
    }
    outcome.ended(begun);
    // Where this node is none of the job's, there is nothing to note.
    if outcome.is_everywhere() && HotPart::open(&target).is_ok() {
        hot::note_brought(&target, &asked)?;
    }
    Ok(outcome)
}

fn received(args: &ImageSpreadArgs) -> Result<SpreadOutcome, Failure> {
    let begun = Instant::now();
    let received = hot::receive(&mut std::io::stdin().lock(), &args.places())?;
    let mut outcome = SpreadOutcome::of(Spread::Received, Path::new("-"), &received.part, begun);
    outcome.at(&received.keep()?);
    outcome.brought(BroadcastMeans::Here.name(), Nodes::one());
    outcome.ended(begun);
    Ok(outcome)
}

fn send(args: &ImageSpreadArgs, image: &Path) -> Result<u8, Failure> {
    if std::io::stdout().is_terminal() {
        return Err(Failure::of_usage(anyhow!("--send: standard output is a terminal")));
    }
    let made = hot::make(image, &args.places(), args.all, args.most << 20)?;
    let mut file = std::fs::File::open(made.path()).context("what was made")?;
    let mut out = std::io::stdout().lock();
    std::io::copy(&mut file, &mut out)?;
    out.flush()?;
    Ok(0)
}

fn removed(args: &ImageSpreadArgs) -> Result<SpreadOutcome, Failure> {
    let begun = Instant::now();
    let mut outcome = SpreadOutcome::empty();
    // sbcast removes nothing.
    let means = args.means().into_iter().filter(|means| *means != BroadcastMeans::Sbcast);
    let mut means = means.peekable();
    if means.peek().is_none() {
        return Err(Failure::of_usage(anyhow!("--remove: name another means than sbcast")));
    }
    for means in means {
        let done = match means {
            BroadcastMeans::Here => Ok(Nodes::one()),
            means => brought::remove(means, &args.words("--remove")),
        };
        match done {
            Ok(nodes) => {
                outcome.brought(means.name(), nodes);
                break;
            }
            Err(why) => outcome.failed(means.name(), why),
        }
    }
    // Here as well, where this node is none of the job's.
    outcome.removed(hot::remove_of_job()?);
    outcome.ended(begun);
    Ok(outcome)
}
