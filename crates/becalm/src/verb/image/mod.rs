//! `becalm image`: many small files as one.

mod build;
mod extract;
mod inspect;
mod overlay;

use crate::exit::Failure;

/// Pack an environment into one file, look into images, unpack them, make a layer to write to
///
/// All subcommands have --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm image build -o env.sqsh /opt/env -- /opt/env/bin/python -c 'import numpy'
  becalm image build -o app.sif --base root.sif /opt/env
  becalm image inspect app.sif
  becalm image extract env.sqsh /dev/shm/env
  becalm image overlay overlay.img 10G")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Build(Box<build::Args>),
    Extract(extract::Args),
    Inspect(inspect::Args),
    Overlay(overlay::Args),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.verb {
        Verb::Build(args) => build::run(args),
        Verb::Extract(args) => extract::run(args),
        Verb::Inspect(args) => inspect::run(args),
        Verb::Overlay(args) => overlay::run(args),
    }
}
