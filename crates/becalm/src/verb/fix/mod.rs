//! `becalm fix`.

mod applied;
mod calm;
mod copies;
pub mod data;
mod image;
mod other_work;
mod plan;
mod trial;
pub mod view;

use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use launch::CommandLine;
use prove::{ProofBench, RunSurroundings, Subject};
use recording::Recording;
use rehearse::RehearsalRequest;

use super::elf::bind::BindFlags;
use crate::again;
use crate::asked_to_end::{asked_by_end, asked_to_end, not_asked_to_end};
use crate::cost_options::CostOptions;
use crate::exit::{Failure, NO};
use crate::last;
use crate::recorded;
use crate::rehearsed::{ColdNode, RehearseOptions};
use crate::reporting_rank::refuse_many_ranks;
use crate::stdout_redirect::StdoutRedirect;
use applied::AppliedChanges;
use plan::ResolvedPlan;
use trial::Trial;
use view::FixAnswer;

/// Plan, or apply, every change that would calm the start of a command
///
/// Files are changed where they are yours: libraries are bound in place. Else the launch is: copies of
/// files shown in their place, an image of a Python environment, builtins for bash, variables. That
/// is written into a calm file, which becalm run starts the command by. Without --apply the command
/// runs once, recorded, and nothing is changed. With it, the command runs some more times before
/// and after, with nothing to read and its output compared: a cure with which it then behaves
/// otherwise, takes longer or makes more metadata operations is taken back at once. becalm undo takes
/// back all of it. Exit status 1: there is nothing that you can do, or it was taken back.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm fix -- ./app --version
  becalm fix --apply -- ./app --version
  becalm fix --apply -o app.calm -- /opt/env/bin/python -c 'import numpy'
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

    /// The calm file, where something is done at launch; only a calm file is ever written over
    /// [default: in the working directory, called as the program is]
    #[arg(short, long, value_name = "CALM")]
    output: Option<PathBuf>,

    /// The image, where one is built; only an image is ever written over [default: as the calm file,
    /// with .sqsh]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,

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

fn plan_only(args: &FixArgs) -> Result<u8, Failure> {
    let wanted = recorded::RecordRequest::of(&args.command);
    let redirect = StdoutRedirect::to_stderr(args.json).map_err(Failure::of_command)?;
    let kept = recorded::there(&wanted, None, || Ok(()))?;
    recorded::say_blinds(&kept.finished.blinds);
    if let Some(signal) = asked_by_end(kept.finished.ended) {
        let said = format!("the command was killed by signal {signal}: nothing is planned");
        return Err(asked_to_end(signal, said));
    }
    // Where it cannot be kept, nothing of the plan is lost.
    let _ = last::keep(&kept.file);
    let recording = kept.read()?;
    let plan = ResolvedPlan::of(args, &recording)?;
    if !plan.is_empty() {
        applied::check(args, &plan)?;
    }
    let fix = FixAnswer::planned(&plan);
    match redirect {
        Some(redirect) => redirect.print(&term::json(&fix.data())?)?,
        None => term::print(&fix.render(term::width::terminal(), &next(&plan)))?,
    }
    Ok(if plan.is_empty() { NO } else { 0 })
}

/// What to do after a plan; nothing, where only others can do something, or nobody.
fn next(plan: &ResolvedPlan) -> String {
    match plan.is_empty() {
        true if plan.cures.further.is_some() => again::with(1, &["--grow"]),
        true => String::new(),
        false => again::with(1, &["--apply"]),
    }
}

fn apply_and_prove(args: &FixArgs) -> Result<u8, Failure> {
    // Nor is it where becalm is asked to end between two runs. Of all threads: before there are any.
    let asked = launch::EndRequests::wait_for().context("signals")?;
    let (bench, subject) = (bench(args)?, subject(args));
    let scratch = launch::scratch_file().context("room for a recording")?;
    let kept = PathBuf::from(format!("/proc/self/fd/{}", scratch.as_raw_fd()));
    let before = trial::recorded(&bench, &subject, &kept)?;
    recorded::say_blinds(&before.blinds);
    let recording = Recording::read_beside(&scratch).context("the recording just made")?;
    let other_work = other_work::made_before(&recording)
        .and_then(|before| other_work::told(before, recording.metadata_operations()));
    other_work.as_deref().into_iter().for_each(term::warn);
    let _ = last::keep(&scratch);
    let mut plan = ResolvedPlan::of(args, &recording)?;
    not_asked_to_end(&asked)?;
    if plan.is_empty() {
        print(args, &FixAnswer::planned(&plan), &next(&plan))?;
        return Ok(NO);
    }
    // As the plan alone asks it, and before hours of measuring.
    applied::check(args, &plan)?;
    let trial = Trial { args, bench, subject, recording: &recording, before, asked: &asked };
    let mut done = AppliedChanges::default();
    // Whatever goes wrong from here on, nothing is left changed and unproven.
    let tried = trial.run(&mut plan, &mut done);
    let tried = match tried.and_then(|tried| not_asked_to_end(&asked).map(|()| tried)) {
        Ok(tried) => tried,
        Err(failure) => {
            done.take_back()?;
            let error = failure.error.context("it could not be fixed; all is as it was");
            return Err(Failure { status: failure.status, error });
        }
    };
    done.is_there()?;
    let next = match (tried.harm, &plan.calm) {
        (Some(harm), _) => trial.next(harm, &plan),
        (None, Some(calm)) if plan.launches(&tried.kept) => applied::run_line(&calm.shown),
        (None, _) => format!("becalm check -- {}", term::shell_line(&args.command)),
    };
    drop(trial);
    drop(asked);
    let applied = done.journaled.as_deref();
    print(args, &FixAnswer { applied, tried: Some(&tried), plan: &plan }, &next)?;
    Ok(if tried.harm.is_some() { NO } else { 0 })
}

fn title(args: &FixArgs) -> String {
    format!("fix -- {}", term::shell_line(&args.command))
}

fn print(args: &FixArgs, fix: &FixAnswer<'_>, next: &str) -> Result<(), Failure> {
    let text = match args.json {
        true => term::json(&fix.data())?,
        false => fix.render(term::width::terminal(), next),
    };
    Ok(term::print(&text)?)
}

/// On which filesystem the command is measured.
fn rehearsal(args: &FixArgs) -> Result<Option<RehearsalRequest>, Failure> {
    // What the image's path says counts, too: it is read instead.
    let files = args.image.iter().chain(&args.output);
    let files = files.map(std::path::absolute).collect::<Result<Vec<_>, _>>();
    let unknown = "cannot tell the working directory";
    let files = files.context(unknown).map_err(Failure::of_command)?;
    let directories = files.iter().filter_map(|file| file.parent().map(OsString::from));
    let here = std::env::current_dir().context(unknown).map_err(Failure::of_command)?;
    let directories: Vec<_> = directories.chain([here.into()]).collect();
    args.place.wanted(&[&args.command, &directories], &args.cost.job)
}

fn bench(args: &FixArgs) -> Result<ProofBench, Failure> {
    let wanted = rehearsal(args)?;
    let profile = wanted.as_ref().map(|wanted| &wanted.profile);
    let model = args.cost.model(profile)?;
    Ok(ProofBench {
        input: input(),
        timeout: args.timeout.map(|seconds| Duration::from_secs(seconds.into())),
        recorder: recorded::RecordRequest::of(&args.command).options(),
        recordings: 2,
        cost: wanted.as_ref().map(|_| model),
        elsewhere: wanted.map(|wanted| Rc::new(ColdNode(wanted)) as Rc<dyn RunSurroundings>),
    })
}

/// What each run reads: the file that standard input is, from its start. Of a pipe that could be
/// given to one run only.
fn input() -> PathBuf {
    // A child's own standard input is another one by then.
    let given = PathBuf::from(format!("/proc/{}/fd/0", std::process::id()));
    let about = given.metadata().map(|about| about.file_type());
    match about {
        Ok(about) if about.is_file() && launch::check_input(&given).is_ok() => given,
        Ok(about) if about.is_fifo() || about.is_socket() => {
            term::warn(
                "standard input is a pipe, which no second run could read: the command is measured \
                 without it (give it a file)",
            );
            "/dev/null".into()
        }
        _ => "/dev/null".into(),
    }
}

fn subject(args: &FixArgs) -> Subject {
    let line = CommandLine { environment: Vec::new(), argv: args.command.clone() };
    Subject { text: term::shell_line(&args.command), line, prepare: Vec::new() }
}
