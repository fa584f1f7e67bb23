//! `becalm fork`: scripts that start thousands of tiny programs.

pub mod lines;

use super::lab::fork::{bench, collapse};
use crate::exit::Failure;

/// See which line of a script starts what
///
/// It has --json.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  becalm fork lines -- ./unpack.sh list.txt")]
pub struct ForkArgs {
    #[command(subcommand)]
    verb: ForkVerb,
}

#[derive(clap::Subcommand)]
enum ForkVerb {
    Lines(lines::ForkLinesArgs),
    // As they were called before there was a laboratory.
    #[command(hide = true)]
    Bench(bench::ForkBenchArgs),
    #[command(hide = true)]
    Collapse(collapse::CollapseArgs),
}

/// Runs the verb.
pub fn run(args: &ForkArgs) -> Result<u8, Failure> {
    match &args.verb {
        ForkVerb::Lines(args) => lines::run(args),
        ForkVerb::Bench(args) => bench::run(args),
        ForkVerb::Collapse(args) => collapse::run(args),
    }
}
