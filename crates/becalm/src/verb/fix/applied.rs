//! What a fix has done, to be kept or taken back: one name in the journal.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cure::{CalmFile, CureChange};
use launch::CommandLine;
use loader::bind::Binding;
use prove::Subject;
use recording::Recording;
use remedy::Step;

use super::image::BuiltImage;
use super::plan::ResolvedPlan;
use super::{FixArgs, calm, subject, title};
use crate::exit::Failure;
use crate::verb::elf::bind::apply;

/// What has been done, to be kept or taken back.
#[derive(Default)]
pub(super) struct AppliedChanges {
    /// The name in the journal, of what is applied now.
    applied: Option<String>,
    /// The same of what was ever applied.
    pub journaled: Option<String>,
}

impl AppliedChanges {
    /// Does these cures, and says what to measure: first files, then what is made of them.
    pub fn make(
        &mut self,
        args: &FixArgs,
        plan: &mut ResolvedPlan,
        parts: &[usize],
        recording: &Recording,
    ) -> Result<Subject, Failure> {
        if plan.binds(parts) {
            // What was taken back has its old bytes in new files.
            if self.journaled.is_some() {
                look_again(&mut plan.binding)?;
            }
            self.add(plan.binding.to_plan(title(args)))?;
        }
        if !plan.launches(parts) {
            return Ok(subject(args));
        }
        // Until it has its name, the image goes with this value.
        let built = match (plan.mounts(parts), &mut plan.image) {
            (true, Some(wanted)) => {
                Some(BuiltImage::build(wanted, recording, term::shell_line(&args.command))?)
            }
            _ => None,
        };
        let (steps, shown) = launch_steps(args, plan, parts, built.as_ref())?;
        self.add(remedy::Plan { title: title(args), steps, ..remedy::Plan::default() })?;
        Ok(launched(&args.command, &shown)?)
    }

    /// Does more under the one name.
    fn add(&mut self, plan: remedy::Plan) -> Result<(), Failure> {
        match &self.applied {
            None => self.applied = Some(apply(&plan)?),
            Some(id) => {
                let options = remedy::Options::new(remedy::state_directory()?);
                remedy::extend(id, &plan, &options)?;
            }
        }
        self.journaled.clone_from(&self.applied);
        Ok(())
    }

    /// Whether what was applied still is: somebody may have undone it while it was measured.
    pub fn is_there(&self) -> Result<(), Failure> {
        let Some(id) = &self.applied else { return Ok(()) };
        let status = remedy::status(&remedy::state_directory()?, id)?;
        if status == remedy::Status::Applied {
            return Ok(());
        }
        let status = status.name();
        let why = "by another becalm while it was measured, so that nothing was proven";
        Err(anyhow::anyhow!("{id} is {status} now, {why}; see becalm undo --list").into())
    }

    /// Takes all back.
    pub fn take_back(&mut self) -> Result<(), Failure> {
        let Some(id) = self.applied.take() else { return Ok(()) };
        let options = remedy::Options::new(remedy::state_directory()?);
        match remedy::undo(&id, &options, remedy::UndoOptions::default()) {
            // By another becalm.
            Ok(_) | Err(remedy::Error::Undone { .. }) => Ok(()),
            Err(error) => Err(error)
                .with_context(|| format!("taking {id} back; try: becalm undo {id}"))
                .map_err(Failure::from),
        }
    }
}

/// Sees the files as they are now that a change of them was taken back.
fn look_again(binding: &mut Binding) -> Result<(), remedy::Error> {
    for change in &mut binding.changes {
        change.seen =
            remedy::Seen { digest: change.seen.digest, ..remedy::Seen::of(&change.path)? };
    }
    Ok(())
}

/// The steps of what is done at launch, and the calm file that says it.
fn launch_steps(
    args: &FixArgs,
    plan: &ResolvedPlan,
    parts: &[usize],
    built: Option<&BuiltImage>,
) -> anyhow::Result<(Vec<Step>, PathBuf)> {
    let place = plan.calm.as_ref().context("no place for the calm file")?;
    let predicted = plan.cures.predicted.filter(|_| parts.len() == plan.cures.chosen.len());
    let alone = plan.chosen(parts).next().filter(|_| parts.len() == 1).map(|cure| cure.predicted);
    let mut calm = CalmFile {
        command: args.command.clone(),
        directory: std::env::current_dir().context("the working directory")?,
        saves: predicted.or(alone).map(|all| calm::savings(&all, &plan.wait.model)),
        ..CalmFile::default()
    };
    let mut copies = None;
    for cure in plan.chosen(parts) {
        match &cure.change {
            CureChange::ShowBoundCopies { .. } => copies = Some(&plan.cures.copies),
            CureChange::RunBuiltins { .. } => calm.builtins = true,
            CureChange::SetVariable { variable, value } => {
                calm.environment.set.insert(variable.into(), value.into());
            }
            _ => {}
        }
    }
    let (mut steps, shown) = place.copy(copies)?;
    calm.shown = shown;
    if let (Some(built), Some(wanted)) = (built, &plan.image) {
        let file = built.target()?;
        let source = std::path::absolute(built.path())?;
        steps.push(Step::Take { path: file.clone(), source, is_new: false });
        calm.image = Some(calm::image(built.path(), file, wanted.directories.clone())?);
    }
    steps.push(place.step(&calm)?);
    Ok((steps, place.shown.clone()))
}

/// The command as it is launched by a calm file.
fn launched(command: &[OsString], calm: &Path) -> anyhow::Result<Subject> {
    let becalm = std::env::current_exe().context("becalm's own path")?;
    let file = std::path::absolute(calm).context("the calm file's path")?;
    let mut argv: Vec<OsString> = vec![becalm.into(), "run".into(), file.into(), "--".into()];
    argv.extend_from_slice(command);
    let line = CommandLine { environment: Vec::new(), argv };
    let text = format!("{} -- {}", run_line(calm), term::shell_line(command));
    Ok(Subject { text, line, prepare: Vec::new() })
}

/// The line that repeats the command as a calm file says.
pub(super) fn run_line(calm: &Path) -> String {
    format!("becalm run {}", term::quoted_path(calm))
}
