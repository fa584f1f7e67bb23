//! `becalm prove`.

pub(super) mod view;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use cost::CostModel;
use launch::CommandLine;
use prove::{Proof, ProofBench, ProofPlan, RunSurroundings, Subject};

use crate::again;
use crate::asked_to_end::of_proof;
use crate::cost_options::JobOptions;
use crate::exit::{Failure, NO, USAGE};
use crate::pictured;
use crate::recorded::RecordRequest;
use crate::rehearsed::{ColdNode, RehearseOptions};
use crate::reporting_rank::refuse_many_ranks;
use crate::save::{self, OutputKind};

/// How often each command is recorded: twice shows whether its counts vary.
const RECORDINGS: usize = 2;

/// Prove that a change helps: run a command before and after, and compare counts, times, behaviour
///
/// Counts come from recordings, times from untraced runs, one of each in turns and in shuffled
/// order. Output and exit status of both must be equal. A command is split as a shell splits it;
/// VAR=value before it goes to its environment; what needs a shell needs sh -c '…'. Commands read
/// nothing, and have no terminal. Answers with exit status 0 (proven) or 1 (not).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm prove --before app --after 'LD_LIBRARY_PATH=/opt/farm app'
  becalm prove --runs 30 --before 'python3 old.py' --after 'python3 new.py'
  becalm prove --rehearse nfs --before ./app --after ./bound/app
  becalm prove --json --before 'app --version' --after 'app2 --version' | jq .verdict")]
pub struct ProveArgs {
    /// The command as it was
    #[arg(long, value_name = "CMD")]
    before: OsString,

    /// The command as it is now
    #[arg(long, value_name = "CMD")]
    after: OsString,

    /// How many timed runs of each [default: 10, more for quick commands: 3 s, at most 500]
    #[arg(long, value_name = "N", value_parser = from_one())]
    runs: Option<u64>,

    /// How many runs of each come first, to warm caches up, and do not count
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_one())]
    warmup: u64,

    /// Give up when a run takes longer
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// What each run reads from standard input
    #[arg(long, value_name = "FILE", default_value = "/dev/null", hide_default_value = true)]
    input: PathBuf,

    /// Run this first before each run of either, untimed
    #[arg(long, value_name = "CMD")]
    prepare: Option<OsString>,

    /// The same before each run of --before
    #[arg(long, value_name = "CMD")]
    prepare_before: Option<OsString>,

    /// The same before each run of --after
    #[arg(long, value_name = "CMD")]
    prepare_after: Option<OsString>,

    /// Compare the exit status only, for commands whose output tells the time or the like
    #[arg(long)]
    ignore_output: bool,

    #[command(flatten)]
    place: RehearseOptions,

    #[command(flatten)]
    job: JobOptions,

    /// Shuffle as the run that printed this seed (--json: order)
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Keep a recording of each in this directory, as before.becalm and after.becalm
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Print one JSON object (docs/schema/becalm.prove.md)
    #[arg(long)]
    json: bool,

    /// Write a picture of both recordings: one HTML file that needs no network
    #[arg(long, value_name = "FILE", value_parser = pictured::file())]
    html: Option<PathBuf>,

    /// Write that object to a file
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,

    /// Write a row for each of the two, as CSV whose first columns are hyperfine's
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,

    /// Write the verdict and a table, as Markdown
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
}

fn from_one() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=100_000)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.filter(|seconds| !seconds.is_zero());
    seconds.ok_or_else(|| "give a number of seconds above 0".to_owned())
}

/// Runs the verb.
pub fn run(args: &ProveArgs) -> Result<u8, Failure> {
    refuse_many_ranks(
        "prove",
        "give it the launcher: becalm prove --before 'srun … A' --after 'srun … B'",
    )?;
    let mut plan = plan(args)?;
    // Nothing that can be known before hours of runs is found out after them.
    check_files(args).map_err(Failure::of_command)?;
    let drawn = recordings_to_draw(args, &mut plan).map_err(Failure::of_command)?;
    let bar = term::ProgressBar::new();
    let proof = prove::interleaved(&plan, &mut |step| {
        bar.tell("running", step.done as u64, step.of as u64);
    });
    drop(bar);
    let proof = proof.map_err(of_proof)?;
    export(args, &proof).map_err(Failure::of_command)?;
    draw(args, &plan, &proof).map_err(Failure::of_command)?;
    drop(drawn);
    warn_of_blinds(&proof);
    term::print_answer(args.json, &proof, |columns| {
        view::proof(&proof, columns, &next(args, &proof))
    })
    .map_err(Failure::of_command)?;
    Ok(if proof.verdict.proven { 0 } else { NO })
}

fn plan(args: &ProveArgs) -> Result<ProofPlan, Failure> {
    let prepare = |own: &Option<OsString>, name: &str| {
        let both = args.prepare.iter().map(|line| ("--prepare", line));
        let all = both.chain(own.iter().map(|line| (name, line)));
        all.map(|(name, text)| line(name, text)).collect::<Result<Vec<_>, _>>()
    };
    let subject = |name: &str, text: &OsStr, prepare| -> Result<Subject, Failure> {
        let line = line(name, text)?;
        Ok(Subject { text: text.to_string_lossy().into_owned(), line, prepare })
    };
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let before =
        subject("--before", &args.before, prepare(&args.prepare_before, "--prepare-before")?)?;
    let after = subject("--after", &args.after, prepare(&args.prepare_after, "--prepare-after")?)?;
    let wanted = args.place.wanted(&[&before.line.argv, &after.line.argv], &args.job)?;
    let cost = wanted.as_ref().map(|wanted| CostModel {
        profile: wanted.profile.clone(),
        job: args.job.size(),
        warm: false,
    });
    let elsewhere = wanted.map(|wanted| Rc::new(ColdNode(wanted)) as Rc<dyn RunSurroundings>);
    Ok(ProofPlan {
        before,
        after,
        bench: ProofBench {
            input: args.input.clone(),
            timeout: args.timeout,
            recorder: RecordRequest::of(&[]).options(),
            recordings: RECORDINGS,
            elsewhere,
            cost,
        },
        runs: args.runs.map(number),
        warm_ups: number(args.warmup),
        // JSON's readers keep 53 bits of a number.
        seed: args.seed.unwrap_or(now.as_nanos() as u64 & ((1 << 53) - 1)),
        keep: args.keep.clone(),
        ignore_output: args.ignore_output,
    })
}

/// A command of the command line, split.
fn line(name: &str, text: &OsStr) -> Result<CommandLine, Failure> {
    CommandLine::parse(text).map_err(|error| {
        let text = text.to_string_lossy();
        Failure { status: USAGE, error: anyhow!("{name} '{text}': {error}") }
    })
}

const CSV: OutputKind = OutputKind {
    what: "proof",
    kind: "CSV file of becalm prove",
    is_one: |start| start.starts_with(b"command,mean,"),
};
const MARKDOWN: OutputKind = OutputKind {
    what: "proof",
    kind: "Markdown file of becalm prove",
    is_one: |start| {
        let head = b"| Command | Metadata operations |";
        start.windows(head.len()).any(|part| part == head)
    },
};

/// Fails if a file that is read or written later cannot be.
fn check_files(args: &ProveArgs) -> anyhow::Result<()> {
    launch::check_input(&args.input).with_context(|| name(&args.input))?;
    args.html.as_deref().map_or(Ok(()), |target| pictured::PICTURE.check(target))?;
    let exports = [
        (&args.export_json, &save::ANSWER),
        (&args.export_csv, &CSV),
        (&args.export_markdown, &MARKDOWN),
    ];
    for (target, kind) in exports {
        target.as_deref().map_or(Ok(()), |target| kind.check(target))?;
    }
    if let Some(directory) = &args.keep {
        fs::create_dir_all(directory).with_context(|| name(directory))?;
        for side in ["before.becalm", "after.becalm"] {
            let file = directory.join(side);
            check_target(&file)
                .and_then(|()| check_recording(&file))
                .and_then(|()| save::claim(&file))
                .with_context(|| name(&file))?;
        }
    }
    Ok(())
}

fn name(path: &Path) -> String {
    term::plain(&path.to_string_lossy())
}

/// Whether a file can be written to, or made.
fn check_target(target: &Path) -> anyhow::Result<()> {
    match fs::metadata(target) {
        Ok(there) if there.is_dir() => bail!("is a directory; give a file's name"),
        Ok(there) if there.is_file() => drop(File::options().write(true).open(target)?),
        Ok(_) => {}
        Err(_) => {
            let directory = target.parent().filter(|directory| *directory != Path::new(""));
            tempfile::tempfile_in(directory.unwrap_or(Path::new(".")))?;
        }
    }
    Ok(())
}

/// Nothing but a recording is written over by one.
fn check_recording(file: &Path) -> anyhow::Result<()> {
    let mut start = Vec::new();
    if let Ok(there) = File::open(file) {
        there.take(14).read_to_end(&mut start)?;
    }
    if !start.is_empty() && start != b"becalm-record " {
        bail!("it exists and is not a recording; choose another directory");
    }
    Ok(())
}

fn export(args: &ProveArgs, proof: &Proof) -> anyhow::Result<()> {
    let write = |target: &Option<PathBuf>, text: &str| match target {
        Some(target) => save::whole(target, Path::new(""), |out| out.write_all(text.as_bytes())),
        None => Ok(()),
    };
    write(&args.export_json, &term::json(proof)?)?;
    write(&args.export_csv, &prove::csv(proof))?;
    Ok(write(&args.export_markdown, &prove::markdown(proof))?)
}

/// Where the recordings are kept that a picture is made of, unless they are kept anyway.
fn recordings_to_draw(
    args: &ProveArgs,
    plan: &mut ProofPlan,
) -> anyhow::Result<Option<tempfile::TempDir>> {
    if args.html.is_none() || plan.keep.is_some() {
        return Ok(None);
    }
    let directory =
        launch::temporary_directory("becalm-prove-").context("a directory for recordings")?;
    plan.keep = Some(directory.path().to_owned());
    Ok(Some(directory))
}

/// Writes the picture of both recordings.
fn draw(args: &ProveArgs, plan: &ProofPlan, proof: &Proof) -> anyhow::Result<()> {
    let (Some(target), Some(kept)) = (&args.html, &plan.keep) else { return Ok(()) };
    let files = ["before.becalm", "after.becalm"].map(|side| kept.join(side));
    let [before, after] = [crate::load::load(&files[0])?, crate::load::load(&files[1])?];
    let mut options = explain::ExplainOptions::default();
    if let Some(model) = &plan.bench.cost {
        options.model = model.clone();
    }
    let both = ((files[0].as_path(), &before), Some((files[1].as_path(), &after)));
    let picture = pictured::of_recordings(both.0, both.1, &options);
    pictured::write(&picture.with_note(view::headline(proof)), target, Path::new(""))
}

/// What the recordings, and with them the counts, do not show.
fn warn_of_blinds(proof: &Proof) {
    for (name, side) in [("before", &proof.before), ("after", &proof.after)] {
        for line in explain::said(&side.blinds) {
            term::warn(&format!("{name}: {line}"));
        }
    }
}

/// What to do next: compare what can be compared; else look at what changed, in recordings that are kept.
fn next(args: &ProveArgs, proof: &Proof) -> String {
    match &args.keep {
        _ if proof.behaviour.has_varying_output() => again::with(1, &["--ignore-output"]),
        Some(directory) => {
            let file = |side: &str| term::quoted_path(directory.join(side));
            format!("becalm diff {} {} --paths", file("before.becalm"), file("after.becalm"))
        }
        None => again::with(1, &["--keep", "proof"]),
    }
}
