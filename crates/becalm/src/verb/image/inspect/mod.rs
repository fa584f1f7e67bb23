//! `becalm image inspect`.

pub mod view;

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use rustix::fs::{Mode, OFlags, open};

use crate::exit::Failure;
use view::Inspected;

/// Say what is in an image: a SIF, a squashfs, or an ext3 overlay
///
/// Reads what the file says of itself; runs, mounts and unpacks nothing. A signature is named, not
/// verified.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm image inspect app.sif
  becalm image inspect --deffile app.sif
  becalm image inspect --json app.sif | jq '.objects[] | select(.role == \"overlay\")'")]
pub struct ImageInspectArgs {
    /// The image's file
    file: PathBuf,

    /// Print the definition file that a SIF was built from
    #[arg(long, conflicts_with = "json")]
    deffile: bool,

    /// Print one JSON object (docs/schema/becalm.image.inspect.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &ImageInspectArgs) -> Result<u8, Failure> {
    let name = || term::plain(&args.file.to_string_lossy());
    let file = opened(&args.file).with_context(name)?;
    if args.deffile {
        term::print(&deffile(&file).with_context(name)?)?;
        return Ok(0);
    }
    let inspection = image::inspect(&file).with_context(name)?;
    let inspected = Inspected::of(&args.file, inspection);
    term::print_answer(args.json, &inspected, |columns| inspected.render(columns))?;
    Ok(0)
}

/// Opens a file that bytes can be read from at any place. A pipe is not waited for.
fn opened(path: &Path) -> anyhow::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(open(path, flags, Mode::empty()).map_err(std::io::Error::from)?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => bail!("is no regular file"),
    }
}

/// The definition file, line by line as it is safe on a terminal.
fn deffile(file: &File) -> anyhow::Result<String> {
    let text = image::deffile(file)?.ok_or_else(|| anyhow!("holds no definition file"))?;
    let lines = text.lines().map(|line| {
        let cells: Vec<_> = line.split('\t').map(term::plain).collect();
        cells.join("\t") + "\n"
    });
    Ok(lines.collect())
}
