//! What is planned is applied, and planned once more where somebody else was first.

use loader::bind::{self, BindOptions, Binding};

use super::seen_run::{self, SeenRun};
use super::{ElfBindArgs, apply, check, manifest, plan, state};
use crate::asked_to_end::FileChanges;
use crate::exit::Failure;

/// What was planned, and what became of it.
pub struct BindAnswer {
    pub binding: Binding,
    /// Its name in the journal, where something was written.
    pub applied: Option<String>,
}

/// How often it is planned at most: whoever writes there all the time is not outrun.
const TRIES: usize = 10;

/// Binds, and tells what came of it. Where files have changed since they were planned for, as by another `elf bind`
/// or an installation, it is planned once more.
pub fn bound_and_told(
    args: &ElfBindArgs,
    options: &BindOptions,
    tell: impl FnOnce(&BindAnswer) -> Result<(), Failure>,
) -> Result<BindAnswer, Failure> {
    let run = seen_run::of(args)?;
    let planned = || match &run {
        None => plan(&args.paths(), options),
        Some(run) => plan_seen(args, options, run),
    };
    let mut binding = planned()?;
    let mut tries = 1;
    loop {
        let changes = FileChanges::begin();
        let steps = binding.to_plan(format!("elf bind {}", args.named()));
        let why = match apply_unless_dry(args, &binding, &steps, &changes) {
            Ok(applied) => return told(args, BindAnswer { binding, applied }, changes, tell),
            Err(why) => why,
        };
        drop(changes);
        if tries == TRIES || !all_is_as_before(&why) {
            return Err(why);
        }
        let again = planned()?;
        // Nobody was first: it would fail once more.
        if again.to_plan(steps.title.clone()) == steps {
            return Err(why);
        }
        term::warn(&format!("{:#}: planned once more", why.error));
        (binding, tries) = (again, tries + 1);
    }
}

/// Whether applying failed, of itself, and has left all as it was.
fn all_is_as_before(why: &Failure) -> bool {
    match why.error.downcast_ref() {
        Some(remedy::Error::Interrupted { .. } | remedy::Error::PartlyTakenBack { .. }) | None => {
            false
        }
        Some(_) => true,
    }
}

/// Applies, unless it is only asked what would be done; its name in the journal.
fn apply_unless_dry(
    args: &ElfBindArgs,
    binding: &Binding,
    steps: &remedy::Plan,
    changes: &FileChanges,
) -> Result<Option<String>, Failure> {
    if let Some(file) = &args.plan {
        crate::save::whole(file, std::path::Path::new(""), |out| steps.write(out))?;
    }
    if binding.risks.iter().any(|risk| risk == bind::WHILE_PROGRAMS_RUN) {
        let files = binding.changes.iter().map(|change| change.path.as_path());
        crate::running::warning(files).iter().for_each(|line| term::warn(line));
    }
    match args.dry_run {
        _ if binding.is_empty() => Ok(None),
        true => check(steps, Some(&binding.checked)).map(|()| None),
        false => apply(steps, Some(&binding.checked), changes).map(Some),
    }
}

/// Says what became of it, and ends as was asked meanwhile, if it was.
fn told(
    args: &ElfBindArgs,
    answer: BindAnswer,
    changes: FileChanges,
    tell: impl FnOnce(&BindAnswer) -> Result<(), Failure>,
) -> Result<BindAnswer, Failure> {
    let (listed, told) = (list(args, &answer), tell(&answer));
    changes.end(&match &answer.applied {
        Some(id) => format!("asked to end once files were renamed: all is bound; becalm undo {id}"),
        None => "asked to end".to_owned(),
    })?;
    listed.and(told).map(|()| answer)
}

/// Writes the list of what is bound, where one is asked for.
fn list(args: &ElfBindArgs, answer: &BindAnswer) -> Result<(), Failure> {
    match (&args.manifest, &answer.applied) {
        (Some(file), Some(id)) => manifest::write(file, &state()?, id),
        _ => Ok(()),
    }
}

/// The plan of what a run loaded.
fn plan_seen(args: &ElfBindArgs, options: &BindOptions, run: &SeenRun) -> Result<Binding, Failure> {
    let options = BindOptions { environments: run.starts.environments.clone(), ..options.clone() };
    let named = args.paths();
    let paths = if named.is_empty() { &run.loaded } else { &named };
    let mut binding = plan(paths, &options)?;
    binding.left_out.extend(run.left_out());
    if named.is_empty() {
        let files: Vec<_> = binding.changes.iter().map(|change| change.path.as_path()).collect();
        for (tree, count) in seen_run::trees(&files) {
            let files = term::number::counted(count as u64, "file", "files");
            term::warn(&format!("{}: {files} to be bound", tree.display()));
        }
    }
    Ok(binding)
}
