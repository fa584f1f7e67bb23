//! `becalm lab fork bench`.

pub mod view;

use lab::fork_bench::{ForkBenchOptions, bench};

use crate::exit::Failure;
use view::ForkBench;

/// Measure what starting a program costs here, by the size of who starts it
///
/// fork copies the page tables of the process that calls it, so that a large shell starts programs
/// slowly. Measures fork, vfork and posix_spawn from parents of 0 to 1000 MB, with huge pages and
/// without, beside the published times. Takes some seconds and 1 GB of memory.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm lab fork bench
  becalm lab fork bench --most 100 --rounds 51 --json")]
pub struct ForkBenchArgs {
    /// Leave larger parents out
    #[arg(long, value_name = "MB", default_value_t = 1000)]
    most: u64,

    /// How often each is measured
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = rounds())]
    rounds: u32,

    /// Print one JSON object (docs/schema/becalm.lab.fork.bench.md)
    #[arg(long)]
    json: bool,
}

fn rounds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000)
}

/// Runs the verb.
pub fn run(args: &ForkBenchArgs) -> Result<u8, Failure> {
    let options = ForkBenchOptions { rounds: args.rounds, most: args.most };
    let waiting = term::ProgressBar::new();
    let measured = bench(options, &|done, of| waiting.tell("starting from parents", done, of))?;
    drop(waiting);
    let answer = ForkBench::of(measured);
    answer.warnings().iter().for_each(|line| term::warn(line));
    term::print_answer(args.json, &answer, |columns| answer.render(columns))?;
    Ok(0)
}
