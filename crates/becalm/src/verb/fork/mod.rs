//! `becalm fork`: scripts that start thousands of tiny programs.

mod lines;

use crate::exit::Failure;
use crate::verb::lab::fork::{bench, collapse};

/// See which line of a script starts what, and what starting a program costs here
///
/// Each has --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm fork lines -- ./unpack.sh list.txt
  becalm fork bench
  becalm fork collapse $$")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Lines(lines::Args),
    Bench(bench::Args),
    Collapse(collapse::Args),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.verb {
        Verb::Lines(args) => lines::run(args),
        Verb::Bench(args) => bench::run(args),
        Verb::Collapse(args) => collapse::run(args),
    }
}
