//! `becalm modules avail`, and `becalm modules command`, which the hook calls.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use modules::avail::{AvailOutput, TerminalStyle, Unable, avail};
use modules::index::IndexStore;
use modules::site::{Environment, ModulesSite};

use crate::exit::Failure;

/// Modules has to answer (sysexits.h: EX_TEMPFAIL).
pub const ASK_MODULES: u8 = 75;

/// What `module avail` gives, to the byte, from an index; or status 75 and nothing
///
/// Takes the options and patterns of Modules' own avail, -j or --json among them, and writes to
/// stderr as it does. It needs an index (becalm modules index) that is still true, and a site and
/// words whose answer is known for certain: else it is for `module avail` to answer.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "Examples:
  becalm modules avail
  becalm modules avail -t gcc
  becalm modules avail --why -C mpi")]
pub struct ModulesAvailArgs {
    /// Say why Modules has to answer, where it has to
    #[arg(long)]
    why: bool,

    /// Options and patterns of `module avail`
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Any words of `module`, of which avail is answered (for the hook)
#[derive(clap::Args)]
#[command(disable_help_flag = true, hide = true)]
pub struct CommandArgs {
    /// Run the real command for this shell where it has to answer
    #[arg(long, value_name = "SHELL")]
    or_run: Option<String>,

    /// The words after `module`
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs `avail`.
pub fn run(args: &ModulesAvailArgs) -> Result<u8, Failure> {
    of_patterns(&args.words, args.why)
}

/// Runs `avail` with words of Modules' alone. Where they are no text, Modules is asked.
pub fn at_once(words: &[OsString]) -> Result<u8, Failure> {
    let words: Option<Vec<String>> =
        words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    words.map_or(Ok(ASK_MODULES), |words| of_patterns(&words, false))
}

fn of_patterns(words: &[String], says_why: bool) -> Result<u8, Failure> {
    let words: Vec<String> =
        std::iter::once("avail".to_owned()).chain(words.iter().cloned()).collect();
    match answer(&words) {
        Ok(answer) => show(&answer),
        Err(why) if says_why => Err(Failure { status: ASK_MODULES, error: why.into() }),
        Err(_) => Ok(ASK_MODULES),
    }
}

/// Runs `command`.
pub fn command(args: &CommandArgs) -> Result<u8, Failure> {
    of_words(&args.words, args.or_run.as_deref())
}

/// Answers the words of `module`, or has Modules answer for a shell.
pub fn of_words(all: &[OsString], or_run: Option<&str>) -> Result<u8, Failure> {
    if let Some(shown) = from_index(all) {
        return shown;
    }
    let Some(shell) = or_run else { return Ok(ASK_MODULES) };
    let site = ModulesSite::find(&Environment::own()).map_err(Failure::of_command)?;
    let argv = site.argv(shell, all.iter().cloned());
    let never = launch::replace(&launch::Command::of(argv), &[]);
    Err(Failure { status: never.exit_status(), error: never.into() })
}

/// Answers the words of `module` from an index; none where Modules has to answer.
pub fn from_index(words: &[OsString]) -> Option<Result<u8, Failure>> {
    let words: Option<Vec<String>> =
        words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    Some(show(&answer(&words?).ok()?))
}

fn answer(words: &[String]) -> Result<AvailOutput, Unable> {
    let environment = Environment::own();
    let columns = rustix::termios::tcgetwinsize(std::io::stdin()).ok();
    let terminal = TerminalStyle {
        is_stderr: std::io::stderr().is_terminal(),
        columns: columns.map(|size| size.ws_col.into()),
    };
    avail(words, &environment, terminal, &IndexStore::of(&environment))
}

/// To stderr, where Modules writes, too; through the pager where there is one.
fn show(answer: &AvailOutput) -> Result<u8, Failure> {
    if let Some(pager) = answer.pager.as_ref().filter(|_| !answer.text.is_empty())
        && page(&answer.text, pager).is_err()
    {
        // Modules warns of it then.
        return Ok(ASK_MODULES);
    }
    // As in Modules, a closed stderr is no failure.
    let _ = std::io::stderr().write_all(answer.text.as_bytes());
    Ok(0)
}

/// Becomes the pager, which reads the text and writes to what stderr is. Returns only if it
/// cannot.
fn page(text: &str, pager: &[String]) -> std::io::Result<()> {
    let argv = pager.iter().map(OsString::from).collect();
    let command = launch::Command::of(argv);
    command.file().map(|_: PathBuf| ()).map_err(std::io::Error::other)?;
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("avail", flags)?);
    file.write_all(text.as_bytes())?;
    std::io::Seek::rewind(&mut file)?;
    rustix::stdio::dup2_stdin(&file)?;
    rustix::stdio::dup2_stdout(std::io::stderr().as_fd())?;
    Err(std::io::Error::other(launch::replace(&command, &[])))
}
