//! `becalm python`: what imports ask of a filesystem.

mod bundle;
mod hooked;
mod importtime;
mod scan;

use crate::exit::Failure;

/// See what Python's imports ask of a filesystem, and why; pack them into one file
///
/// Both have --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm python scan -- python3 -c 'import numpy'
  becalm python bundle -o env.pybundle -- python3 -c 'import numpy'")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Bundle(Box<bundle::Args>),
    Scan(scan::Args),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.verb {
        Verb::Bundle(args) => bundle::run(args),
        Verb::Scan(args) => scan::run(args),
    }
}
