//! `becalm fork lines`.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fork::lines::{Lines, hook};
use show::ForkLines;
use watch::Starts;

use crate::aside::Aside;
use crate::exit::Failure;
use crate::{python_path, recorded, save};

/// Say which line of a script starts which programs, and what each start costs
///
/// Runs the command and looks into bash, Python and make at each fork; nothing of the script is changed,
/// and only what starts processes is stopped at. The report follows the command's own output, on
/// standard error (on standard output, if only that is a terminal). The command's exit status is
/// passed on.
#[derive(clap::Args)]
#[command(after_help = "\
Of dash the lines are not known: its processes are counted by program, and the report says so.
`dash SCRIPT` is seen line by line as `bash --posix SCRIPT`.

Examples:
  becalm fork lines -- ./unpack.sh list.txt
  becalm fork lines --all -- bash -c 'for i in 1 2 3; do dirname /a/b; done'
  becalm fork lines --json -- ./configure | jq '.lines[0]'")]
pub struct Args {
    /// Show every line that started something, and the whole of every script
    #[arg(long)]
    all: bool,

    /// Tell the time that opening files of locales takes, too, from what programs do after their
    /// start; it costs a stop at every open
    #[arg(long)]
    locale: bool,

    /// Print one JSON object instead of the report: the command's standard output then goes to
    /// standard error. With =FILE, write it there, and report as usual
    /// (docs/schema/becalm.fork.lines.md)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let aside = match args.json {
        Some(None) => Some(Aside::set().map_err(Failure::of_command)?),
        _ => None,
    };
    let starts = if args.locale { Starts::AndLocales } else { Starts::Alone };
    let wanted = recorded::Wanted { starts: Some(starts), ..recorded::Wanted::of(&args.command) };
    let hook = hook(python_path::given().as_deref()).map_err(Failure::of_command)?;
    let record = || recorded::and_read(&wanted, None);
    let (recording, finished) = python_path::instead(&hook.python_path(), record)?;
    recorded::say_what_is_missing(&finished);
    let answer = ForkLines::of(&recording, Lines::of(&recording), finished.still_running);
    print(args, &answer, aside).map_err(Failure::of_command)?;
    recorded::pass_on(&finished)
}

fn print(args: &Args, answer: &ForkLines, aside: Option<Aside>) -> anyhow::Result<()> {
    if let Some(aside) = aside {
        return aside.print(&show::json(answer)?);
    }
    if let Some(Some(target)) = &args.json {
        let json = show::json(answer)?;
        save::whole(target, Path::new(""), |out| out.write_all(json.as_bytes()))?;
    }
    let words = args.command.iter().map(|word| show::quoted(word.as_bytes()));
    let words = words.collect::<Vec<_>>().join(" ");
    let next = match answer.is_of_bash() {
        true => format!("becalm run --builtins -- {words}"),
        false => format!("becalm check -- {words}"),
    };
    if !std::io::stderr().is_terminal() && std::io::stdout().is_terminal() {
        show::print(&answer.render(show::width::terminal(), args.all, &next))?;
    } else {
        let columns = show::width::terminal_of(std::io::stderr());
        let text = answer.render(columns, args.all, &next);
        // Where standard error takes nothing there is nobody to tell.
        let _ = anstream::stderr().write_all(text.as_bytes());
    }
    Ok(())
}
