//! `becalm lab fork`: what starting a program costs.

pub mod bench;
pub mod collapse;

use crate::exit::Failure;

/// Measure what starting a program costs here, and make it cheaper for a running process
///
/// Each has --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm lab fork bench
  becalm lab fork collapse $$")]
pub struct LabForkArgs {
    #[command(subcommand)]
    verb: LabForkVerb,
}

#[derive(clap::Subcommand)]
enum LabForkVerb {
    Bench(bench::ForkBenchArgs),
    Collapse(collapse::CollapseArgs),
}

/// Runs the verb.
pub fn run(args: &LabForkArgs) -> Result<u8, Failure> {
    match &args.verb {
        LabForkVerb::Bench(args) => bench::run(args),
        LabForkVerb::Collapse(args) => collapse::run(args),
    }
}
