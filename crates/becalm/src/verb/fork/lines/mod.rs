//! `becalm fork lines`.

mod critical;
mod tree;
pub mod view;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use launch::takes_hook;
use recording::{Recording, shown_name};
use script::lines::{ScriptLines, hook, processes};
use watch::{RecordedStarts, Until};

use crate::attached::{self, AttachRequest};
use crate::command_report::ReportOptions;
use crate::exit::Failure;
use crate::reporting_rank::RankReport;
use crate::{python_path, recorded};
use view::ForkLines;

/// Say which line of a script starts which programs, and what each start costs
///
/// Runs the command and looks into bash, zsh, Perl, Python and make at each fork; nothing of the script is
/// changed, and only what starts processes is stopped at. The report follows the command's own
/// output, on standard error (on standard output, if only that is a terminal). The command's exit
/// status is passed on. Of a recording that `becalm record` made, Python's lines are not known.
#[derive(clap::Args)]
#[command(after_help = "\
Of dash the lines are not known: its processes are counted by program, and the report says so.
`dash SCRIPT` is seen line by line as `bash --posix SCRIPT`. Under srun or mpirun every rank is
watched alike and one reports.

Examples:
  becalm fork lines -- ./unpack.sh list.txt
  becalm fork lines --processes -- ./configure
  becalm fork lines --all -- bash -c 'for i in 1 2 3; do dirname /a/b; done'
  becalm fork lines all.becalm --rank 7
  becalm fork lines --until 10 --attach $(pgrep -o make)
  becalm fork lines --json -- ./configure | jq '.lines[0]'")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["recording", "attach", "command"]))]
pub struct ForkLinesArgs {
    /// A recording that `becalm record` made, instead of a command
    recording: Option<PathBuf>,

    /// Processes that run already, with all below them, instead of a command: until Ctrl-C, or for
    /// the time of --until. Of bash and make only are the lines known then
    #[arg(long, value_name = "PID", num_args = 1.., value_parser = clap::value_parser!(i32).range(1..))]
    attach: Vec<i32>,

    /// With --attach: let go after so many seconds, or as becalm attach takes it
    #[arg(long, value_name = "WHEN", value_parser = attached::until, requires = "attach")]
    until: Vec<Until>,

    #[command(flatten)]
    report: ReportOptions,

    /// Show every line that started something, and the whole of every script
    #[arg(long)]
    all: bool,

    /// Show the processes, too, as the tree that they are, with what each one's time went to
    #[arg(long)]
    processes: bool,

    /// Tell the time that opening files of locales takes, too, from what programs do after their
    /// start; it costs a stop at every open
    #[arg(long, conflicts_with = "recording")]
    locale: bool,

    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// How the ranks that do not report can be had.
const OTHER_RANKS: &str =
    "--rank N is another's; all of them: becalm record, merge, fork lines REC";

/// Runs the verb.
pub fn run(args: &ForkLinesArgs) -> Result<u8, Failure> {
    match &args.recording {
        Some(file) => of_recording(args, file),
        None if args.attach.is_empty() => of_command(args),
        None => of_running(args),
    }
}

fn of_running(args: &ForkLinesArgs) -> Result<u8, Failure> {
    let starts = if args.locale { RecordedStarts::AndLocales } else { RecordedStarts::Alone };
    let pids = args.attach.clone();
    let wanted =
        AttachRequest { pids, from_exec: false, until: args.until.clone(), starts: Some(starts) };
    let recording = attached::and_read(wanted, None)?.recording;
    explain::warnings(&recording).iter().for_each(|warning| term::warn(&warning.text));
    let answer = account(args, &recording, 0);
    let pids: Vec<String> = args.attach.iter().map(ToString::to_string).collect();
    let next = format!("becalm attach {}", pids.join(" "));
    let report = |columns| answer.render(columns, args.all, &next);
    args.report.print_of_recording(Path::new(""), &answer, report)?;
    Ok(0)
}

fn of_recording(args: &ForkLinesArgs, file: &Path) -> Result<u8, Failure> {
    let recording = args.report.rank.load(file)?;
    explain::warnings(&recording).iter().for_each(|warning| term::warn(&warning.text));
    let mut answer = account(args, &recording, 0);
    answer.recording = Some(shown_name(file));
    answer.rank = args.report.rank.asked_for();
    let next = format!("becalm report {} --by line", args.report.rank.quoted(file));
    let report = |columns| answer.render(columns, args.all, &next);
    args.report.print_of_recording(file, &answer, report)?;
    Ok(0)
}

fn of_command(args: &ForkLinesArgs) -> Result<u8, Failure> {
    let report = args.report.begin()?;
    let starts = if args.locale { RecordedStarts::AndLocales } else { RecordedStarts::Alone };
    let wanted = recorded::RecordRequest {
        starts: Some(starts),
        ..recorded::RecordRequest::of(&args.command)
    };
    let hook = takes_hook(&args.command).then(|| hook(python_path::given().as_deref()));
    let record = || recorded::and_read(&wanted);
    let (recording, finished) = match &hook {
        Some(Ok(hook)) => python_path::instead(&hook.python_path(), record)?,
        Some(Err(why)) => {
            term::warn(&format!("{why}; so Python's lines are not known"));
            record()?
        }
        None => record()?,
    };
    report.rank.say_what_is_missing(&finished);
    if !report.rank.is_silent() {
        let mut answer = account(args, &recording, finished.still_running);
        answer.rank = report.rank.number();
        let next = next(args, &answer);
        let screen = |columns| answer.render(columns, args.all, &next);
        report.print(Path::new(""), &answer, screen, OTHER_RANKS)?;
    }
    // What ends by its command's signal drops nothing.
    drop(hook);
    recorded::pass_on(&finished)
}

fn account(args: &ForkLinesArgs, recording: &Recording, still_running: usize) -> ForkLines {
    let mut answer = ForkLines::of(recording, ScriptLines::of(recording), still_running);
    answer.process_tree = args.processes.then(|| processes(recording));
    answer
}

fn next(args: &ForkLinesArgs, answer: &ForkLines) -> String {
    let command = term::shell_line(&args.command);
    match answer.is_of_bash() {
        true => format!("becalm run --builtins --count -- {command}"),
        false => format!("becalm check -- {command}"),
    }
}
