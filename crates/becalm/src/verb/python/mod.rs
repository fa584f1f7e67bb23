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
pub struct PythonArgs {
    #[command(subcommand)]
    verb: PythonVerb,
}

#[derive(clap::Subcommand)]
enum PythonVerb {
    Scan(scan::PythonScanArgs),
}

/// Runs the verb.
pub fn run(args: &PythonArgs) -> Result<u8, Failure> {
    match &args.verb {
        PythonVerb::Scan(args) => scan::run(args),
    }
}
