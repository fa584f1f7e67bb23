//! `becalm aslr`: whether an unlucky address layout slows one process in thousands.

mod analyze;
mod campaign;
mod rank;
mod scan;
mod verify;

use crate::exit::Failure;

/// See whether an unlucky address layout slows one process in thousands
///
/// Each has --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm aslr analyze on.log off.log
  srun -n 16 becalm aslr verify --aslr job -- ./app | becalm aslr verify -
  becalm aslr scan -- ./kernel
  becalm aslr campaign --blocks 100")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Analyze(analyze::Args),
    Verify(verify::Args),
    Scan(scan::Args),
    Campaign(Box<campaign::Args>),
    #[command(hide = true)]
    Rank(rank::Args),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.verb {
        Verb::Analyze(args) => analyze::run(args),
        Verb::Verify(args) => verify::run(args),
        Verb::Scan(args) => scan::run(args),
        Verb::Campaign(args) => campaign::run(args),
        Verb::Rank(args) => rank::run(args),
    }
}
