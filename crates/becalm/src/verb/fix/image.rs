//! An image of the Python environment that a start imports from.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cure::{CalmImage, TakenAway};
use image::squash::{self, ImageOptions, ImageProgress, ImageTrace, UnnamedImage};
use image::{Holds, Inspection, TracedFiles};
use image_format::tree::ImageLayout;
use prove::{Behaviour, Proof, ProofVerdict, Speed};
use recording::{Nanos, Recording};
use remedy::{Digest, FileState, Step};

use super::calm::{CalmPlace, real_place};
use super::view::EnvironmentImage;
use crate::produced;
use crate::verb::image::build::binder;

/// What an image of these directories would hold, and take away. It could be built now; and the
/// calm file, in its directory, is none of what is packed.
pub(super) fn resolved(
    directories: Vec<PathBuf>,
    taken: TakenAway,
    image: &Path,
    calm: &CalmPlace,
) -> anyhow::Result<EnvironmentImage> {
    check(image)?;
    let holds = squash::could_be_built(&directories, image, &ImageOptions::default())?;
    if ImageLayout::of(&directories)?.holds(calm.directory()) {
        let name = term::plain(&calm.shown.to_string_lossy());
        bail!("{name}: it lies in what is packed; choose a place outside with -o");
    }
    Ok(EnvironmentImage {
        taken,
        directories,
        image: image.to_owned(),
        entries: holds.entries,
        files: holds.files,
        bytes: holds.bytes,
        image_bytes: None,
        healed: None,
    })
}

/// Nothing but an image is written over.
fn check(image: &Path) -> anyhow::Result<()> {
    let name = || term::plain(&image.to_string_lossy());
    if !fs::exists(image).with_context(name)? {
        return Ok(());
    }
    match File::open(image).map_err(anyhow::Error::from).map(|file| image::inspect(&file)) {
        Ok(Ok(Inspection { holds: Holds::Squashfs { .. }, .. })) => Ok(()),
        _ => bail!("{}: it exists and is no image; choose another with --image", name()),
    }
}

/// An image in its place.
pub(super) struct PlacedImage {
    /// What puts it there.
    pub step: Step,
    /// What the calm file says of it.
    pub calm: CalmImage,
}

impl PlacedImage {
    /// One that is not built yet, for what is asked of its place.
    pub fn planned(image: &Path) -> anyhow::Result<PlacedImage> {
        let (file, content) = (real_place(image)?, Vec::new());
        let (path, mode, digest) = (file.clone(), 0o644, Digest::of(&content));
        let step = match file.symlink_metadata() {
            Ok(_) => Step::Replace { path, mode, content },
            Err(_) => Step::Create { path, mode, content },
        };
        Ok(PlacedImage { step, calm: CalmImage { file, over: Vec::new(), bytes: 0, digest } })
    }
}

/// An image that has been built, and goes again unless it is kept.
pub(super) struct BuiltImage {
    /// It has no name until it is proven.
    built: UnnamedImage,
}

impl BuiltImage {
    /// Builds it, in the order of the recording.
    pub fn build(
        wanted: &mut EnvironmentImage,
        recording: &Recording,
        trace: ImageTrace,
    ) -> anyhow::Result<BuiltImage> {
        let target = wanted.image.clone();
        let waiting = term::ProgressBar::new();
        let progress = |progress| {
            if let ImageProgress::Packing { done, of } = progress {
                waiting.tell("building the image", done, of);
            }
        };
        let traced = TracedFiles::of(recording);
        let binder =
            |files: &[PathBuf], packed: &[PathBuf]| binder::bind(files, packed, &traced.files);
        let options = ImageOptions {
            heals: true,
            binder: Some(&binder),
            first: &traced.files,
            used: traced.used.as_ref(),
            command: &traced.command,
            trace: Some(trace),
            settles: true,
            progress: &progress,
            ..ImageOptions::default()
        };
        let (built, made) = squash::build(&wanted.directories, &target, &options)?;
        wanted.image_bytes = Some(made.image_bytes);
        wanted.healed = made.healed;
        drop(waiting);
        produced::take_access(&built)?;
        Ok(BuiltImage { built })
    }

    /// The step that gives it its name, and what the calm file says of it.
    pub fn place(&self, over: &[PathBuf]) -> anyhow::Result<PlacedImage> {
        let (file, source) = (real_place(self.built.target())?, real_place(self.built.path())?);
        let now = FileState::of(&source).context("the image just built")?;
        let (over, bytes, digest) = (over.to_owned(), now.bytes, now.digest);
        let step = Step::Take { path: file.clone(), source, is_new: false };
        Ok(PlacedImage { step, calm: CalmImage { file, over, bytes, digest } })
    }
}

/// The answer, where the command ran in an image and nothing counted what reached the server: it
/// makes the same calls as before, and those of `becalm run`. Who serves them has changed, which
/// only a rehearsal shows.
pub(super) fn verdict(proof: &Proof, image: &EnvironmentImage) -> ProofVerdict {
    if proof.counts.rpcs.is_some() {
        return proof.verdict.clone();
    }
    let behaviour = match &proof.behaviour {
        Behaviour::Same => "same output, same status",
        Behaviour::SameStatus => "same status, output not compared",
        Behaviour::Differs(_) => "but it behaves otherwise",
        Behaviour::Varies { .. } => "but its output differs from run to run",
    };
    let speed = match proof.times.speed {
        Speed::Faster => "faster",
        Speed::Slower => "slower",
        Speed::NoDifference => "no difference shown",
        Speed::TooFewRuns => "too few runs to tell",
    };
    let median = |summary: &Option<stats::Summary>| {
        let seconds = summary.as_ref().map_or(0.0, |summary| summary.median);
        term::number::time(Nanos((seconds * 1e9) as u64))
    };
    let (before, after) = (median(&proof.times.before), median(&proof.times.after));
    let same = matches!(proof.behaviour, Behaviour::Same | Behaviour::SameStatus);
    let served = term::number::count(image.taken.metadata_ops);
    ProofVerdict {
        proven: same && image.taken.metadata_ops > 0 && proof.times.speed != Speed::Slower,
        sentence: format!(
            "the image serves {served} of the metadata operations, {behaviour}; on this machine, \
             warm: {before} becomes {after} ({speed})"
        ),
    }
}
