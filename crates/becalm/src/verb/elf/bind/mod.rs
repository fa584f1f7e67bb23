//! `becalm elf bind`.

mod applied;
pub mod data;
mod manifest;
mod seen_run;
pub mod view;
mod watched;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use loader::Disk;
use loader::bind::{self, BindError, BindMode, BindOptions, BindProgress, Binding, KeepRpath};
use remedy::CheckedFiles;

use crate::again;
use crate::asked_to_end::{FileChanges, journal_options};
use crate::exit::{Failure, NO, USAGE};
use crate::stdout_redirect::StdoutRedirect;
use applied::{BindAnswer, bound_and_told};
use view::Bound;

/// Make executables and libraries load what they load today, without searching
///
/// Each DT_NEEDED becomes the absolute path that the search comes to, written in place. PATH is
/// a file, or a tree such as an install prefix or a store. Before anything is written, every
/// start is simulated with the changed files; a file that would change what is loaded, or cannot be
/// changed, is left as it is. `becalm undo` takes it all back. Exit status 1: nothing is bound,
/// because files cannot be changed.
#[derive(clap::Args)]
#[command(after_help = "\
Name a whole store rather than single prefixes: a library is bound to what all programs that are
seen load.

Examples:
  becalm elf bind --dry-run /opt/spack/opt
  becalm elf bind /opt/spack/opt
  becalm elf bind --run -- python3 -c 'import numpy'     what it opens while it runs, too
  becalm elf bind --watch /opt/spack/opt
  becalm elf bind --json --dry-run ./app | jq '.left_out'")]
pub struct ElfBindArgs {
    /// Files, and directories whose files are bound; with a run, by default all that it loads that is
    /// not the system's
    #[arg(required_unless_present_any = ["run", "recording", "command"], value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Run the command after --, and bind what its programs open while they run, too: extension
    /// modules, plug-ins. With --json, what it prints goes to standard error
    #[arg(long, requires = "command", conflicts_with = "recording")]
    run: bool,

    /// The same of a run that was recorded (becalm record)
    #[arg(long, value_name = "REC")]
    recording: Option<PathBuf>,

    #[command(flatten)]
    how: BindFlags,

    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,

    /// Also write the plan to this file (docs/schema/becalm.plan.md)
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// Also write checksums of the files as they were and as they are, for sha256sum --check, and
    /// what spack verify will say of them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "watch"])]
    manifest: Option<PathBuf>,

    /// Bind, and again whenever something was installed below PATH, until interrupted. Run it as who
    /// owns the files
    #[arg(long, conflicts_with_all = ["dry_run", "plan", "run", "recording"])]
    watch: bool,

    /// An installation is over when nothing was written for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "watch", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    quiet: u64,

    /// Print one JSON object (docs/schema/becalm.elf.bind.md); with --watch, one a binding
    #[arg(long)]
    json: bool,

    /// With --run: the command and its arguments. Else more paths, which may begin with a dash
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// How to bind.
#[derive(clap::Args)]
pub struct BindFlags {
    /// needed: every object names absolute paths. closure: only the program is edited, and needs
    /// a library that lists all. farm: one directory of links instead of long lists [default:
    /// needed; for musl's programs farm]
    #[arg(long, value_enum)]
    mode: Option<ModeName>,

    /// What stays of DT_RPATH and DT_RUNPATH: a directory of links where something may call dlopen,
    /// nothing, or all
    #[arg(long, value_enum, default_value = "farm")]
    keep_rpath: KeepName,

    /// With --mode farm: a DT_RUNPATH, which LD_LIBRARY_PATH overrides
    #[arg(long)]
    overridable: bool,

    /// Let a file grow by a segment where it has no room for the paths
    #[arg(long)]
    grow: bool,

    /// A library that stays a name, such as libmpi.so.40; * stands for any text. GPU drivers
    /// always do
    #[arg(long, value_name = "NAME")]
    leave: Vec<String>,

    /// Also bind what is found through $ORIGIN: the tree can then no longer be moved
    #[arg(long)]
    absolute: bool,

    /// With a run: name a library though several wheels bring it, each its own copy. Where another
    /// run imports them in another order, two copies are loaded
    #[arg(long)]
    name_copies: bool,

    /// Change even a store that promises never to change (Nix, Guix)
    #[arg(long)]
    immutable: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeName {
    Needed,
    Closure,
    Farm,
}

#[derive(Clone, Copy, ValueEnum)]
enum KeepName {
    Farm,
    None,
    All,
}

impl BindFlags {
    /// The same as the loader's crate says it.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn options(&self) -> Result<BindOptions, Failure> {
        if self.overridable && !matches!(self.mode, Some(ModeName::Farm)) {
            let error = anyhow!("--overridable is for --mode farm: a path is never overridden");
            return Err(Failure { status: USAGE, error });
        }
        let mode = |name| match name {
            ModeName::Needed => BindMode::Needed,
            ModeName::Closure => BindMode::Closure,
            ModeName::Farm => BindMode::Farm,
        };
        Ok(BindOptions {
            mode: self.mode.map(mode),
            keep_rpath: match self.keep_rpath {
                KeepName::Farm => KeepRpath::Farm,
                KeepName::None => KeepRpath::None,
                KeepName::All => KeepRpath::All,
            },
            overridable: self.overridable,
            grow: self.grow,
            leave: self.leave.clone(),
            absolute: self.absolute,
            name_copies: self.name_copies,
            immutable: self.immutable,
            list_spared: false,
            for_copies: false,
            packed: Vec::new(),
            others_load: false,
            environments: Vec::new(),
        })
    }
}

impl ElfBindArgs {
    /// The paths that were typed, before -- or behind it.
    fn paths(&self) -> Vec<PathBuf> {
        let behind = self.command.iter().filter(|_| !self.run).map(PathBuf::from);
        self.paths.iter().cloned().chain(behind).collect()
    }

    /// What is bound, as it was typed: paths, and the run.
    fn named(&self) -> String {
        let run = match &self.recording {
            Some(file) => format!("--recording {}", term::quoted_path(file)),
            None if self.run => format!("--run -- {}", term::shell_line(&self.command)),
            None => String::new(),
        };
        let paths = term::shell_line(self.paths());
        [paths, run].join(" ").trim().to_owned()
    }
}

/// Runs the verb.
pub fn run(args: &ElfBindArgs) -> Result<u8, Failure> {
    let options = args.how.options()?;
    if args.watch {
        return watched::run(args, &options);
    }
    let redirect = StdoutRedirect::to_stderr(args.run && args.json).map_err(Failure::of_command)?;
    let answer = bound_and_told(args, &options, |answer| answer.print(args, redirect))?;
    let is_refused = answer.binding.is_empty() && answer.binding.barred > 0;
    // The process ends: to give back what is known of thousands of files, piece by piece, would take longer.
    std::mem::forget(answer);
    Ok(if is_refused { NO } else { 0 })
}

impl BindAnswer {
    fn print(&self, args: &ElfBindArgs, redirect: Option<StdoutRedirect>) -> Result<(), Failure> {
        let applied = self.applied.as_deref();
        let bound = Bound::of(&self.binding, applied);
        if args.json {
            let text = term::json(&bound.data())?;
            match redirect {
                Some(redirect) => redirect.print(&text)?,
                None => term::print(&text)?,
            }
            return Ok(());
        }
        let next = next(&self.binding, applied);
        Ok(term::print(&bound.render(term::width::terminal(), &next))?)
    }
}

/// Says how far planning is.
pub fn tell(waiting: &term::ProgressBar, progress: BindProgress) {
    match progress {
        BindProgress::Looking => waiting.tell("looking for ELF files", 0, 1),
        BindProgress::Simulating { done, of } => {
            waiting.tell("simulating today's starts", done as u64, of as u64);
        }
        BindProgress::Editing => waiting.tell("making edits", 0, 1),
        BindProgress::Checking => waiting.tell("simulating starts with them", 0, 1),
    }
}

/// Plans, with a bar where that takes long.
pub fn plan(paths: &[PathBuf], options: &BindOptions) -> Result<Binding, Failure> {
    let waiting = term::ProgressBar::new();
    let progress = |progress| tell(&waiting, progress);
    bind::plan(&Disk::new(), paths, options, &progress).map_err(|error| match error {
        BindError::Immutable { .. } => {
            anyhow!("{error}, or ask for it all the same with --immutable").into()
        }
        error => error.into(),
    })
}

/// Whether it could be applied now, by all that is asked before that. What was found out already is not
/// asked again.
pub fn check(plan: &remedy::Plan, checked: Option<&CheckedFiles>) -> Result<(), Failure> {
    let options = remedy::Options { checked, ..remedy::Options::new(state()?) };
    Ok(remedy::check(plan, &options).map(drop)?)
}

fn state() -> anyhow::Result<PathBuf> {
    remedy::state_directory().context("where to keep what is needed to undo")
}

/// Applies, with a bar where that takes long, unless becalm is asked to end; the name in the journal.
pub fn apply(
    plan: &remedy::Plan,
    checked: Option<&CheckedFiles>,
    changes: &FileChanges,
) -> Result<String, Failure> {
    let waiting = term::ProgressBar::new();
    let progress = |progress: remedy::Progress| {
        waiting.tell("writing", progress.written as u64, progress.of as u64);
    };
    let is_asked_to_end = &|| changes.is_asked_to_end();
    let options = journal_options(state()?);
    let options = remedy::Options { checked, progress: &progress, is_asked_to_end, ..options };
    let applied = remedy::apply(plan, &options).map_err(|error| changes.failure(error))?;
    Ok(applied.id)
}

/// What to do next.
fn next(binding: &Binding, applied: Option<&str>) -> String {
    if let Some(id) = applied {
        return format!("becalm undo {id}");
    }
    if binding.is_empty() {
        return String::new();
    }
    again::with(2, &[])
}
