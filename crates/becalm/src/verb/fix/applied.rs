//! What a fix has done, to be kept or taken back: one name in the journal.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context;
use cure::{CalmFile, CureChange, first_decides};
use launch::CommandLine;
use loader::bind::Binding;
use prove::Subject;
use recording::Recording;

use super::image::{BuiltImage, PlacedImage};
use super::plan::ResolvedPlan;
use super::{FixArgs, calm, subject, title};
use crate::asked_to_end::{FileChanges, journal_options};
use crate::exit::Failure;
use crate::verb::elf::bind::{self, apply};
use crate::verb::image::build::command_here;
use crate::verb::undo;

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
                Some(BuiltImage::build(wanted, recording, command_here(&args.command))?)
            }
            _ => None,
        };
        let over = plan.image.as_ref().map_or(&[][..], |image| &image.directories);
        let placed = built.as_ref().map(|built| built.place(over)).transpose()?;
        self.add(launch_plan(args, plan, parts, placed)?)?;
        let calm = plan.calm.as_ref().context("no place for the calm file")?;
        Ok(launched(&args.command, &calm.shown)?)
    }

    /// Does more under the one name.
    fn add(&mut self, plan: remedy::Plan) -> Result<(), Failure> {
        match &self.applied {
            None => self.applied = Some(apply(&plan, None, &FileChanges::begin())?),
            Some(id) => {
                remedy::extend(id, &plan, &journal_options(remedy::state_directory()?))?;
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
        undo::take_back(&id)
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

/// Whether all of it could be done now, by all that is asked before it is.
pub(super) fn check(args: &FixArgs, plan: &ResolvedPlan) -> Result<(), Failure> {
    if !plan.binding.is_empty() {
        bind::check(&plan.binding.to_plan(title(args)), None)?;
    }
    let parts = plan.parts();
    if !plan.launches(&parts) {
        return Ok(());
    }
    let image = plan.image.as_ref().filter(|_| plan.mounts(&parts));
    let placed = image.map(|image| PlacedImage::planned(&image.image)).transpose()?;
    bind::check(&launch_plan(args, plan, &parts, placed)?, None)
}

/// What is done at launch: the files that it takes, and the calm file that says it.
fn launch_plan(
    args: &FixArgs,
    plan: &ResolvedPlan,
    parts: &[usize],
    image: Option<PlacedImage>,
) -> anyhow::Result<remedy::Plan> {
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
                // The command was started with what becalm has.
                let before = std::env::var_os(variable).filter(|_| first_decides(variable));
                calm.environment.reordered.extend(before.map(|before| (variable.into(), before)));
            }
            _ => {}
        }
    }
    let mut steps = place.copy(copies, plan.only_you.is_none(), &mut calm)?;
    if let Some(PlacedImage { step, calm: image }) = image {
        steps.push(step);
        calm.image = Some(image);
    }
    steps.push(place.step(&calm)?);
    Ok(remedy::Plan { title: title(args), steps, ..remedy::Plan::default() })
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
