//! `becalm lab aslr verify`.

pub mod view;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use job::LaunchedRank;
use lab::aslr::verify;
use launch::layout::LayoutError;

use crate::exit::{FAILED, Failure, NO};
use crate::verb::run;
use view::AslrVerified;

/// Say whether all ranks of a job have one layout, and what makes them differ
///
/// With a command: starts it up to its first instruction, prints one line about this rank, and ends
/// it; nothing of the program itself runs. Without one: compares such lines. Answers with exit
/// status 0 (one layout), or 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  srun -n 16 becalm lab aslr verify --aslr job -- ./app > ranks
  becalm lab aslr verify ranks
  mpirun -n 16 becalm lab aslr verify -- ./app | becalm lab aslr verify -")]
pub struct LayoutVerifyArgs {
    /// What ranks have printed; - is standard input
    #[arg(required_unless_present = "command", conflicts_with = "command", value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    aslr: run::aslr::RunAslrArgs,

    /// Print one JSON object (docs/schema/becalm.lab.aslr.verify.md); a rank's line is always JSON
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Programs that only start the one that is meant.
const WRAPPERS: [&str; 14] = [
    "ash", "bash", "dash", "env", "mpiexec", "mpirun", "nice", "numactl", "setarch", "sh", "srun",
    "stdbuf", "taskset", "timeout",
];

/// Runs the verb.
pub fn run(args: &LayoutVerifyArgs) -> Result<u8, Failure> {
    if args.command.is_empty() { compare(args) } else { look(args) }
}

/// One rank's line.
fn look(args: &LayoutVerifyArgs) -> Result<u8, Failure> {
    let layout = run::aslr::draw(&args.aslr)?.map(|drawn| drawn.layout);
    let command = launch::Command::of(args.command.clone());
    let rank = LaunchedRank::rank_or_alone();
    if rank.rank == 0 {
        warn_of_wrapper(&args.command);
    }
    let found = verify::look(&command, layout, rank.rank, rank.node);
    let found = found.map_err(|why| match why {
        LayoutError::Command(why) => Failure { status: why.exit_status(), error: why.into() },
        why => Failure { status: FAILED, error: anyhow!(why) },
    })?;
    let line = term::json::line(&found).map_err(Failure::of_command)?;
    term::print(&format!("{line}\n"))?;
    Ok(0)
}

/// Says it where another program is looked at than the one that is meant.
fn warn_of_wrapper(command: &[OsString]) {
    let name = command.first().and_then(|word| Path::new(word).file_name()?.to_str());
    if let Some(name) = name.filter(|name| WRAPPERS.contains(name) && command.len() > 1) {
        term::warn(&format!(
            "these are the addresses of {name}, and not of a program that it starts: give that \
             program itself, or put becalm right before it"
        ));
    }
}

fn compare(args: &LayoutVerifyArgs) -> Result<u8, Failure> {
    let open = |path: &PathBuf| -> anyhow::Result<Box<dyn BufRead>> {
        if path.as_os_str() == "-" {
            return Ok(Box::new(io::stdin().lock()));
        }
        let file = File::open(path).with_context(|| path.display().to_string())?;
        Ok(Box::new(BufReader::new(file)))
    };
    let texts = args.files.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let verdict = verify::compare(texts)?;
    let one = verdict.is_one();
    let answer = AslrVerified::from(verdict);
    term::print_answer(args.json, &answer, |columns| answer.render(columns))?;
    Ok(if one { 0 } else { NO })
}
