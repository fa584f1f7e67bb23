//! `becalm run`.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::anyhow;
use image::mount::{self, Bind, By, Entered, Freshness, Overlay, Wanted};

use crate::exit::{Failure, USAGE};

/// Run a command in an image, mounted over the folder that it was made of
///
/// Nothing in the image has to be told that it moved: shebangs, pyvenv.cfg and RUNPATHs stay
/// right. No privilege is needed. Ranks of a node share one mount; only the command and what it
/// starts see it, and it goes with the last of them. becalm becomes the command: process id,
/// signals and exit status are the command's own.
#[derive(clap::Args)]
#[command(after_help = "The command's own exit status is passed on; becalm's failures are 125, \
    126 (cannot execute) and 127 (not found).\n\n\
    Examples:
  becalm run --image env.sqsh -- python3 app.py
  srun -n 64 becalm run --image env.sqsh -- python3 app.py
  becalm run --image env.sqsh --overlay changes -- pip install ./package
  becalm run --image root.sif --bind /scratch -- /opt/app/bin/app")]
pub struct Args {
    /// The image: a squashfs, or a SIF with a whole root
    #[arg(long, alias = "sif", value_name = "FILE", required = true)]
    image: PathBuf,

    /// Mount it here instead of where it says that it belongs; / for a whole root
    #[arg(long, value_name = "PATH")]
    at: Option<PathBuf>,

    /// Keep changes in a folder or an ext3 image, or only look at them, or at a squashfs, with
    /// :ro; the last one is uppermost
    #[arg(long, value_name = "DIR|IMG[:ro]")]
    overlay: Vec<OsString>,

    /// Keep changes in memory, until the last rank has ended
    #[arg(long)]
    writable_tmpfs: bool,

    /// Show a file or folder at another path too
    #[arg(long, short = 'B', value_name = "SRC[:DST[:ro]]")]
    bind: Vec<OsString>,

    /// How closely to look whether what the image was made of has changed since: at the times of
    /// a few folders, at every file, or not at all
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Check::Quick)]
    check: Check,

    /// Have it mounted by the kernel (root only), or through FUSE [default: the kernel, if it may]
    #[arg(long, value_name = "MEANS", value_enum)]
    by: Option<Means>,

    /// Print one JSON object about the mount on standard error before the command starts
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Check {
    Quick,
    Full,
    No,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Means {
    Kernel,
    Fuse,
}

/// Runs the verb: becomes the command, unless that fails.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match become_command(args) {
        Ok(never) => match never {},
        Err(failure) => Err(failure),
    }
}

fn become_command(args: &Args) -> Result<Infallible, Failure> {
    let entered = mount::enter(&wanted(args)?).map_err(Failure::of_command)?;
    if args.json {
        anstream::eprint!("{}", show::json(&about(&entered)).map_err(Failure::of_command)?);
    }
    let command = launch::Command { argv: args.command.clone() };
    let why = launch::replace(&command, &entered.variables);
    Err(Failure { status: why.exit_status(), error: why.into() })
}

/// What docs/schema/becalm.run.md describes.
fn about(entered: &Entered) -> serde_json::Value {
    serde_json::json!({
        "schema": "becalm.run/1",
        "image": entered.image.to_string_lossy(),
        "over": entered.over.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        "by": match entered.by {
            By::Kernel => "kernel",
            By::Fuse => "fuse",
        },
        "joined": entered.joined,
    })
}

fn wanted(args: &Args) -> Result<Wanted, Failure> {
    let usage = |text: &OsString, why| Failure {
        status: USAGE,
        error: anyhow!("--bind {}: {why}", text.to_string_lossy()),
    };
    let binds = args.bind.iter().map(|text| Bind::parse(text).map_err(|why| usage(text, why)));
    Ok(Wanted {
        image: args.image.clone(),
        at: args.at.clone(),
        overlays: args.overlay.iter().map(|text| Overlay::parse(text)).collect(),
        writable_tmpfs: args.writable_tmpfs,
        binds: binds.collect::<Result<_, _>>()?,
        by: args.by.map(|means| match means {
            Means::Kernel => By::Kernel,
            Means::Fuse => By::Fuse,
        }),
        freshness: match args.check {
            Check::Quick => Freshness::Quick,
            Check::Full => Freshness::Full,
            Check::No => Freshness::No,
        },
    })
}
