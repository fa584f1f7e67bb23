//! `becalm lab fork collapse`.

pub mod view;

use crate::exit::{Failure, NO};
use view::ForkCollapse;

/// Put a running process's memory into huge pages, so that it forks faster
///
/// For a shell or a Python that has grown large and starts program after program: what fork copies
/// of it becomes hundreds of times smaller. As root nothing of the process is stopped or changed for
/// it (CAP_SYS_NICE, Linux 6.1 or later). Without that right one of its threads is lent for it, where
/// an interruption does not change what that does; else it is refused. `becalm run --hugepages` asks
/// from the start.
///
/// Answers with exit status 0, or 1 (nothing gained, or refused: the process is as it was).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm lab fork collapse 4711
  becalm lab fork collapse $$")]
pub struct CollapseArgs {
    /// The process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,

    /// Print one JSON object (docs/schema/becalm.lab.fork.collapse.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &CollapseArgs) -> Result<u8, Failure> {
    let waiting = term::ProgressBar::new();
    let progress = |done, of| waiting.tell("collapsing, in MiB", done >> 20, of >> 20);
    let collapsed = lab::collapse::collapse(args.pid, &progress)?;
    drop(waiting);
    let answer = ForkCollapse::of(collapsed);
    answer.warnings().iter().for_each(|line| term::warn(line));
    term::print_answer(args.json, &answer, |columns| answer.render(columns))?;
    Ok(if answer.has_gained() { 0 } else { NO })
}
