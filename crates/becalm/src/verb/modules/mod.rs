//! `becalm modules`: trees of modulefiles for Environment Modules and Lmod.

mod audit;
mod avail;
mod cache;
mod hook;
mod index;
mod tidy;

use crate::exit::Failure;

/// See and calm what Environment Modules and Lmod ask of a filesystem
///
/// Each has --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm modules audit
  becalm modules audit --as alice /apps/modulefiles
  becalm modules tidy --dry-run /apps/modulefiles
  becalm modules cache check /apps/modulefiles
  becalm modules index /apps/modulefiles")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Audit(audit::Args),
    Avail(avail::Args),
    Cache(cache::Args),
    Command(avail::CommandArgs),
    Hook(hook::Args),
    Index(index::Args),
    Tidy(tidy::Args),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.verb {
        Verb::Audit(args) => audit::run(args),
        Verb::Avail(args) => avail::run(args),
        Verb::Cache(args) => cache::run(args),
        Verb::Command(args) => avail::command(args),
        Verb::Hook(args) => hook::run(args),
        Verb::Index(args) => index::run(args),
        Verb::Tidy(args) => tidy::run(args),
    }
}
