//! `becalm fix`.

mod pack;
mod trial;
mod view;

use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use cost::CostModel;
use launch::Line;
use loader::bind::{Binding, LeftOut};
use prove::{ProofBench, RunSurroundings, Subject};
use recording::Recording;

use super::elf::bind::{How, apply, check, plan};
use crate::again;
use crate::exit::{Failure, NO};
use crate::recorded;
use crate::rehearsed::{ColdNode, RehearseOptions};
use crate::reporting_rank::once;
use pack::Image;
use trial::Trial;
use view::{FixAnswer, Packing};

/// Plan, or apply, every change that would calm the start of a command
///
/// Libraries are bound in place (becalm elf bind); a Python environment of its own is packed into
/// an image, in the order of this start (becalm image build). Without --apply the command runs
/// once, recorded, and nothing is changed. With it, the command runs some more times before and
/// after, with nothing to read and its output compared, in the image if there is one: where it then
/// behaves otherwise, takes longer or makes more metadata operations, all is taken back at once.
/// Files of the operating system are left alone. Exit status 1: there is nothing to gain, or it was
/// taken back.
#[derive(clap::Args)]
#[command(after_help = "\
check names storms that need other cures.

Examples:
  becalm fix -- ./app --version
  becalm fix --apply -- ./app --version
  becalm fix --apply --image env.sqsh -- /opt/env/bin/python -c 'import numpy'
  becalm fix --apply --rehearse nfs -- ./app --version")]
pub struct Args {
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

    /// Where to pack a Python environment to; only an image is ever written over
    #[arg(long, value_name = "FILE", default_value = "env.sqsh")]
    image: PathBuf,

    #[command(flatten)]
    place: RehearseOptions,

    #[command(flatten)]
    how: How,

    /// Print one JSON object (docs/schema/becalm.fix.md); the command's output goes to standard
    /// error
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    once("fix", "files are changed once for all: run it outside of srun and mpirun")?;
    if args.apply { apply_and_prove(args) } else { plan_only(args) }
}

/// What would calm a start.
struct Cures {
    binding: Binding,
    packing: Option<Packing>,
}

impl Cures {
    fn of(args: &Args, recording: &Recording) -> Result<Cures, Failure> {
        let packing = pack::wanted(recording, &args.image)?;
        Ok(Cures { binding: binding(args, recording)?, packing })
    }

    fn is_empty(&self) -> bool {
        self.binding.is_empty() && self.packing.is_none()
    }

    /// The same as it is shown, when nothing has been done yet.
    fn planned(&self) -> FixAnswer<'_> {
        FixAnswer {
            binding: &self.binding,
            packing: self.packing.as_ref(),
            applied: None,
            harm: None,
            proof: None,
        }
    }
}

fn plan_only(args: &Args) -> Result<u8, Failure> {
    let wanted = recorded::Wanted::of(&args.command);
    let redirect = match args.json {
        true => {
            Some(crate::stdout_redirect::StdoutRedirect::to_stderr().map_err(Failure::of_command)?)
        }
        false => None,
    };
    let (recording, _) = recorded::and_read(&wanted, None)?;
    let cures = Cures::of(args, &recording)?;
    if !cures.binding.is_empty() {
        check(&cures.binding.to_plan(title(args)))?;
    }
    let fix = cures.planned();
    match redirect {
        Some(redirect) => redirect.print(&term::json(&fix.to_value())?)?,
        None => term::print(&fix.render(term::width::terminal(), &next(args, &cures)))?,
    }
    Ok(if cures.is_empty() { NO } else { 0 })
}

/// What to do after a plan.
fn next(args: &Args, cures: &Cures) -> String {
    match cures.is_empty() {
        true => format!("becalm check -- {}", words(&args.command)),
        false => again::with(1, &["--apply"]),
    }
}

fn words(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| term::quoted(word.as_bytes())).collect();
    words.join(" ")
}

fn apply_and_prove(args: &Args) -> Result<u8, Failure> {
    let trial = Trial { args, bench: bench(args)?, subject: subject(args) };
    let scratch = launch::scratch_file().context("room for a recording")?;
    let kept = PathBuf::from(format!("/proc/self/fd/{}", scratch.as_raw_fd()));
    let before = trial.recorded(&kept)?;
    let recording = Recording::read_beside(&scratch).context("the recording just made")?;
    let mut cures = Cures::of(args, &recording)?;
    if cures.is_empty() {
        print(args, &cures.planned(), &next(args, &cures))?;
        return Ok(NO);
    }
    let mut done = Done::default();
    // Whatever goes wrong from here on, nothing is left changed and unproven.
    let proof = match trial.measured(before, &mut cures, &recording, &mut done) {
        Ok(proof) => proof,
        Err(failure) => {
            done.take_back()?;
            let error = failure.error.context("it could not be fixed; all is as it was");
            return Err(Failure { status: failure.status, error });
        }
    };
    let harm = trial::harm(&proof, &cures);
    let applied = done.journaled.clone();
    let next = match harm {
        None => done.next(args),
        Some(harm) => trial.next(harm, &cures),
    };
    match harm {
        None => done.keep()?,
        Some(_) => done.take_back()?,
    }
    let fix =
        FixAnswer { applied: applied.as_deref(), harm, proof: Some(&proof), ..cures.planned() };
    print(args, &fix, &next)?;
    Ok(if harm.is_some() { NO } else { 0 })
}

/// What has been done, to be kept or taken back.
#[derive(Default)]
struct Done {
    /// The name in the journal, of what is applied now.
    applied: Option<String>,
    /// The same of what was ever applied.
    journaled: Option<String>,
    image: Option<Image>,
}

impl Done {
    /// Binds, if there is anything to bind.
    fn bind(&mut self, args: &Args, cures: &Cures) -> Result<(), Failure> {
        if !cures.binding.is_empty() {
            self.applied = Some(apply(&cures.binding.to_plan(title(args)))?);
            self.journaled.clone_from(&self.applied);
        }
        Ok(())
    }

    /// Packs, if there is anything to pack, and says what to measure.
    fn pack(
        &mut self,
        args: &Args,
        cures: &mut Cures,
        recording: &Recording,
    ) -> Result<Subject, Failure> {
        let Some(packing) = &mut cures.packing else { return Ok(subject(args)) };
        let image = Image::build(packing, recording, words(&args.command))?;
        let subject = image.subject(&args.command)?;
        self.image = Some(image);
        Ok(subject)
    }

    /// Takes the binding back, for now.
    fn unbind(&mut self) -> Result<(), Failure> {
        self.applied.take().map_or(Ok(()), |id| take_back(&id))
    }

    /// What to do once it is proven.
    fn next(&self, args: &Args) -> String {
        match (&self.image, &self.applied) {
            (Some(image), _) => image.line(&args.command),
            (None, Some(id)) => format!("becalm undo {id}"),
            (None, None) => String::new(),
        }
    }

    /// Gives the image its name.
    fn keep(self) -> anyhow::Result<()> {
        self.image.map_or(Ok(()), Image::keep)
    }

    /// The image goes with this value.
    fn take_back(mut self) -> Result<(), Failure> {
        self.unbind()
    }
}

fn title(args: &Args) -> String {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    format!("fix -- {}", words.join(" "))
}

fn take_back(id: &str) -> Result<(), Failure> {
    let state = remedy::state_directory()?;
    let options = remedy::Options::new(state);
    remedy::undo(id, &options, remedy::How::default())
        .with_context(|| format!("taking {id} back; try: becalm undo {id}"))?;
    Ok(())
}

fn print(args: &Args, fix: &FixAnswer<'_>, next: &str) -> Result<(), Failure> {
    let text = match args.json {
        true => term::json(&fix.to_value())?,
        false => fix.render(term::width::terminal(), next),
    };
    Ok(term::print(&text)?)
}

fn bench(args: &Args) -> Result<ProofBench, Failure> {
    // What the image's path says counts, too: it is read instead.
    let image = std::path::absolute(&args.image).context("the image's path")?;
    let directory = image.parent().map(OsString::from);
    let wanted = args.place.wanted(&[&args.command, directory.as_slice()])?;
    Ok(ProofBench {
        input: PathBuf::from("/dev/null"),
        timeout: args.timeout.map(|seconds| Duration::from_secs(seconds.into())),
        recorder: recorded::Wanted::of(&args.command).options(),
        recordings: 2,
        cost: wanted
            .as_ref()
            .map(|wanted| CostModel { profile: wanted.profile.clone(), ..CostModel::default() }),
        elsewhere: wanted.map(|wanted| Rc::new(ColdNode(wanted)) as Rc<dyn RunSurroundings>),
    })
}

fn subject(args: &Args) -> Subject {
    let line = Line { environment: Vec::new(), argv: args.command.clone() };
    Subject { text: words(&args.command), line, prepare: Vec::new() }
}

/// Binds what the command was seen to load.
fn binding(args: &Args, recording: &Recording) -> Result<Binding, Failure> {
    let loaded = recording.images.keys().map(|path| recording.path(*path).to_vec());
    let loaded = loaded.map(|path| PathBuf::from(OsString::from_vec(path)));
    let (own, systems): (Vec<_>, Vec<_>) =
        loaded.filter(|path| path.is_file()).partition(|path| !belongs_to_the_system(path));
    let mut options = args.how.options()?;
    options.library_path = std::env::var_os("LD_LIBRARY_PATH");
    let mut binding = match own.is_empty() {
        true => Binding::default(),
        false => plan(&own, &options)?,
    };
    let reason = "of the operating system: its package manager would put it back";
    let left = |path: PathBuf| LeftOut { path, reason: reason.to_owned() };
    binding.left_out.extend(systems.into_iter().map(left));
    Ok(binding)
}

/// Whether a file is one of the distribution's.
pub fn belongs_to_the_system(path: &Path) -> bool {
    let systems = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr"];
    let local = ["/usr/local"];
    systems.iter().any(|directory| path.starts_with(directory))
        && !local.iter().any(|directory| path.starts_with(directory))
}
