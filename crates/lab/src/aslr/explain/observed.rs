//! Runs in both layouts that are counted, and looked at in their end.

use std::io;

use launch::layout::LayoutOffset;
use launch::{ArrangedStart, Arrangement, Command, Ended, arranged_start};

use super::colour::{ColourError, PageColours};
use super::counter::{CounterEvent, EventCounter};
use super::{CountRefused, ExplainError, ExplainOptions, LayoutCount, LayoutCounts};

/// How often the command is counted in each layout.
const RUNS: usize = 5;

/// A run, as it was counted.
struct CountedRun {
    /// Of each event, what was counted.
    counts: Vec<io::Result<Option<f64>>>,
    colours: Result<PageColours, ColourError>,
}

/// Counts in both layouts, as they are, by turns.
pub(super) fn counted(
    command: &Command,
    options: &ExplainOptions,
    tell: &dyn Fn(&'static str, u64, u64),
) -> Result<LayoutCounts, ExplainError> {
    let layouts = [options.reference, options.slow];
    let mut runs = [Vec::new(), Vec::new()];
    for turn in 0..RUNS {
        for at in 0..2 {
            let side = (turn + at) % 2;
            tell("counting", (2 * turn + at) as u64, 2 * RUNS as u64);
            runs[side].push(run(command, layouts[side], &options.events)?);
        }
    }
    let mut answer = LayoutCounts { runs: RUNS as u64, ..LayoutCounts::default() };
    for (at, event) in options.events.iter().enumerate() {
        let sides = [0, 1].map(|side| counts_of(&runs[side], at));
        match sides {
            [Ok(reference), Ok(layout)] => {
                let name = event.name.clone();
                answer.counts.push(LayoutCount { name, reference, layout });
            }
            [Err(why), _] | [_, Err(why)] => answer.refuse(&event.name, why),
        }
    }
    answer.colours(&runs);
    Ok(answer)
}

fn run(
    command: &Command,
    layout: LayoutOffset,
    events: &[CounterEvent],
) -> Result<CountedRun, ExplainError> {
    let start: ArrangedStart = arranged_start(command, layout, &Arrangement::default())?;
    let pid = start.pid();
    let counters: Vec<_> = events.iter().map(|event| EventCounter::of(pid, event)).collect();
    let (colours, timed) = start.looked_at_in_the_end(|pid| Ok(PageColours::of(pid)))?;
    if timed.ended != Ended::Exited(0) {
        let layout = format!("layout:{layout}");
        return Err(ExplainError::Failed { ended: timed.ended, layout });
    }
    let counts = counters.into_iter().map(|counter| counter?.value()).collect();
    Ok(CountedRun { counts, colours })
}

/// The median of an event's counts, or why there is none.
fn counts_of(runs: &[CountedRun], at: usize) -> Result<f64, String> {
    let mut counts = Vec::new();
    for run in runs {
        match &run.counts[at] {
            Ok(Some(count)) => counts.push(*count),
            Ok(None) => return Err("the processor had no counter free for it".to_owned()),
            Err(error) => return Err(why(error)),
        }
    }
    stats::median(&counts).ok_or_else(|| "nothing ran".to_owned())
}

/// Why an event is not counted (perf_event_open(2)).
fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL) => {
            format!("this machine has no such counter, as most virtual ones ({error})")
        }
        Some(libc::EACCES | libc::EPERM) => {
            format!("the kernel refuses it: see kernel.perf_event_paranoid ({error})")
        }
        _ => error.to_string(),
    }
}

impl LayoutCounts {
    fn refuse(&mut self, name: &str, why: String) {
        match self.refused.iter_mut().find(|refused| refused.why == why) {
            Some(refused) => refused.names.push(name.to_owned()),
            None => self.refused.push(CountRefused { names: vec![name.to_owned()], why }),
        }
    }

    /// Adds what pages were seen.
    fn colours(&mut self, runs: &[Vec<CountedRun>; 2]) {
        let refusal = runs.iter().flatten().find_map(|run| run.colours.as_ref().err());
        if let Some(refusal) = refusal {
            return self.refuse("page colours", refusal.to_string());
        }
        let of = |tell: fn(&PageColours) -> u64| {
            [0, 1].map(|side: usize| {
                let pages = runs[side].iter().filter_map(|run| run.colours.as_ref().ok());
                let pages: Vec<f64> = pages.map(|colours| tell(colours) as f64).collect();
                stats::median(&pages).unwrap_or(0.0)
            })
        };
        let colours = of(|colours| colours.colours)[0];
        let most = format!("of them of one L2 colour of {colours}, at most");
        for (name, tell) in [
            ("pages in memory in the end".to_owned(), (|it| it.pages) as fn(&PageColours) -> u64),
            (most, |it| it.most),
        ] {
            let [reference, layout] = of(tell);
            self.counts.push(LayoutCount { name, reference, layout });
        }
    }
}
