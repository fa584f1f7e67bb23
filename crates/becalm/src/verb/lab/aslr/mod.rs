//! `becalm lab aslr`: whether an unlucky address layout slows one process in thousands.

pub mod analyze;
pub mod campaign;
pub mod explain;
mod rank;
pub mod scan;
pub mod verify;

use crate::exit::Failure;

/// See whether an unlucky address layout slows one process in thousands
///
/// Each has --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm lab aslr analyze on.log off.log
  srun -n 16 becalm lab aslr verify --aslr job -- ./app | becalm lab aslr verify -
  becalm lab aslr scan -- ./kernel
  becalm lab aslr explain layout:0x3e -- ./kernel
  becalm lab aslr campaign --blocks 100")]
pub struct AslrArgs {
    #[command(subcommand)]
    verb: AslrVerb,
}

#[derive(clap::Subcommand)]
enum AslrVerb {
    Analyze(analyze::AnalyzeArgs),
    Verify(verify::LayoutVerifyArgs),
    Scan(scan::LayoutScanArgs),
    Explain(explain::LayoutExplainArgs),
    Campaign(Box<campaign::CampaignArgs>),
    #[command(hide = true)]
    Rank(rank::CampaignRankArgs),
}

/// Runs the verb.
pub fn run(args: &AslrArgs) -> Result<u8, Failure> {
    match &args.verb {
        AslrVerb::Analyze(args) => analyze::run(args),
        AslrVerb::Verify(args) => verify::run(args),
        AslrVerb::Scan(args) => scan::run(args),
        AslrVerb::Explain(args) => explain::run(args),
        AslrVerb::Campaign(args) => campaign::run(args),
        AslrVerb::Rank(args) => rank::run(args),
    }
}
