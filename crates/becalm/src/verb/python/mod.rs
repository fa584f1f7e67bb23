//! `becalm python`: the metadata operations of imports.

mod hooked;
mod importtime;
pub mod scan;

use crate::exit::Failure;

/// See the metadata operations of Python's imports, and why they are made
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
