//! `becalm calibrate`.

mod here;
mod interrupt;
mod rank;
mod ranks;
pub mod view;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use cost::FilesystemProfile;
use job::node_name;
use rehearse::measure::{FilesystemFigures, MeasuringTree, TreeError};

use crate::asked_to_end::asked_to_end;
use crate::exit::Failure;
use crate::save::{self, OutputKind};
use interrupt::Interrupt;
use view::CalibrationOutcome;

/// Measure a shared filesystem, and write the profile that check, rehearse and scale predict with
///
/// In a directory of its own below DIR, which is removed afterwards, files are made, looked up,
/// opened and read: by this node, or by all ranks that LAUNCHER starts. Where it is not local, that
/// takes about 35 s, as long as a client may cache names. docs/calibrate.md says what is done at most, and
/// what one node cannot see.
#[derive(clap::Args)]
#[command(after_help = "\
Status 1: nothing was measured, because DIR cannot be written to or LAUNCHER failed.

Examples, the second in a job:
  becalm calibrate ~/venv
  becalm calibrate /scratch/me --name scratch -- srun -N4 -n64
  becalm check --profile scratch -- python3 -c 'import numpy'
  becalm calibrate . -o here.toml; becalm scale run.becalm --profile ./here.toml")]
pub struct CalibrateArgs {
    /// A directory on the filesystem, in which you can make files
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,

    /// Write the profile to this file, not among your profiles
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// What the profile is called
    #[arg(long, value_name = "NAME", default_value = "measured", value_parser = name)]
    name: String,

    /// About so many seconds at most, not counting the wait for the launcher
    #[arg(long, value_name = "SECONDS", default_value_t = 50,
        value_parser = clap::value_parser!(u64).range(20..=55))]
    seconds: u64,

    /// Print one JSON object (docs/schema/becalm.calibrate.md)
    #[arg(long)]
    json: bool,

    /// Be one of the ranks, for the becalm that made this directory
    #[arg(long, value_name = "DIR", hide = true)]
    rank_in: Option<PathBuf>,

    /// What starts becalm on other nodes, in place of this one: srun, mpirun
    #[arg(last = true, value_name = "LAUNCHER")]
    launcher: Vec<OsString>,
}

/// The schema of what the verb answers.
const SCHEMA: &str = "becalm.calibrate/1";
/// How the profile's file begins: it may be written over by the next.
const HEAD: &str = "# Measured by becalm calibrate";

fn name(text: &str) -> Result<String, String> {
    let good = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    match !text.is_empty() && !text.starts_with('.') && text.chars().all(good) {
        true => Ok(text.to_owned()),
        false => Err("use letters, digits, '-', '_' and '.'".to_owned()),
    }
}

/// Runs the verb.
pub fn run(args: &CalibrateArgs) -> Result<u8, Failure> {
    if let Some(tree) = &args.rank_in {
        return rank::run(tree);
    }
    if job::LaunchedRank::one_of_many().is_some() {
        let error = anyhow!(
            "this is one rank of many: run it once, as becalm calibrate DIR -- srun …, which \
             starts the ranks"
        );
        return Err(Failure::of_usage(error));
    }
    let Some(directory) = args.directory.as_deref() else {
        return Err(Failure::of_usage(anyhow!(
            "no directory is given: becalm calibrate DIR, one on the filesystem to measure"
        )));
    };
    let target = target(args)?;
    if args.output.is_none() && FilesystemProfile::is_built_in(&args.name) {
        term::warn(&format!(
            "{} is a profile of becalm's, and this one takes its place for you, also where a verb takes it \
             without being asked; --name or -o gives it another",
            args.name
        ));
    }
    let begun = Instant::now();
    let (figures, left) = measured(args, directory)?;
    let about = about(directory, &figures);
    let measured = figures.profile(&args.name, about);
    let text =
        format!("{HEAD}.\n{}\n{}", view::comment(&figures, &measured), measured.profile.to_text());
    // What cannot be read back must not be among the user's profiles.
    FilesystemProfile::parse(&text, "what was measured")?;
    save::whole(&target, directory, |out| out.write_all(text.as_bytes()))?;
    let seconds = begun.elapsed().as_secs_f64();
    let outcome =
        CalibrationOutcome::of(directory, &target, args, figures, measured, (seconds, left));
    term::print_answer(args.json, &outcome, |columns| outcome.render(columns))?;
    Ok(0)
}

const PROFILE: OutputKind = OutputKind {
    what: "profile",
    kind: "profile that becalm calibrate wrote",
    is_one: |start| start.starts_with(HEAD.as_bytes()),
};

/// Where the profile goes: before anything is measured, whether it can be written there.
fn target(args: &CalibrateArgs) -> Result<PathBuf, Failure> {
    let target = match &args.output {
        Some(file) => file.clone(),
        None => {
            let own = FilesystemProfile::directory();
            fs::create_dir_all(&own)
                .with_context(|| format!("{}: cannot make it; name a file by -o", own.display()))?;
            own.join(format!("{}.toml", args.name))
        }
    };
    // An empty file is somebody's, too.
    if target.metadata().is_ok_and(|there| there.is_file() && there.len() == 0) {
        return Err(anyhow!(
            "cannot write the profile to {}: it exists and is no {}; choose another name or \
             remove it",
            term::plain(&target.to_string_lossy()),
            PROFILE.kind
        )
        .into());
    }
    PROFILE.check(&target)?;
    Ok(target)
}

/// Makes the directory, has it measured, removes it.
fn measured(
    args: &CalibrateArgs,
    directory: &Path,
) -> Result<(FilesystemFigures, Option<PathBuf>), Failure> {
    let interrupt = Interrupt::wait_for()?;
    let tree = MeasuringTree::make(directory).map_err(|error| match &error {
        TreeError::Directory { error: why, .. } if is_usage(why) => Failure::of_usage(error),
        _ => error.into(),
    })?;
    let progress = term::ProgressBar::new();
    progress.tell("making files", 0, STEPS);
    let filled = tree.fill(&node_name(), args.seconds, &|| interrupt.has_come());
    let figures = filled.map_err(Failure::from).and_then(|plan| match args.launcher.is_empty() {
        true => here::measure(&tree, &plan, &interrupt, &progress),
        false => ranks::measure(&args.launcher, &tree, &plan, &interrupt, &progress),
    });
    progress.tell("removing files", STEPS, STEPS);
    let removed = tree.remove();
    drop(progress);
    let left = removed.err().map(|(path, why)| {
        let shown = path.display();
        term::warn(&format!("{shown}: cannot be removed: {why}; remove it by hand: rm -r {shown}"));
        path
    });
    match interrupt.signal() {
        Some(signal) => {
            let said = format!("asked to end by signal {signal}: nothing was written");
            Err(asked_to_end(signal, said))
        }
        None => figures.map(|figures| (figures, left)),
    }
}

/// So many parts of the work are told of.
const STEPS: u64 = 6;

fn is_usage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// One line about the profile.
fn about(directory: &Path, figures: &FilesystemFigures) -> String {
    let nodes = term::number::counted(figures.nodes, "node", "nodes");
    let shown = recording::shown_name(directory);
    format!("{} at {shown}, measured from {nodes}", figures.kind)
}
