//! `becalm run --builtins`: programs that bash runs in its own process.

use std::ffi::OsString;

use recording::shown_name;
use schemars::JsonSchema;
use script::builtins::{self, BuiltinsError, CountFile, CountedStarts, Prepared, ProgramMatch};
use serde::Serialize;

use crate::counted_starts;
use crate::exit::Failure;

/// Whether bash is given builtins.
#[derive(Clone, clap::Args)]
#[group(skip)]
pub struct RunBuiltinsArgs {
    /// Have scripts of bash and dash run mkdir, mv, rm, dirname and the like in the shell's own
    /// process, where that is the same, and bash start others without a copy of itself; see
    /// docs/run-builtins.md
    #[arg(long, group = "means")]
    pub builtins: bool,

    /// Say at the end how many starts --builtins has avoided, and why not the others; becalm stays
    /// beside the command for that
    #[arg(long, requires = "bash")]
    pub count: bool,
}

/// What a command is given, and its file of numbers.
pub struct PreparedBuiltins {
    /// What docs/schema/becalm.run.md describes.
    pub about: GivenBuiltins,
    /// Where shells count, if they are to.
    pub count: Option<CountFile>,
}

/// What bash does in its own process.
#[derive(Serialize, JsonSchema)]
pub struct GivenBuiltins {
    /// The value of `BASH_ENV`.
    bash_env: String,
    /// The programs that a bash may do in its own process: each shell decides that at each command.
    /// None where `without_effect` says why.
    inside: Vec<ProgramInside>,
    /// The programs that bash could do, but for another version or shell.
    only_started: Vec<ProgramStarted>,
    /// Why the shell that runs the command takes no builtins, where that is known before it starts.
    without_effect: Option<String>,
    /// What the command's shells have counted, with `--count`.
    counted: Option<CountedStarts>,
}

/// A program that a bash may do in its own process.
#[derive(Serialize, JsonSchema)]
struct ProgramInside {
    /// Its name.
    name: &'static str,
    /// Its file, without symbolic links.
    file: String,
    /// What it says that it is.
    version: String,
}

/// A program that is always started.
#[derive(Serialize, JsonSchema)]
struct ProgramStarted {
    /// Its name.
    name: &'static str,
    /// What it says that it is, or why it says nothing, or what `without_effect` says.
    why: String,
}

/// Prepares the builtins, if they are asked for.
pub fn prepare(
    args: &RunBuiltinsArgs,
    command: &launch::Command,
    variables: &mut Vec<(OsString, OsString)>,
) -> Result<Option<PreparedBuiltins>, Failure> {
    if !args.builtins {
        return Ok(None);
    }
    let users = std::env::var_os("BASH_ENV");
    let prepared = match builtins::prepare(users.as_deref()) {
        Ok(prepared) => prepared,
        // Nobody's script waits for a limit or a directory to be another.
        Err(why) if why.is_of_this_start() => {
            if let BuiltinsError::Damaged(_) | BuiltinsError::ForeignShell(_) = &why {
                variables.push(("BASH_ENV".into(), OsString::new()));
            }
            term::warn(&format!("--builtins is not done: {why}; the command runs without"));
            return Ok(None);
        }
        Err(why) => return Err(Failure::of_command(why)),
    };
    let without = builtins::without_effect(command, &prepared);
    if let Some(why) = without.as_deref().filter(|_| super::aslr::is_first()) {
        term::warn(&format!(
            "--builtins avoids nothing in this command's own shell: {why}; only shells that it starts \
             may go without starts"
        ));
    }
    let about = about(&prepared, without);
    let count = if args.count { counting() } else { None };
    if let Some(count) = &count {
        variables.push((builtins::COUNT_VARIABLE.into(), count.file().into()));
    }
    if let Some(library) = prepared.preload(command) {
        variables.push(("LD_PRELOAD".into(), library));
    }
    variables.push(("BASH_ENV".into(), prepared.bash_env));
    Ok(Some(PreparedBuiltins { about, count }))
}

/// A command that is not counted runs all the same.
fn counting() -> Option<CountFile> {
    let made = CountFile::new();
    made.inspect_err(|why| term::warn(&format!("--count is not done: {why}"))).ok()
}

/// Which programs are done inside is decided by each shell at each command: here is which could be.
fn about(prepared: &Prepared, without_effect: Option<String>) -> GivenBuiltins {
    let mut inside = Vec::new();
    let mut only_started = Vec::new();
    for program in prepared.programs() {
        match (&program.known, &without_effect) {
            (ProgramMatch::Yes { file, version }, None) => inside.push(ProgramInside {
                name: program.name,
                file: shown_name(file),
                version: version.clone(),
            }),
            (ProgramMatch::Yes { .. }, Some(why)) | (ProgramMatch::No { why }, _) => {
                only_started.push(ProgramStarted { name: program.name, why: why.clone() });
            }
        }
    }
    let bash_env = shown_name(&prepared.bash_env);
    GivenBuiltins { bash_env, inside, only_started, without_effect, counted: None }
}

impl PreparedBuiltins {
    /// Says what was counted: in words, or as a field of the object.
    pub fn say_counted(&mut self, json: bool) {
        let counted = match self.count.as_ref().map(CountFile::read) {
            Some(Ok(counted)) => counted,
            Some(Err(why)) => return term::warn(&why.to_string()),
            None => return,
        };
        if json {
            self.about.counted = Some(counted);
        } else {
            term::warn(&counted_starts::words(&counted));
            term::print_beside(&counted_starts::table(&counted, term::width::terminal()));
        }
    }
}
