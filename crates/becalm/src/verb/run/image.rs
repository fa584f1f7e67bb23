//! `becalm run --image`: a command in an image, mounted over the directory that it was made of.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use image::mount::{self, Bind, Entered, MountMethod, MountRequest, WritableOverlay};
use recording::shown_name;

use super::image_freshness::ImageFreshness;
use super::stage;
use crate::exit::{Failure, USAGE};

/// An image, and what lies over it.
#[derive(clap::Args)]
#[group(skip)]
pub struct RunImageArgs {
    /// The image: a squashfs, or a SIF with a whole root
    #[arg(long, alias = "sif", value_name = "FILE", group = "means")]
    image: Option<PathBuf>,

    /// Mount it here instead of where it says that it belongs; / for a whole root
    #[arg(long, value_name = "PATH", requires = "image")]
    at: Option<PathBuf>,

    /// Keep changes in a directory or an ext3 image, or only look at them, or at a squashfs, with
    /// :ro; the last one is uppermost
    #[arg(long, value_name = "DIR|IMG[:ro]", requires = "image")]
    overlay: Vec<OsString>,

    /// Keep changes in memory, until the last rank has ended
    #[arg(long, requires = "image")]
    writable_tmpfs: bool,

    /// Show a file or directory at another path too
    #[arg(long, short = 'B', value_name = "SRC[:DST[:ro]]", requires = "image")]
    bind: Vec<OsString>,

    /// Have it mounted by the kernel (root only), or through FUSE [default: the kernel, if it may]
    #[arg(long, value_name = "MEANS", value_enum, requires = "image")]
    by: Option<Means>,

    #[command(flatten)]
    stage: stage::RunStageArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Means {
    Kernel,
    Fuse,
}

/// Enters the image, if one is asked for, and says what docs/schema/becalm.run.md describes.
pub fn enter(
    args: &RunImageArgs,
    freshness: ImageFreshness,
    json: bool,
    command: &mut launch::Command,
    variables: &mut Vec<(OsString, OsString)>,
) -> Result<Option<serde_json::Value>, Failure> {
    let Some(image) = &args.image else { return Ok(None) };
    let wanted = wanted(args, image, freshness)?;
    if let Some(staged) = stage::enter(&args.stage, json, &wanted, command, variables)? {
        return Ok(Some(staged));
    }
    let entered = mount::enter(&wanted).map_err(Failure::of_command)?;
    let about = about(&entered);
    variables.extend(entered.variables);
    Ok(Some(about))
}

fn about(entered: &Entered) -> serde_json::Value {
    serde_json::json!({
        "file": shown_name(&entered.image),
        "over": entered.over.iter().map(shown_name).collect::<Vec<_>>(),
        "by": match entered.by {
            MountMethod::Kernel => "kernel",
            MountMethod::Fuse => "fuse",
        },
        "joined": entered.joined,
        "staged": null,
    })
}

fn wanted(
    args: &RunImageArgs,
    image: &Path,
    freshness: ImageFreshness,
) -> Result<MountRequest, Failure> {
    let usage = |text: &OsString, why| Failure {
        status: USAGE,
        error: anyhow!("--bind {}: {why}", text.to_string_lossy()),
    };
    let binds = args.bind.iter().map(|text| Bind::parse(text).map_err(|why| usage(text, why)));
    Ok(MountRequest {
        image: image.to_path_buf(),
        at: args.at.clone(),
        overlays: args.overlay.iter().map(|text| WritableOverlay::parse(text)).collect(),
        writable_tmpfs: args.writable_tmpfs,
        binds: binds.collect::<Result<_, _>>()?,
        by: args.by.map(|means| match means {
            Means::Kernel => MountMethod::Kernel,
            Means::Fuse => MountMethod::Fuse,
        }),
        freshness: freshness.into(),
    })
}
