//! `becalm lab aslr scan`.

pub mod view;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, anyhow};
use lab::aslr::measured::MeasuredProgram;
use lab::aslr::scan::{LayoutScanOptions, scan};
use launch::layout::{self, AtExec, LayoutError, LayoutOffset, MemoryLayout};
use launch::{Command, Ended};
use recording::Name;
use term::ProgressBar;

use crate::exit::{FAILED, Failure, NO, USAGE};
use view::AslrScan;

/// Walk layouts one by one, and name those in which a command is slow
///
/// Runs the command in one layout after the other, shuffled, with a reference among them; what was
/// slow is tested again. The command reads nothing, and what it prints is dropped. Answers with
/// exit status 0 (none is slow), or 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm lab aslr scan -- ./kernel
  becalm lab aslr scan --layouts 16384 --by wall -- ./kernel
  becalm lab aslr scan --from 0x1000 --step 512 --json -- ./kernel")]
pub struct LayoutScanArgs {
    /// How many layouts
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    layouts: u64,

    /// The first one, which is the reference, too
    #[arg(long, value_name = "SPEC", default_value = "0x0")]
    from: LayoutOffset,

    /// How many pages apart
    #[arg(long, value_name = "PAGES", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    step: u64,

    /// Slow is what takes longer than the reference by this much
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threshold: u32,

    /// How often a layout that was slow is tested again
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    retests: u16,

    /// Which time counts: of the processor, or from the first instruction to the end
    #[arg(long, value_name = "CLOCK", value_enum, default_value_t = ScanClock::Cpu)]
    by: ScanClock,

    /// What shuffles the runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print one JSON object (docs/schema/becalm.lab.aslr.scan.md)
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum ScanClock {
    Cpu,
    Wall,
}

impl ScanClock {
    /// As an answer names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            ScanClock::Cpu => "CPU",
            ScanClock::Wall => "wall",
        }
    }
}

/// Runs the verb.
pub fn run(args: &LayoutScanArgs) -> Result<u8, Failure> {
    let options = options(args)?;
    let command = Command::of(args.command.clone());
    refuse_untouched(&command)?;
    let out = silenced().map_err(Failure::of_command)?;
    refuse_wrapper(&command, options.first)?;
    let waiting = ProgressBar::new();
    let found = scan(
        &options,
        |moved| time(&command, moved, args.by),
        |what, done, of| waiting.tell(what, done, of),
    )?;
    drop(waiting);
    let is_none = found.slow.is_empty();
    let words = args.command.iter().map(Name::of).collect();
    let answer = AslrScan::of(found, words, args.by.name());
    rustix::stdio::dup2_stdout(out).context("standard output").map_err(Failure::of_command)?;
    term::print_answer(args.json, &answer, |columns| answer.render(columns))
        .map_err(Failure::of_command)?;
    Ok(if is_none { 0 } else { NO })
}

fn options(args: &LayoutScanArgs) -> Result<LayoutScanOptions, Failure> {
    let most = layout::layouts();
    let last = args.from.pages + (args.layouts - 1) * args.step;
    if last >= most {
        return Err(too_many(last, most));
    }
    Ok(LayoutScanOptions {
        first: args.from,
        layouts: args.layouts,
        step: args.step,
        threshold: f64::from(args.threshold) / 100.0,
        retests: usize::from(args.retests),
        seed: args.seed,
    })
}

/// More layouts than there are.
pub(super) fn too_many(last: u64, most: u64) -> Failure {
    let error = anyhow!(
        "layouts up to {last:#x} are asked for; there are {most:#x} under the hard limit of the \
         stack (`ulimit -H -s`)"
    );
    Failure { status: USAGE, error }
}

/// Refuses a program that layouts do not reach.
pub(super) fn refuse_untouched(command: &Command) -> Result<(), Failure> {
    match layout::untouched(&command.file().map_err(not_started)?) {
        None => Ok(()),
        Some(_) => {
            let error = anyhow!(
                "the program is setuid, of 32 bits, or static at a fixed address: nothing to walk"
            );
            Err(Failure { status: FAILED, error })
        }
    }
}

/// Nothing that the command prints goes to standard output, which is returned for the answer.
pub(super) fn silenced() -> anyhow::Result<OwnedFd> {
    let out = io::stdout().as_fd().try_clone_to_owned().context("standard output")?;
    let null = File::options().read(true).write(true).open("/dev/null").context("/dev/null")?;
    rustix::stdio::dup2_stdin(&null).context("standard input")?;
    rustix::stdio::dup2_stdout(&null).context("standard output")?;
    Ok(out)
}

/// How often it is looked who takes the time: where the machine is busy, a shell may seem to once.
const LOOKS: usize = 3;

/// Refuses a command that only starts the one which takes the time: that has no moved layout. For
/// this it runs some times more than it is timed.
pub(super) fn refuse_wrapper(command: &Command, first: LayoutOffset) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        if is_wrapper(command, first)? {
            return Err(Failure::of_command(anyhow!(
                "{} only starts the program that takes the time, and that one's layout is not moved: \
                 give the program itself, without a wrapper",
                command.argv[0].to_string_lossy()
            )));
        }
    }
    Ok(())
}

/// Whether another program than the command's own took the time of a run.
fn is_wrapper(command: &Command, first: LayoutOffset) -> Result<bool, Failure> {
    let child = in_layout(command, first)?;
    let mut at_end = None;
    let timed = child.timed_by(|pid| Ok(at_end.insert(watch::to_end(pid, true)?).at));
    let timed = timed.map_err(Failure::of_command)?;
    let measured = at_end.map(|end| MeasuredProgram::of(&end, &timed));
    let is_another = measured.is_some_and(|program| program != MeasuredProgram::Started);
    Ok(is_another && timed.ended == Ended::Exited(0))
}

/// The command, stopped before its first instruction.
fn in_layout(command: &Command, moved: LayoutOffset) -> Result<AtExec, Failure> {
    layout::start(command, Some(MemoryLayout::Moved(moved))).map_err(|why| match why {
        LayoutError::Command(why) => not_started(why),
        why => Failure::of_command(why),
    })
}

/// One run, in seconds.
fn time(command: &Command, moved: LayoutOffset, by: ScanClock) -> Result<f64, Failure> {
    let child = in_layout(command, moved)?;
    let timed = child.timed().map_err(Failure::of_command)?;
    let took: Duration = match by {
        // The kernel shares it out between the two by ticks: only the sum is exact.
        ScanClock::Cpu => timed.user + timed.system,
        ScanClock::Wall => timed.wall,
    };
    match timed.ended {
        Ended::Exited(0) if took.is_zero() => Err(Failure::of_command(anyhow!(
            "the command took no time that the kernel measures; give it more to do, or --by wall"
        ))),
        Ended::Exited(0) => Ok(took.as_secs_f64()),
        Ended::Exited(status) => Err(Failure::of_command(anyhow!(
            "the command failed with status {status} in layout:{moved}"
        ))),
        Ended::Signaled(signal) => Err(Failure::of_command(anyhow!(
            "the command was killed by signal {signal} in layout:{moved}"
        ))),
    }
}

pub(super) fn not_started(why: launch::CannotStart) -> Failure {
    Failure { status: why.exit_status(), error: why.into() }
}
