//! `becalm image extract`.

pub mod view;

use std::path::PathBuf;

use image::extract::{self, ExtractRequest};

use crate::exit::Failure;
use view::Unpacked;

/// Unpack an image into a directory, where nothing can be mounted
///
/// The directory must be empty or not be there, and takes its name once all is in it; one that is
/// there keeps its mode, owner and access control lists. Where something goes wrong, nothing is left. Whether it fits is checked before. Modes, times, hard
/// links, holes and xattrs are kept; owners only by root. Nothing is written outside the directory,
/// whatever the image says.
#[derive(clap::Args)]
#[command(after_help = "\
Of a SIF, the root is unpacked; --object unpacks another of its objects.

Examples:
  becalm image extract env.sqsh /dev/shm/env
  becalm image extract env.sqsh numpy lib/python3.11/site-packages/numpy
  becalm image extract --object 6 app.sif env")]
pub struct ImageExtractArgs {
    /// The image: a squashfs or a SIF
    image: PathBuf,

    /// The directory to make
    dir: PathBuf,

    /// Only these, from the image's root; with the directories above them
    path: Vec<PathBuf>,

    /// The object of a SIF, by its number in `becalm image inspect`
    #[arg(long, value_name = "N")]
    object: Option<u32>,

    /// How many files to write at a time
    #[arg(long, value_name = "N", default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    writers: u16,

    /// Print one JSON object (docs/schema/becalm.image.extract.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &ImageExtractArgs) -> Result<u8, Failure> {
    let waiting = term::ProgressBar::new();
    let progress = |done, of| waiting.tell("unpacking", done, of);
    let wanted = ExtractRequest {
        paths: &args.path,
        object: args.object,
        writers: usize::from(args.writers),
        progress: &progress,
    };
    let extracted = extract::extract(&args.image, &args.dir, &wanted)?;
    drop(waiting);
    let unpacked = Unpacked::of(&args.image, &args.dir, &extracted);
    term::print_answer(args.json, &unpacked, |columns| unpacked.render(columns))?;
    Ok(0)
}
