//! `becalm run --image`: a command in an image, mounted over the directory that it was made of.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use image::mount::{
    self, Bind, Entered, Freshness, MountError, MountMethod, MountRequest, PlacedImage,
    WritableOverlay,
};
use image::squash::JoinedPath;
use recording::shown_name;
use sandbox::groups;
use schemars::JsonSchema;
use serde::Serialize;

use super::calm::CalmLaunch;
use super::container::Container;
use super::image_conflicts::{self, EnteredBeside, FoundConflict};
use super::image_freshness::ImageFreshness;
use super::image_touched;
use super::stage;
use crate::exit::{Failure, USAGE};
use crate::lost_rights;

/// An image that the command sees.
#[derive(Serialize, JsonSchema)]
pub struct EnteredImage {
    /// Its file, without symbolic links in its path.
    pub file: String,
    /// The paths that it is mounted over; `/` where it is a whole root.
    pub over: Vec<String>,
    /// What mounts it: `kernel` or `fuse`; `stage` where it is unpacked instead.
    pub by: &'static str,
    /// Whether another rank of the node and job was here before, and its mount or tree is used.
    pub joined: bool,
    /// The file in memory of this node that what its trace read is read from, as `becalm image
    /// spread` brought it; none: all is read from the image's own file.
    pub hot_part: Option<String>,
    /// Directories that have changed since it was made, and that `--live` shows as they are now.
    pub live: Vec<String>,
    /// How many files that the images were made of had to be read before the start, as they, or
    /// directories above them, were touched since; told to the first rank of the node and job, and not
    /// where it is unpacked.
    pub sources_read: u64,
    /// The other images of this run.
    pub beside: Vec<EnteredBeside>,
    /// What the images have in common; said to the first rank of the node and job.
    pub conflicts: Vec<FoundConflict>,
    /// Where it is unpacked, as nothing can be mounted and `--stage` allows it.
    pub staged: Option<stage::UnpackedTree>,
}

/// An image, and what lies over it.
#[derive(clap::Args)]
#[group(skip)]
pub struct RunImageArgs {
    /// The image: a squashfs, or a SIF with a whole root; several are seen together, each at its own
    /// place, or at the one given after a colon
    #[arg(long, alias = "sif", value_name = "FILE[:/PLACE]", group = "means")]
    image: Vec<OsString>,

    /// Mount it here instead of where it says that it belongs; / for a whole root
    #[arg(long, value_name = "PATH", requires = "mounted")]
    at: Option<PathBuf>,

    /// Keep changes in a directory or an ext3 image, or only look at them, or at a squashfs, with
    /// :ro; the last one is uppermost
    #[arg(long, value_name = "DIR|IMG[:ro]", requires = "mounted")]
    overlay: Vec<OsString>,

    /// Keep changes in memory, until the last rank has ended
    #[arg(long, requires = "mounted")]
    writable_tmpfs: bool,

    /// Show a file or directory at another path too
    #[arg(long, short = 'B', value_name = "SRC[:DST[:ro]]", requires = "mounted")]
    bind: Vec<OsString>,

    /// Have it mounted by the kernel (root only), or through FUSE [default: the kernel, if it may]
    #[arg(long, value_name = "MEANS", value_enum, requires = "mounted")]
    by: Option<Means>,

    /// Show directories that have changed since the image was made as they are now, and the rest
    /// from the image, rather than to refuse
    #[arg(long, requires = "mounted",
        conflicts_with_all = ["at", "overlay", "writable_tmpfs", "stage"])]
    live: bool,

    #[command(flatten)]
    stage: stage::RunStageArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Means {
    Kernel,
    Fuse,
}

/// Enters the image, if one is asked for, and shows the copies of a calm file; says what
/// docs/schema/becalm.run.md describes.
pub fn enter(
    args: &RunImageArgs,
    container: &Container<'_>,
    calm: Option<&CalmLaunch>,
    freshness: ImageFreshness,
    json: bool,
    command: &mut launch::Command,
    variables: &mut Vec<(OsString, OsString)>,
) -> Result<Option<EnteredImage>, Failure> {
    let mut images = calm.map(CalmLaunch::images).unwrap_or_default();
    images.extend(container.image.map(|file| PlacedImage { file: file.into(), at: None }));
    for text in &args.image {
        let placed = PlacedImage::parse(text);
        images.push(placed.map_err(|why| Failure::of_usage(anyhow!("--image {why}")))?);
    }
    let Some(mut wanted) = wanted(args, images, calm, freshness)? else { return Ok(None) };
    wanted.no_home = container.args.no_home;
    wanted.command.clone_from(&command.argv);
    if container.image.is_some() {
        wanted.library_path = container.library_path();
    }
    if let Some(staged) = stage::enter(&args.stage, json, &wanted, command, variables)? {
        return Ok(Some(staged));
    }
    let groups = written_groups(&wanted);
    let seen = seen_already(&wanted);
    let entered = mount::enter(&wanted).map_err(|error| match (error, calm) {
        (MountError::Stale { image, changed }, Some(calm)) => {
            let image = image.display();
            let what = format!("its image {image} is older than what it was made of ({changed})");
            Failure::of_command(anyhow!(calm.refusal(&what, true)))
        }
        (error, _) => Failure::of_command(error),
    })?;
    if let Some(why) = &entered.refused_hot_part {
        term::warn(&format!("{why}; the image is read from its own file"));
    }
    if !entered.joined {
        older(&entered).iter().for_each(|line| term::warn(line));
    }
    if !entered.joined {
        if let Some(image) = seen {
            term::warn(&format!(
                "this is run from {} already: what has changed since that run began is not seen here",
                shown_name(&image)
            ));
        }
        say_what_is_not_given(&groups);
        calm.and_then(CalmLaunch::elsewhere).iter().for_each(|line| term::warn(line));
        // Here the image answers, and what it does not the exec asks for anyway. What a container
        // starts is not known yet.
        if container.image.is_none() {
            lost_rights::of(command).iter().for_each(|line| term::warn(line));
        }
        if !json {
            image_conflicts::say(&entered);
            image_touched::say(&entered, calm);
        }
    }
    let about = about(&entered);
    variables.extend(python_path(&wanted, &entered));
    variables.extend(entered.variables);
    Ok(about)
}

/// An image that this process sees already, of those that are asked for: its sources are behind it.
fn seen_already(wanted: &MountRequest) -> Option<PathBuf> {
    let seen = std::env::var_os("BECALM_IMAGE")?;
    let is_seen = |image: &PathBuf| {
        let image = image.canonicalize().ok()?;
        seen.as_bytes()
            .split(|byte| *byte == b':')
            .find(|one| *one == image.as_os_str().as_bytes())?;
        Some(image)
    };
    let beside = wanted.beside.iter().map(|beside| &beside.file);
    let checked = wanted.freshness != Freshness::No;
    wanted.image.iter().chain(beside).filter(|_| checked).find_map(is_seen)
}

/// PYTHONPATH as the image joined it, where the entries are those of then, and nothing lies over the
/// image that could offer other names in them.
fn python_path(wanted: &MountRequest, entered: &Entered) -> Option<(OsString, OsString)> {
    let name = "PYTHONPATH";
    let search = env::var_os(name).filter(|search| !search.is_empty())?;
    let is_changed = wanted.at.is_some()
        || !(wanted.overlays.is_empty() && wanted.binds.is_empty() && entered.live.is_empty())
        || wanted.writable_tmpfs;
    if is_changed {
        return None;
    }
    let joined = entered.over.iter().find_map(|over| JoinedPath::of_mounted(over))?;
    let value = env::join_paths(joined.applied_to(&search)?).ok()?;
    Some((name.into(), value))
}

/// What is said of each image with changes: where the first is, and how many there are.
fn older(entered: &Entered) -> Vec<String> {
    let first = entered.image.iter().map(|image| (image, &entered.over));
    let beside = entered.beside.iter().map(|image| (&image.image, &image.over));
    let images: Vec<(&PathBuf, &Vec<PathBuf>)> = first.chain(beside).collect();
    // One may lie within another.
    let of = |path: &Path| {
        let depth = |over: &Vec<PathBuf>| {
            let over = over.iter().filter(|over| path.starts_with(over));
            over.map(|over| over.components().count()).max()
        };
        images.iter().enumerate().max_by_key(|(_, (_, over))| depth(over)).map(|(index, _)| index)
    };
    let mut said = Vec::new();
    for (index, (image, _)) in images.iter().enumerate() {
        let mut changed = entered.live.iter().filter(|path| of(path) == Some(index));
        let Some(first) = changed.next() else { continue };
        let more = match changed.count() {
            0 => String::new(),
            more => format!(
                " and {}",
                term::number::counted(more as u64, "other directory", "other directories")
            ),
        };
        said.push(format!(
            "{} is older than what it was made of, and shown from there: {}{more}; build it again",
            shown_name(image),
            shown_name(first)
        ));
    }
    said
}

/// The user's groups besides their own that directories belong to in which the command is likely to
/// write: the one that it starts in, and what changes go to.
fn written_groups(wanted: &MountRequest) -> Vec<u32> {
    let overlays = wanted.overlays.iter().filter(|overlay| !overlay.read_only);
    let binds = wanted.binds.iter().filter(|bind| !bind.read_only);
    let paths = [Path::new(".")].into_iter().chain(overlays.map(|overlay| overlay.path.as_path()));
    let paths = paths.chain(binds.map(|bind| bind.from.as_path()));
    let others = groups::other_groups();
    let groups = paths.filter_map(|path| fs::metadata(path).ok()).map(|there| there.gid());
    let groups: BTreeSet<u32> = groups.filter(|group| others.contains(group)).collect();
    groups.into_iter().collect()
}

/// What the kernel does not allow in a user namespace is said before the command starts.
fn say_what_is_not_given(groups: &[u32]) {
    let unmapped = groups.iter().filter(|group| !groups::is_mapped(**group));
    let unmapped: Vec<String> = unmapped.map(u32::to_string).collect();
    if !unmapped.is_empty() {
        term::warn(&format!(
            "directories of your other groups ({}) can be written to as ever, but no file can be \
             given to them in an image: chgrp fails with 'Invalid argument' (unless /etc/subgid \
             grants you them)",
            unmapped.join(", ")
        ));
    }
}

/// None where there is no image: only copies are shown.
fn about(entered: &Entered) -> Option<EnteredImage> {
    Some(EnteredImage {
        file: shown_name(entered.image.as_ref()?),
        over: entered.over.iter().map(shown_name).collect(),
        by: match entered.by {
            MountMethod::Kernel => "kernel",
            MountMethod::Fuse => "fuse",
        },
        joined: entered.joined,
        hot_part: entered.hot_part.as_ref().map(shown_name),
        live: entered.live.iter().map(shown_name).collect(),
        sources_read: entered.compared.iter().map(|compared| compared.read).sum(),
        beside: entered.beside.iter().map(EnteredBeside::of).collect(),
        conflicts: entered.conflicts.iter().map(FoundConflict::of).collect(),
        staged: None,
    })
}

/// What is to be mounted, if anything is.
fn wanted(
    args: &RunImageArgs,
    mut images: Vec<PlacedImage>,
    calm: Option<&CalmLaunch>,
    freshness: ImageFreshness,
) -> Result<Option<MountRequest>, Failure> {
    let usage = |error| Failure { status: USAGE, error };
    if args.at.is_some() && (images.len() > 1 || images.iter().any(|image| image.at.is_some())) {
        let why =
            "--at is for one image that has no place yet: give each its own (--image FILE:/PLACE)";
        return Err(usage(anyhow!(why)));
    }
    if images.is_empty() {
        if let Some(option) = args.of_an_image() {
            return Err(usage(anyhow!("{option} is for an image, and the calm file has none")));
        }
        if calm.is_none_or(|calm| calm.shown().is_empty()) {
            return Ok(None);
        }
    }
    let binds = args.bind.iter().map(|text| {
        let wrong = |why| usage(anyhow!("--bind {}: {why}", text.to_string_lossy()));
        Bind::parse(text).map_err(wrong)
    });
    let shown = calm.map(CalmLaunch::shown).unwrap_or_default();
    let first = (!images.is_empty()).then(|| images.remove(0));
    let (image, at) = first.map(|first| (first.file, first.at)).unzip();
    Ok(Some(MountRequest {
        image,
        at: at.flatten().or_else(|| args.at.clone()),
        beside: images,
        overlays: args.overlay.iter().map(|text| WritableOverlay::parse(text)).collect(),
        writable_tmpfs: args.writable_tmpfs,
        binds: shown.into_iter().map(Ok).chain(binds).collect::<Result<_, _>>()?,
        by: args.by.map(|means| match means {
            Means::Kernel => MountMethod::Kernel,
            Means::Fuse => MountMethod::Fuse,
        }),
        freshness: freshness.into(),
        no_home: false,
        live: args.live,
        command: Vec::new(),
        library_path: env::var_os("LD_LIBRARY_PATH"),
        condition: calm.map(CalmLaunch::condition),
    }))
}

impl RunImageArgs {
    /// An option that is given and says something of an image.
    fn of_an_image(&self) -> Option<&'static str> {
        let given = [
            (self.at.is_some(), "--at"),
            (!self.overlay.is_empty(), "--overlay"),
            (self.writable_tmpfs, "--writable-tmpfs"),
            (self.by.is_some(), "--by"),
            (self.live, "--live"),
            (self.stage.is_given(), "--stage"),
        ];
        given.into_iter().find_map(|(is_given, option)| is_given.then_some(option))
    }
}
