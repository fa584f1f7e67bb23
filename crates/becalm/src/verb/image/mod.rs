//! `becalm image`: many small files as one.

pub mod build;
pub mod extract;
pub mod inspect;
pub mod overlay;
pub mod spread;

use crate::exit::Failure;

/// Pack an environment into one file, look into images, unpack them, make a layer to write to,
/// bring them to nodes
///
/// All subcommands have --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm image build -o env.sqsh /opt/env -- /opt/env/bin/python -c 'import numpy'
  becalm image build -o app.sif --base root.sif /opt/env
  becalm image inspect app.sif
  becalm image extract env.sqsh /dev/shm/env
  becalm image overlay overlay.img 10G
  becalm image spread env.sqsh")]
pub struct ImageArgs {
    #[command(subcommand)]
    verb: ImageVerb,
}

#[derive(clap::Subcommand)]
enum ImageVerb {
    Build(Box<build::ImageBuildArgs>),
    Extract(extract::ImageExtractArgs),
    Inspect(inspect::ImageInspectArgs),
    Overlay(overlay::ImageOverlayArgs),
    Spread(spread::ImageSpreadArgs),
}

/// Runs the verb.
pub fn run(args: &ImageArgs) -> Result<u8, Failure> {
    match &args.verb {
        ImageVerb::Build(args) => build::run(args),
        ImageVerb::Extract(args) => extract::run(args),
        ImageVerb::Inspect(args) => inspect::run(args),
        ImageVerb::Overlay(args) => overlay::run(args),
        ImageVerb::Spread(args) => spread::run(args),
    }
}
