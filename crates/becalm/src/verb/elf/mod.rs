//! `becalm elf`: what the dynamic loader does, and binding it away.

pub mod bind;
mod tree;

use crate::exit::Failure;

/// See what the dynamic loader searches for, and bind files to what it finds
///
/// Both subcommands have --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm elf tree /opt/app/bin/app
  becalm elf bind --dry-run /opt/spack/opt")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Tree(tree::Args),
    Bind(bind::Args),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.verb {
        Verb::Tree(args) => tree::run(args),
        Verb::Bind(args) => bind::run(args),
    }
}
