//! `becalm python`: what imports ask of a filesystem.

mod hooked;
mod importtime;
mod scan;

use crate::exit::Failure;

/// See what Python's imports ask of a filesystem, and why
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm python scan -- python3 -c 'import numpy'")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Scan(scan::Args),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.verb {
        Verb::Scan(args) => scan::run(args),
    }
}
