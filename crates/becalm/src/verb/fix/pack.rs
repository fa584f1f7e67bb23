//! Packing the Python environment that a start imports from.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::view::Packing;
use anyhow::{Context, bail};
use explain::Storm;
use image::squash::{self, Options, Progress};
use image::{Fingerprint, Holds, Inspection, Layout};
use launch::Line;
use prove::{Behaviour, Proof, ProofVerdict, Speed, Subject};
use recording::{Nanos, Recording};
use tempfile::TempPath;

/// How many threads list the environment, for the plan.
const READERS: usize = 32;

/// What would be packed, and where to: the environment that check blames for an import storm, if
/// there is one.
pub(super) fn wanted(recording: &Recording, image: &Path) -> anyhow::Result<Option<Packing>> {
    let findings = explain::explain(recording, &explain::Options::default());
    let storm = findings.storms.iter().find(|finding| finding.storm == Storm::Python);
    let culprits = storm.into_iter().flat_map(|storm| &storm.culprits);
    let Some(blamed) = culprits.into_iter().find(|one| one.kind == "environment") else {
        return Ok(None);
    };
    let environment = recording::shown_path(&blamed.name);
    if !environment.is_dir() {
        return Ok(None);
    }
    check(image)?;
    let layout = Layout::of(std::slice::from_ref(&environment))?;
    let holds = Fingerprint::now(&layout, READERS)?;
    let below = |path| Path::new(OsStr::from_bytes(recording.path(path))).starts_with(&environment);
    let asked = recording.events.iter().filter(|event| event.is_metadata());
    let operations = asked.filter_map(|event| event.path).filter(|path| below(*path)).count();
    Ok(Some(Packing {
        operations: operations as u64,
        environment,
        image: image.to_owned(),
        entries: holds.entries,
        bytes: holds.bytes,
        image_bytes: None,
    }))
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

/// An image that has been built, and goes again unless it is kept.
pub(super) struct Image {
    /// Where it is until it is proven.
    built: TempPath,
    /// Where it belongs.
    target: PathBuf,
}

impl Image {
    /// Packs, in the order of the recording.
    pub fn build(
        packing: &mut Packing,
        recording: &Recording,
        trace: String,
    ) -> anyhow::Result<Image> {
        let target = packing.image.clone();
        let directory = target.parent().filter(|directory| *directory != Path::new(""));
        let built = tempfile::Builder::new()
            .prefix(".becalm-fix-")
            .suffix(".sqsh")
            .tempfile_in(directory.unwrap_or(Path::new(".")))
            .with_context(|| term::plain(&target.to_string_lossy()))?
            .into_temp_path();
        let waiting = term::Waiting::new();
        let progress = |progress| {
            if let Progress::Packing { done, of } = progress {
                waiting.tell("packing", done, of);
            }
        };
        let opened = image::opened(recording);
        let options = Options {
            first: &opened,
            trace: Some(trace),
            settles: true,
            progress: &progress,
            ..Options::default()
        };
        let made = squash::build(std::slice::from_ref(&packing.environment), &built, &options)?;
        packing.image_bytes = Some(made.image_bytes);
        Ok(Image { built, target })
    }

    /// The command in the image, as it is measured.
    pub fn subject(&self, command: &[OsString]) -> anyhow::Result<Subject> {
        let becalm = std::env::current_exe().context("becalm's own path")?;
        let mut argv: Vec<OsString> = vec![becalm.into(), "run".into(), "--image".into()];
        argv.extend([std::path::absolute(&self.built)?.into(), "--".into()]);
        argv.extend_from_slice(command);
        let line = Line { environment: Vec::new(), argv };
        Ok(Subject { text: self.line(command), line, prepare: Vec::new() })
    }

    /// The same as it is written once the image has its name.
    pub fn line(&self, command: &[OsString]) -> String {
        let image = term::quoted(self.target.as_os_str().as_bytes());
        format!("becalm run --image {image} -- {}", super::words(command))
    }

    /// Gives it its name.
    pub fn keep(self) -> anyhow::Result<()> {
        let name = || term::plain(&self.target.to_string_lossy());
        let built = File::open(&self.built).with_context(name)?;
        recording::keep_access(&built, &self.target).with_context(name)?;
        self.built.persist(&self.target).with_context(name)
    }
}

/// The answer, where the command ran in an image and nothing counted what reached the server: it
/// makes the same calls as before, and those of `becalm run`. Who answers them has changed, which
/// only a rehearsal shows.
pub(super) fn verdict(proof: &Proof, packing: &Packing) -> ProofVerdict {
    if proof.counts.asked.is_some() {
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
    let answers = term::number::count(packing.operations);
    ProofVerdict {
        proven: same && packing.operations > 0 && proof.times.speed != Speed::Slower,
        sentence: format!(
            "the image answers {answers} of the questions, {behaviour}; on this machine, warm: \
             {before} becomes {after} ({speed})"
        ),
    }
}
