//! What a fix of this command does, resolved: which files, which image, which calm file.

use std::path::{Path, PathBuf};

use cost::PredictedWait;
use cure::{Cure, CureChange, CurePlan, Machine};
use explain::{WaitModel, WarningKind};
use loader::bind::{Binding, UnboundFile};
use recording::Recording;

use super::calm::CalmPlace;
use super::view::EnvironmentImage;
use super::{FixArgs, image, rehearsal};
use crate::exit::Failure;
use crate::machine;
use crate::verb::elf::bind::tell;

/// What a start waits.
pub(super) struct PlannedWait {
    /// How it is predicted.
    pub model: WaitModel,
    /// As it is: what `becalm check` says of it, if anything.
    pub now: Option<PredictedWait>,
    /// With the plan; none where it changes nothing.
    pub after: Option<PredictedWait>,
}

/// A plan of this command, resolved: what each cure does to files, and to the launch.
pub(super) struct ResolvedPlan {
    /// The cures.
    pub cures: CurePlan,
    /// The files that are bound in place, and what is left alone.
    pub binding: Binding,
    /// The image that is built.
    pub image: Option<EnvironmentImage>,
    /// Why none is, where one would help.
    pub no_image: Option<String>,
    /// Where what is done at launch is written; none where nothing is.
    pub calm: Option<CalmPlace>,
    /// Why nobody else can use the calm file, in words; none where everybody can.
    pub only_you: Option<String>,
    /// Files that were asked for and that nothing needs, and why.
    pub not_needed: Vec<String>,
    /// What the start waits.
    pub wait: PlannedWait,
    /// How the command ended, in words, where it failed.
    pub failed: Option<String>,
}

impl ResolvedPlan {
    pub fn of(args: &FixArgs, recording: &Recording) -> Result<ResolvedPlan, Failure> {
        let rehearsed = rehearsal(args)?;
        let profile = rehearsed.as_ref().map(|wanted| &wanted.profile);
        let options = explain::ExplainOptions {
            model: args.cost.model(profile)?,
            below: args.cost.below(),
            ..explain::ExplainOptions::default()
        };
        let findings = explain::explain(recording, &options);
        let waiting = term::ProgressBar::new();
        let options = cure::CureOptions {
            explain: &options,
            bind: args.how.options()?,
            progress: &|progress| tell(&waiting, progress),
        };
        let cures_on = |here| CurePlan::of(recording, &findings, &here, &options);
        let at_launch = |cures: &CurePlan| AtLaunch::of(args, cures, &findings.program, recording);
        let mut cures = cures_on(machine::here());
        let mut unreadable = None;
        let AtLaunch { calm, image } = match at_launch(&cures) {
            Err(error) if is_denied(&error) && cures.image().is_some() => {
                unreadable = Some(format!("{error:#}"));
                let why_no_image = |_: &Path| Some("not all of it can be read".to_owned());
                cures = cures_on(Machine { why_no_image, ..machine::here() });
                at_launch(&cures)?
            }
            found => found?,
        };
        let no_image = cures.of_storm(explain::Storm::Python).filter(|_| image.is_none());
        let no_image = no_image.and_then(|cures| cures.not_chosen.first());
        let no_image = unreadable.or(no_image.map(|refused| refused.why.clone()));
        let wait = PlannedWait {
            model: findings.model.clone(),
            now: findings.predicted_wait,
            after: cures.predicted.and_then(|predicted| predicted.after.wait),
        };
        let failed = findings.warnings.into_iter().find(|it| it.kind == WarningKind::Failed);
        let failed = failed.map(|warning| warning.text);
        let binding = std::mem::take(&mut cures.in_place);
        let binding = with_system(binding, &cures);
        let not_needed = not_needed(args, calm.is_some(), image.is_some());
        let only_you = calm.as_ref().and_then(|calm| calm.only_you(&cures.copies));
        Ok(ResolvedPlan {
            cures,
            binding,
            image,
            no_image,
            calm,
            only_you,
            not_needed,
            wait,
            failed,
        })
    }

    /// The cures, each by its number: all that is done.
    pub fn parts(&self) -> Vec<usize> {
        (0..self.cures.chosen.len()).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.cures.is_empty()
    }

    /// The cures of these numbers.
    pub fn chosen(&self, parts: &[usize]) -> impl Iterator<Item = &Cure> {
        parts.iter().filter_map(|part| self.cures.chosen.get(*part))
    }

    /// Whether files are bound in place by one of these.
    pub fn binds(&self, parts: &[usize]) -> bool {
        self.chosen(parts).any(|cure| matches!(cure.change, CureChange::BindFiles { .. }))
    }

    /// Whether copies are shown by one of these.
    pub fn shows_copies(&self, parts: &[usize]) -> bool {
        self.chosen(parts).any(|cure| matches!(cure.change, CureChange::ShowBoundCopies { .. }))
    }

    /// Whether an image is mounted by one of these.
    pub fn mounts(&self, parts: &[usize]) -> bool {
        self.chosen(parts).any(|cure| matches!(cure.change, CureChange::MountImage { .. }))
    }

    /// Whether one of these changes the launch.
    pub fn launches(&self, parts: &[usize]) -> bool {
        self.chosen(parts).any(|cure| cure.change.is_of_launch())
    }

    /// The seconds that one rank is predicted to wait less with these.
    pub fn saved_seconds(&self, parts: &[usize]) -> f64 {
        let saved = |cure: &Cure| {
            let predicted = &cure.predicted;
            let waits = predicted.before.wait.zip(predicted.after.wait);
            waits.map_or(0.0, |(before, after)| before.one_rank - after.one_rank)
        };
        self.chosen(parts).map(saved).sum()
    }
}

/// What is done each time the command is launched, and where that is written.
struct AtLaunch {
    calm: Option<CalmPlace>,
    image: Option<EnvironmentImage>,
}

impl AtLaunch {
    fn of(
        args: &FixArgs,
        cures: &CurePlan,
        program: &str,
        recording: &Recording,
    ) -> anyhow::Result<AtLaunch> {
        let calm = cures.changes_launch();
        let calm = calm.then(|| CalmPlace::of(args.output.as_deref(), program, &args.command));
        let calm = calm.transpose()?;
        calm.as_ref().map_or(Ok(()), |calm| calm.is_not_read_by(recording))?;
        let image = match (cures.image(), &calm) {
            (Some((directories, taken)), Some(calm)) => {
                let file = args.image.clone().unwrap_or_else(|| calm.image());
                Some(image::resolved(directories, taken, &file, calm)?)
            }
            _ => None,
        };
        Ok(AtLaunch { calm, image })
    }
}

/// Whether something may not be read: what needs it is left out, the rest is done.
fn is_denied(error: &anyhow::Error) -> bool {
    let denied = |error: &std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(denied))
}

/// The files that were named and are not written.
fn not_needed(args: &FixArgs, has_calm: bool, has_image: bool) -> Vec<String> {
    let name = |file: &PathBuf| term::plain(&file.to_string_lossy());
    let calm = args.output.as_ref().filter(|_| !has_calm);
    let calm = calm.map(|file| format!("No {}: nothing is done at launch", name(file)));
    let image = args.image.as_ref().filter(|_| !has_image);
    let image = image.map(|file| format!("No {}: no image is built", name(file)));
    calm.into_iter().chain(image).collect()
}

/// The binding, with what it leaves alone.
fn with_system(mut binding: Binding, plan: &CurePlan) -> Binding {
    let reason = "of the operating system: its package manager would put it back";
    let left = |path: PathBuf| UnboundFile { path, reason: reason.to_owned() };
    let of_the_system = plan.of_the_system.iter().map(|file| file.path().to_owned());
    binding.left_out.extend(of_the_system.filter(|path| path.is_file()).map(left));
    binding
}
