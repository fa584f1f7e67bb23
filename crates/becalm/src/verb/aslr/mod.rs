//! `becalm aslr`: whether an unlucky address layout slows one process in thousands.

mod analyze;

use crate::exit::Failure;

/// See whether an unlucky address layout slows one process in thousands
///
/// Each has --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm aslr analyze on.log off.log")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Analyze(analyze::Args),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.verb {
        Verb::Analyze(args) => analyze::run(args),
    }
}
