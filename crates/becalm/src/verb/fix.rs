//! `becalm fix`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use launch::Line;
use loader::bind::{Binding, LeftOut};
use prove::{Behaviour, Bench, Conditions, Elsewhere, Proof, Side, Subject};
use recording::Recording;

use super::elf::bind::{How, apply, plan};
use crate::exit::{Failure, NO};
use crate::recorded;
use crate::rehearsed::{ColdNode, Where};

/// Plan, or apply, every change of files that would calm the start of a command
///
/// Without --apply the command runs once, recorded, and nothing is changed. With it, the command
/// runs some more times before and after, with nothing to read and its output compared: where it
/// then behaves otherwise, all is taken back at once. Files of the operating system are left
/// alone. Exit status 1: there is nothing to gain, or it was taken back.
#[derive(clap::Args)]
#[command(after_help = "\
Today it binds libraries (becalm elf bind); check names storms that need other cures.

Examples:
  becalm fix -- ./app --version
  becalm fix --apply -- ./app --version
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

    #[command(flatten)]
    place: Where,

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
    if args.apply { apply_and_prove(args) } else { plan_only(args) }
}

fn plan_only(args: &Args) -> Result<u8, Failure> {
    let wanted = recorded::Wanted::of(&args.command);
    let aside = match args.json {
        true => Some(crate::aside::Aside::set().map_err(Failure::of_command)?),
        false => None,
    };
    let (recording, _) = recorded::and_read(&wanted, None)?;
    let binding = binding(args, &recording)?;
    let fix = show::Fix { binding: &binding, applied: None, taken_back: false, proof: None };
    match aside {
        Some(aside) => aside.print(&show::json(&fix.to_value())?)?,
        None => show::print(&fix.render(show::width::terminal(), &next(args, &binding)))?,
    }
    Ok(if binding.is_empty() { NO } else { 0 })
}

/// What to do after a plan.
fn next(args: &Args, binding: &Binding) -> String {
    let words: Vec<String> =
        args.command.iter().map(|word| show::quoted(word.as_bytes())).collect();
    let verb = if binding.is_empty() { "check" } else { "fix --apply" };
    format!("becalm {verb} -- {}", words.join(" "))
}

fn apply_and_prove(args: &Args) -> Result<u8, Failure> {
    let bench = bench(args)?;
    let subject = subject(args);
    let measure = |keep: Option<&Path>| -> Result<Side, Failure> {
        let side = bench.measure(&subject, args.runs as usize, keep);
        side.map_err(|error| Failure { status: error.exit_status(), error: error.into() })
    };
    let folder = tempfile::tempdir().context("a folder for a recording")?;
    let kept = folder.path().join("before.becalm");
    let before = measure(Some(&kept))?;
    let recording = Recording::open(&kept).context("the recording just made")?;
    let binding = binding(args, &recording)?;
    if binding.is_empty() {
        let fix = show::Fix { binding: &binding, applied: None, taken_back: false, proof: None };
        print(args, &fix, &next(args, &binding))?;
        return Ok(NO);
    }
    let id = apply(&binding.to_plan(title(args)))?;
    // Whatever goes wrong from here on, the files are not left changed and unproven.
    let after = match measure(None) {
        Ok(after) => after,
        Err(failure) => {
            take_back(&id)?;
            let error = failure.error.context("changed, it did not run; all is as it was");
            return Err(Failure { status: failure.status, error });
        }
    };
    let surroundings = bench.elsewhere.as_ref().map(|elsewhere| elsewhere.words());
    let warm = surroundings.is_none();
    let conditions = Conditions { surroundings, warm, ..Conditions::apart() };
    let proof = Proof::of(before, after, conditions);
    let taken_back = !behaves_the_same(&proof);
    if taken_back {
        take_back(&id)?;
    }
    let fix = show::Fix { binding: &binding, applied: Some(&id), taken_back, proof: Some(&proof) };
    let next = if taken_back { String::new() } else { format!("becalm undo {id}") };
    print(args, &fix, &next)?;
    Ok(if taken_back { NO } else { 0 })
}

fn title(args: &Args) -> String {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    format!("fix -- {}", words.join(" "))
}

/// Whether nothing speaks against the change: a command whose output tells the time cannot be
/// compared, but its status can.
fn behaves_the_same(proof: &Proof) -> bool {
    match &proof.behaviour {
        Behaviour::Same | Behaviour::SameStatus => true,
        Behaviour::Differs(_) => false,
        Behaviour::Varies { .. } => proof.before.ended == proof.after.ended,
    }
}

fn take_back(id: &str) -> Result<(), Failure> {
    let state = remedy::state_folder()?;
    let options = remedy::Options::new(state);
    remedy::undo(id, &options, remedy::How::default())
        .with_context(|| format!("taking {id} back; try: becalm undo {id}"))?;
    Ok(())
}

fn print(args: &Args, fix: &show::Fix<'_>, next: &str) -> Result<(), Failure> {
    let text = match args.json {
        true => show::json(&fix.to_value())?,
        false => fix.render(show::width::terminal(), next),
    };
    Ok(show::print(&text)?)
}

fn bench(args: &Args) -> Result<Bench, Failure> {
    let wanted = args.place.wanted(&[&args.command])?;
    Ok(Bench {
        input: PathBuf::from("/dev/null"),
        timeout: args.timeout.map(|seconds| Duration::from_secs(seconds.into())),
        recorder: recorded::Wanted::of(&args.command).options(),
        recordings: 2,
        elsewhere: wanted.map(|wanted| Rc::new(ColdNode(wanted)) as Rc<dyn Elsewhere>),
    })
}

fn subject(args: &Args) -> Subject {
    let words: Vec<_> = args.command.iter().map(|word| show::quoted(word.as_bytes())).collect();
    let line = Line { environment: Vec::new(), argv: args.command.clone() };
    Subject { text: words.join(" "), line, prepare: Vec::new() }
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
fn belongs_to_the_system(path: &Path) -> bool {
    let systems = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr"];
    let local = ["/usr/local"];
    systems.iter().any(|folder| path.starts_with(folder))
        && !local.iter().any(|folder| path.starts_with(folder))
}
