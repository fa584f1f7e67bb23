//! `becalm lab aslr explain`.

pub mod view;

use std::ffi::OsString;

use anyhow::Context;
use lab::aslr::campaign::TimedBy;
use lab::aslr::explain::counter::{self, CounterEvent};
use lab::aslr::explain::{ExplainOptions, explain};
use launch::Command;
use launch::layout::{self, LayoutOffset};
use recording::Name;
use term::ProgressBar;

use super::scan::{ScanClock, refuse_untouched, refuse_wrapper, silenced, too_many};
use crate::exit::{Failure, NO};
use view::AslrExplained;

/// Say why a command is slow in a layout: which region's place, and what the processor counts
///
/// Runs the command in that layout and in a reference; then with each region (a library, the stack,
/// …) alone where the slow layout has it. Counters and page colours of both stand beside each other.
/// The command reads nothing, and what it prints is dropped. Answers with exit status 0 (a cause is
/// named), or 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm lab aslr explain layout:0x3e -- ./kernel
  becalm lab aslr explain layout:0x3e --from layout:0x1000 --by wall -- ./kernel
  becalm lab aslr explain layout:0x3e --event aliasing=r0107 --json -- ./kernel")]
pub struct LayoutExplainArgs {
    /// The slow layout, as a scan or a campaign names it
    #[arg(value_name = "LAYOUT", value_parser = layout_of)]
    layout: LayoutOffset,

    /// The layout that it is compared with
    #[arg(long, value_name = "LAYOUT", default_value = "layout:0x0", value_parser = layout_of)]
    from: LayoutOffset,

    /// Slow is what takes longer than the reference by this much
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threshold: u32,

    /// How often each trial is made; the quickest counts
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// Which time counts: of the processor, or from the first instruction to the end
    #[arg(long, value_name = "CLOCK", value_enum, default_value_t = ScanClock::Cpu)]
    by: ScanClock,

    /// Count the processor's own event of this number, too, as perf writes it (again for more)
    #[arg(long = "event", value_name = "NAME=rUUEE")]
    events: Vec<CounterEvent>,

    /// What shuffles the runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print one JSON object (docs/schema/becalm.lab.aslr.explain.md)
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// A layout, with the word before it or without.
fn layout_of(text: &str) -> Result<LayoutOffset, String> {
    text.strip_prefix("layout:").unwrap_or(text).parse()
}

/// Runs the verb.
pub fn run(args: &LayoutExplainArgs) -> Result<u8, Failure> {
    let (last, most) = (args.layout.pages.max(args.from.pages), layout::layouts());
    if last >= most {
        return Err(too_many(last, most));
    }
    let command = Command::of(args.command.clone());
    refuse_untouched(&command)?;
    let out = silenced().map_err(Failure::of_command)?;
    refuse_wrapper(&command, args.from)?;
    let waiting = ProgressBar::new();
    let tell = |what, done, of| waiting.tell(what, done, of);
    let (trials, counts) = explain(&command, &options(args), tell).map_err(Failure::of_command)?;
    drop(waiting);
    let words = args.command.iter().map(Name::of).collect();
    let answer = AslrExplained::of(trials, counts, words, args.by.name());
    rustix::stdio::dup2_stdout(out).context("standard output").map_err(Failure::of_command)?;
    term::print_answer(args.json, &answer, |columns| answer.render(columns))
        .map_err(Failure::of_command)?;
    Ok(if answer.names_a_cause() { 0 } else { NO })
}

fn options(args: &LayoutExplainArgs) -> ExplainOptions {
    ExplainOptions {
        slow: args.layout,
        reference: args.from,
        threshold: f64::from(args.threshold) / 100.0,
        rounds: usize::from(args.rounds),
        seed: args.seed,
        by: match args.by {
            ScanClock::Cpu => TimedBy::Cpu,
            ScanClock::Wall => TimedBy::Wall,
        },
        events: counter::usual().into_iter().chain(args.events.iter().cloned()).collect(),
    }
}
