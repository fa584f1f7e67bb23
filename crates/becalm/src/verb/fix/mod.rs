//! `becalm fix`.

mod image;
mod trial;
mod view;

use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use cost::PredictedWait;
use explain::WaitModel;
use launch::CommandLine;
use loader::bind::{Binding, UnboundFile};
use prove::{ProofBench, RunSurroundings, Subject};
use recording::Recording;
use rehearse::RehearsalRequest;

use super::elf::bind::{BindFlags, apply, check, tell};
use crate::again;
use crate::cost_options::CostOptions;
use crate::exit::{Failure, NO};
use crate::rehearsed::{ColdNode, RehearseOptions};
use crate::reporting_rank::refuse_many_ranks;
use crate::stdout_redirect::StdoutRedirect;
use crate::{machine, recorded};
use image::BuiltImage;
use trial::Trial;
use view::{EnvironmentImage, FixAnswer};

/// Plan, or apply, every change that would calm the start of a command
///
/// Libraries are bound in place (becalm elf bind); of a Python environment of its own an image is
/// built, in the order of this start (becalm image build). Without --apply the command runs
/// once, recorded, and nothing is changed. With it, the command runs some more times before and
/// after, with nothing to read and its output compared, in the image if there is one: where it then
/// behaves otherwise, takes longer or makes more metadata operations, all is taken back at once.
/// Files of the operating system are left alone. Exit status 1: there is nothing to gain, or it was
/// taken back.
#[derive(clap::Args)]
#[command(after_help = "\
check names storms that need other plan.

Examples:
  becalm fix -- ./app --version
  becalm fix --apply -- ./app --version
  becalm fix --apply --image env.sqsh -- /opt/env/bin/python -c 'import numpy'
  becalm fix --apply --rehearse nfs -- ./app --version")]
pub struct FixArgs {
    /// Change the files, and measure what it brought
    #[arg(long)]
    apply: bool,

    /// How many timed runs before and after, with --apply
    #[arg(long, value_name = "N", default_value_t = prove::FEWEST_RUNS as u64,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    runs: u64,

    /// Give up when a run takes longer, with --apply
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,

    /// The image of a Python environment; only an image is ever written over
    #[arg(long, value_name = "FILE", default_value = "env.sqsh")]
    image: PathBuf,

    #[command(flatten)]
    place: RehearseOptions,

    #[command(flatten)]
    cost: CostOptions,

    #[command(flatten)]
    how: BindFlags,

    /// Print one JSON object (docs/schema/becalm.fix.md); the command's output goes to standard
    /// error
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: &FixArgs) -> Result<u8, Failure> {
    refuse_many_ranks("fix", "files are changed once for all: run it outside of srun and mpirun")?;
    // What is wrong is known before the command runs.
    args.cost.model(None)?;
    args.cost.below_here()?;
    if args.apply { apply_and_prove(args) } else { plan_only(args) }
}

/// What a start waits.
struct PlannedWait {
    /// How it is predicted.
    model: WaitModel,
    /// As it is: what `becalm check` says of it, if anything.
    now: Option<PredictedWait>,
    /// With the plan; none where it changes nothing.
    after: Option<PredictedWait>,
}

/// A plan of this command, resolved: what each cure does to files.
struct ResolvedPlan {
    binding: Binding,
    image: Option<EnvironmentImage>,
    /// Why no image is built of an environment that would gain from one.
    no_image: Option<String>,
    wait: PlannedWait,
}

impl ResolvedPlan {
    fn of(args: &FixArgs, recording: &Recording) -> Result<ResolvedPlan, Failure> {
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
        let mut plan = cure::CurePlan::of(recording, &findings, &machine::here(), &options);
        let image = match plan.image() {
            Some((directories, taken)) => Some(image::resolved(directories, taken, &args.image)?),
            None => None,
        };
        let no_image = plan.of_storm(explain::Storm::Python);
        let no_image = no_image.and_then(|cures| cures.not_chosen.first());
        let no_image = no_image.map(|refused| refused.why.clone());
        let wait = PlannedWait {
            model: findings.model.clone(),
            now: findings.predicted_wait,
            after: plan.predicted.and_then(|predicted| predicted.after.wait),
        };
        let binding = std::mem::take(&mut plan.in_place);
        Ok(ResolvedPlan { binding: with_system(binding, &plan), image, no_image, wait })
    }

    fn is_empty(&self) -> bool {
        self.binding.is_empty() && self.image.is_none()
    }

    /// The same as it is shown, when nothing has been done yet.
    fn planned(&self) -> FixAnswer<'_> {
        FixAnswer {
            binding: &self.binding,
            image: self.image.as_ref(),
            no_image: self.no_image.as_deref(),
            wait: &self.wait,
            applied: None,
            harm: None,
            proof: None,
        }
    }
}

fn plan_only(args: &FixArgs) -> Result<u8, Failure> {
    let wanted = recorded::RecordRequest::of(&args.command);
    let redirect = StdoutRedirect::to_stderr(args.json).map_err(Failure::of_command)?;
    let (recording, _) = recorded::and_read(&wanted)?;
    let plan = ResolvedPlan::of(args, &recording)?;
    if !plan.binding.is_empty() {
        check(&plan.binding.to_plan(title(args)))?;
    }
    let fix = plan.planned();
    match redirect {
        Some(redirect) => redirect.print(&term::json(&fix.to_value())?)?,
        None => term::print(&fix.render(term::width::terminal(), &next(args, &plan)))?,
    }
    Ok(if plan.is_empty() { NO } else { 0 })
}

/// What to do after a plan.
fn next(args: &FixArgs, plan: &ResolvedPlan) -> String {
    match plan.is_empty() {
        true => format!("becalm check -- {}", term::shell_line(&args.command)),
        false => again::with(1, &["--apply"]),
    }
}

fn apply_and_prove(args: &FixArgs) -> Result<u8, Failure> {
    // Nor is it where becalm is asked to end between two runs. Of all threads: before there are any.
    let asked = launch::EndRequests::wait_for().context("signals")?;
    let trial = Trial { args, bench: bench(args)?, subject: subject(args) };
    let scratch = launch::scratch_file().context("room for a recording")?;
    let kept = PathBuf::from(format!("/proc/self/fd/{}", scratch.as_raw_fd()));
    let before = trial.recorded(&kept)?;
    let recording = Recording::read_beside(&scratch).context("the recording just made")?;
    let mut plan = ResolvedPlan::of(args, &recording)?;
    not_asked_to_end(&asked)?;
    if plan.is_empty() {
        print(args, &plan.planned(), &next(args, &plan))?;
        return Ok(NO);
    }
    let mut done = AppliedChanges::default();
    // Whatever goes wrong from here on, nothing is left changed and unproven.
    let measured = trial.measured(before, &mut plan, &recording, &mut done);
    let proof = match measured.and_then(|proof| not_asked_to_end(&asked).map(|()| proof)) {
        Ok(proof) => proof,
        Err(failure) => {
            done.take_back()?;
            let error = failure.error.context("it could not be fixed; all is as it was");
            return Err(Failure { status: failure.status, error });
        }
    };
    done.is_there()?;
    let harm = trial::harm(&proof, &plan);
    let applied = done.journaled.clone();
    let next = match harm {
        None => done.next(args),
        Some(harm) => trial.next(harm, &plan),
    };
    match harm {
        None => done.keep()?,
        Some(_) => done.take_back()?,
    }
    drop(asked);
    let fix =
        FixAnswer { applied: applied.as_deref(), harm, proof: Some(&proof), ..plan.planned() };
    print(args, &fix, &next)?;
    Ok(if harm.is_some() { NO } else { 0 })
}

/// Fails with the status that a shell gives for the signal.
fn not_asked_to_end(asked: &launch::EndRequests) -> Result<(), Failure> {
    match asked.signal() {
        None => Ok(()),
        Some(signal) => Err(Failure {
            status: 128u8.wrapping_add(signal as u8),
            error: anyhow::anyhow!("interrupted"),
        }),
    }
}

/// What has been done, to be kept or taken back.
#[derive(Default)]
struct AppliedChanges {
    /// The name in the journal, of what is applied now.
    applied: Option<String>,
    /// The same of what was ever applied.
    journaled: Option<String>,
    image: Option<BuiltImage>,
}

impl AppliedChanges {
    /// Binds, if there is anything to bind.
    fn bind(&mut self, args: &FixArgs, plan: &ResolvedPlan) -> Result<(), Failure> {
        if !plan.binding.is_empty() {
            self.applied = Some(apply(&plan.binding.to_plan(title(args)))?);
            self.journaled.clone_from(&self.applied);
        }
        Ok(())
    }

    /// Builds the image, if there is one to build, and says what to measure.
    fn build(
        &mut self,
        args: &FixArgs,
        plan: &mut ResolvedPlan,
        recording: &Recording,
    ) -> Result<Subject, Failure> {
        let Some(wanted) = &mut plan.image else { return Ok(subject(args)) };
        let image = BuiltImage::build(wanted, recording, term::shell_line(&args.command))?;
        let subject = image.subject(&args.command)?;
        self.image = Some(image);
        Ok(subject)
    }

    /// Takes the binding back, for now.
    fn unbind(&mut self) -> Result<(), Failure> {
        self.applied.take().map_or(Ok(()), |id| take_back(&id))
    }

    /// Whether what was applied still is: somebody may have undone it while it was measured.
    fn is_there(&self) -> Result<(), Failure> {
        let Some(id) = &self.applied else { return Ok(()) };
        let status = remedy::status(&remedy::state_directory()?, id)?;
        if status == remedy::Status::Applied {
            return Ok(());
        }
        let status = status.name();
        let why = "by another becalm while it was measured, so that nothing was proven";
        Err(anyhow::anyhow!("{id} is {status} now, {why}; see becalm undo --list").into())
    }

    /// What to do once it is proven.
    fn next(&self, args: &FixArgs) -> String {
        match (&self.image, &self.applied) {
            (Some(image), _) => image.line(&args.command),
            (None, Some(id)) => format!("becalm undo {id}"),
            (None, None) => String::new(),
        }
    }

    /// Gives the image its name.
    fn keep(self) -> anyhow::Result<()> {
        self.image.map_or(Ok(()), BuiltImage::keep)
    }

    /// The image goes with this value.
    fn take_back(mut self) -> Result<(), Failure> {
        self.unbind()
    }
}

fn title(args: &FixArgs) -> String {
    format!("fix -- {}", term::shell_line(&args.command))
}

fn take_back(id: &str) -> Result<(), Failure> {
    let state = remedy::state_directory()?;
    let options = remedy::Options::new(state);
    match remedy::undo(id, &options, remedy::UndoOptions::default()) {
        // By another becalm.
        Ok(_) | Err(remedy::Error::Undone { .. }) => Ok(()),
        Err(error) => Err(error)
            .with_context(|| format!("taking {id} back; try: becalm undo {id}"))
            .map_err(Failure::from),
    }
}

fn print(args: &FixArgs, fix: &FixAnswer<'_>, next: &str) -> Result<(), Failure> {
    let text = match args.json {
        true => term::json(&fix.to_value())?,
        false => fix.render(term::width::terminal(), next),
    };
    Ok(term::print(&text)?)
}

/// On which filesystem the command is measured.
fn rehearsal(args: &FixArgs) -> Result<Option<RehearsalRequest>, Failure> {
    // What the image's path says counts, too: it is read instead.
    let image = std::path::absolute(&args.image).context("the image's path")?;
    let directory = image.parent().map(OsString::from);
    args.place.wanted(&[&args.command, directory.as_slice()], &args.cost.job)
}

fn bench(args: &FixArgs) -> Result<ProofBench, Failure> {
    let wanted = rehearsal(args)?;
    let profile = wanted.as_ref().map(|wanted| &wanted.profile);
    let model = args.cost.model(profile)?;
    Ok(ProofBench {
        input: PathBuf::from("/dev/null"),
        timeout: args.timeout.map(|seconds| Duration::from_secs(seconds.into())),
        recorder: recorded::RecordRequest::of(&args.command).options(),
        recordings: 2,
        cost: wanted.as_ref().map(|_| model),
        elsewhere: wanted.map(|wanted| Rc::new(ColdNode(wanted)) as Rc<dyn RunSurroundings>),
    })
}

fn subject(args: &FixArgs) -> Subject {
    let line = CommandLine { environment: Vec::new(), argv: args.command.clone() };
    Subject { text: term::shell_line(&args.command), line, prepare: Vec::new() }
}

/// The binding, with what it leaves alone.
fn with_system(mut binding: Binding, plan: &cure::CurePlan) -> Binding {
    let reason = "of the operating system: its package manager would put it back";
    let left = |path: PathBuf| UnboundFile { path, reason: reason.to_owned() };
    let of_the_system = plan.of_the_system.iter().map(|file| file.path().to_owned());
    binding.left_out.extend(of_the_system.filter(|path| path.is_file()).map(left));
    binding
}
