//! `becalm lab`: the laboratory.

pub mod aslr;
pub mod fork;
pub mod profile;

use crate::exit::Failure;

/// The laboratory: address layouts, what starting a program costs, where time goes
///
/// Each has --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm lab aslr analyze on.log off.log
  becalm lab fork bench
  becalm lab profile -- ./unpack.sh list.txt")]
pub struct LabArgs {
    #[command(subcommand)]
    verb: LabVerb,
}

#[derive(clap::Subcommand)]
enum LabVerb {
    Aslr(aslr::AslrArgs),
    Fork(fork::LabForkArgs),
    Profile(profile::ProfileArgs),
}

/// Runs the verb.
pub fn run(args: &LabArgs) -> Result<u8, Failure> {
    match &args.verb {
        LabVerb::Aslr(args) => aslr::run(args),
        LabVerb::Fork(args) => fork::run(args),
        LabVerb::Profile(args) => profile::run(args),
    }
}
