//! `becalm calm`: what a calm file does, and whether it still holds.

pub mod check;
pub mod show;

use crate::exit::Failure;

/// Show what a calm file does at launch, and check whether it still holds
///
/// `becalm fix --apply -o app.calm -- CMD` writes one, `becalm run app.calm` starts by it. All
/// subcommands have --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm calm show app.calm
  becalm calm show --as slurm app.calm > app.sbatch
  becalm calm check app.calm")]
pub struct CalmArgs {
    #[command(subcommand)]
    verb: CalmVerb,
}

#[derive(clap::Subcommand)]
enum CalmVerb {
    Show(show::CalmShowArgs),
    Check(check::CalmCheckArgs),
}

/// Runs the verb.
pub fn run(args: &CalmArgs) -> Result<u8, Failure> {
    match &args.verb {
        CalmVerb::Show(args) => show::run(args),
        CalmVerb::Check(args) => check::run(args),
    }
}
