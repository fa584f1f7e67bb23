//! `becalm python bundle`.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use python::bundle::{self, Bundle, Interpreter, Packed, Traced, Wanted};

use super::hooked;
use crate::aside::Aside;
use crate::closely::Closely;
use crate::exit::{Failure, USAGE};

/// Pack the code that a start imports into one file, and run with it
///
/// The last resort where nothing can be mounted: `becalm image` does more. Modules keep their
/// places: __file__, data beside it, and extension modules are where they were, and what the
/// bundle does not have is imported as without.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
What it cannot take: extension modules and their libraries, data files, sources that a program
reads, what Python asks before module site runs, zipped packages, Pythons with -I, -E or -S.

Examples:
  becalm python bundle -o env.pybundle -- python3 -c 'import numpy'
  becalm python bundle -o env.pybundle --trace start.becalm /opt/env/lib/python3.11/site-packages
  becalm python bundle run env.pybundle -- python3 app.py")]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,

    /// Directories of which all modules are packed, imported by the command or not
    #[arg(value_name = "PATH", required_unless_present_any = ["trace", "command"])]
    paths: Vec<PathBuf>,

    /// The bundle's file
    #[arg(short, long, value_name = "FILE", required = true)]
    output: Option<PathBuf>,

    /// Pack what this recording's Python imports, in its order
    #[arg(long, value_name = "REC", conflicts_with = "command")]
    trace: Option<PathBuf>,

    /// The interpreter [default: the command's or the recording's, else python3]
    #[arg(long, value_name = "PROG")]
    python: Option<PathBuf>,

    /// Print one JSON object (docs/schema/becalm.python.bundle.md)
    #[arg(long)]
    json: bool,

    /// A command to run and record first: what its Python imports is packed, in its order
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(clap::Subcommand)]
enum Verb {
    Run(RunArgs),
}

/// Run a command whose Pythons import from a bundle
///
/// Only a bundle that is yours or root's, and that nobody else may write to, is used: it is code.
/// The command finds the bundle first on PYTHONPATH; so do the Pythons that it starts. One that
/// the bundle was not made for imports as without.
#[derive(clap::Args)]
#[command(after_help = "The command's own exit status is passed on; becalm's failures are 125, \
    126 (cannot execute) and 127 (not found).\n\n\
    Examples:
  becalm python bundle run env.pybundle -- python3 app.py
  srun -n 64 becalm python bundle run env.pybundle -- python3 app.py")]
struct RunArgs {
    /// The bundle
    bundle: PathBuf,

    /// How closely to look whether sources have changed since: at the times of a few directories,
    /// at every directory and source that is used, or only at those outside of installations
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Closely::Quick)]
    check: Closely,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match (&args.verb, &args.output) {
        (Some(Verb::Run(run)), _) => match become_command(run) {
            Ok(never) => match never {},
            Err(failure) => Err(failure),
        },
        (None, Some(output)) => build(args, output),
        (None, None) => Err(Failure { status: USAGE, error: anyhow!("give -o FILE") }),
    }
}

fn become_command(args: &RunArgs) -> Result<Infallible, Failure> {
    let name = || show::plain(&args.bundle.to_string_lossy());
    let bundle = Bundle::open(&args.bundle).with_context(name).map_err(Failure::of_command)?;
    if !python::may_hook(&args.command) {
        show::warn("python -S looks for no bundle: it runs as without");
    }
    let given = std::env::var_os("PYTHONPATH");
    let command = launch::Command { argv: args.command.clone() };
    let why = launch::replace(&command, &bundle.variables(given.as_deref(), args.check.into()));
    Err(Failure { status: why.exit_status(), error: why.into() })
}

fn build(args: &Args, output: &Path) -> Result<u8, Failure> {
    // What the command prints is not what becalm answers.
    let aside = (args.json && !args.command.is_empty()).then(Aside::set).transpose()?;
    let traced = traced(args)?;
    let packed = pack(args, output, &traced)?;
    let answer = show::PythonBundle::of(output, &packed);
    let text = match args.json {
        true => show::json(&answer)?,
        false => answer.render(show::width::terminal(), &next(args, output)),
    };
    match aside {
        Some(aside) => aside.print(&text)?,
        None => show::print(&text)?,
    }
    Ok(0)
}

/// What the recording's or the command's Python imports.
fn traced(args: &Args) -> Result<Traced, Failure> {
    if let Some(trace) = &args.trace {
        return Ok(bundle::traced(&crate::load::load(trace)?, None));
    }
    if args.command.is_empty() {
        return Ok(Traced::default());
    }
    let (recording, hook, finished) = hooked::record(&args.command, true)?;
    let status = finished.ended.pass_on();
    if status != 0 {
        show::warn(&format!("the command ended with status {status}; what it imported is packed"));
    }
    Ok(bundle::traced(&recording, hook.map(|hook| hook.marks()).as_ref()))
}

fn pack(args: &Args, output: &Path, traced: &Traced) -> anyhow::Result<Packed> {
    let program = args.python.clone().or_else(|| traced.interpreter.clone());
    let program = program.unwrap_or_else(|| "python3".into());
    let interpreter = Interpreter::ask(&program, traced.optimize)?;
    Ok(bundle::pack(&Wanted { interpreter, traced, paths: &args.paths }, output)?)
}

/// What to do next: run with it.
fn next(args: &Args, output: &Path) -> String {
    if args.command.is_empty() {
        return String::new();
    }
    let bundle = show::quoted(output.as_os_str().as_bytes());
    let words = args.command.iter().map(|word| show::quoted(word.as_bytes()));
    let words = words.collect::<Vec<_>>().join(" ");
    format!("becalm python bundle run {bundle} -- {words}")
}
