//! `becalm merge`.

pub mod view;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use recording::RankedRecordings;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::exit::Failure;
use crate::save;
use view::MergedRecordings;

/// Join the files that the nodes of a job left into one, or take one rank's recording out
///
/// The recordings are copied as they are, also those that were cut. Nothing is removed.
#[derive(clap::Args)]
#[command(after_help = "\
A FILE that is a directory is one that was left on a node (/dev/shm/becalm-…) because every recorder
there was killed, or because the node's file could not be written.

Examples:
  becalm merge -o all.becalm start.*.becalm
  becalm merge --rank 7 -o slow.becalm all.becalm
  becalm merge -o n3.becalm /dev/shm/becalm-1000-slurm-1234.0-n3-*")]
pub struct MergeArgs {
    /// The file to write
    #[arg(short, long, value_name = "ALL")]
    output: PathBuf,
    /// Write this rank's recording only, as `becalm record` would have written it
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Wait for the ranks of a node's directory, join what they left, and remove it
    #[arg(long, hide = true)]
    when_done: bool,
    /// Print one JSON object (docs/schema/becalm.merge.md)
    #[arg(long)]
    json: bool,
    /// Files that `becalm record` left under srun or mpirun
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &MergeArgs) -> Result<u8, Failure> {
    if let (true, [directory]) = (args.when_done, args.files.as_slice()) {
        job::join_when_done(directory, &args.output)?;
        return Ok(0);
    }
    allow_many_files();
    let opened = args.files.iter().map(|file| Ok((file.clone(), open(file)?)));
    let joined = RankedRecordings::join(opened.collect::<anyhow::Result<_>>()?)?;
    let one = match args.rank {
        Some(rank) => Some(joined.of(rank).ok_or_else(|| anyhow!("rank {rank} is not there"))?),
        None => None,
    };
    check_target(&args.output, &args.files)?;
    save::whole(&args.output, Path::new(""), |out| match &one {
        Some(member) => std::io::copy(&mut member.bytes(), out).map(|_| ()),
        None => joined.write(out),
    })?;
    let merged = MergedRecordings::of(&args.output, &args.files, args.rank, &joined);
    merged.warnings().iter().for_each(|line| term::warn(line));
    term::print_answer(args.json, &merged, |columns| merged.render(columns))?;
    Ok(0)
}

fn open(file: &Path) -> anyhow::Result<RankedRecordings> {
    if file.is_dir() {
        return job::left_behind(file).with_context(|| file.display().to_string());
    }
    Ok(crate::load::load_ranks(file)?)
}

/// `-o` is easily mistyped, above all beside so many names: as with `becalm record -o`, only a
/// recording is written over, and no source.
fn check_target(target: &Path, sources: &[PathBuf]) -> anyhow::Result<()> {
    let Ok(mut there) = File::open(target) else { return Ok(()) };
    let (mut start, known) = ([0; 16], there.metadata()?);
    let is_it = |source: &PathBuf| {
        source.metadata().is_ok_and(|it| (it.dev(), it.ino()) == (known.dev(), known.ino()))
    };
    if sources.iter().any(is_it) {
        bail!("{}: it is one of the files to join; choose another name", target.display());
    }
    let begins = known.is_file() && known.len() > 0 && there.read_exact(&mut start).is_ok();
    if begins && !recording::is_recording(&start)
        || known.is_file() && (1..16).contains(&known.len())
    {
        let why = "it exists and is not a recording; choose another name or remove it";
        bail!("{}: {why}", target.display());
    }
    Ok(())
}

/// A file a node, or a rank, is open at once.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With fewer, a job that is that large says so when it opens one too many.
    let _ = setrlimit(Resource::Nofile, limit);
}
