//! The script for sbatch that runs a campaign.

use std::path::Path;

use anyhow::Context;
use lab::aslr::campaign::{Batch, Kernel, TimedBy};

use super::{CampaignArgs, arms, clock, kernel};
use crate::exit::Failure;
use crate::save;

/// Writes the script.
pub(super) fn write(args: &CampaignArgs, target: &Path) -> Result<u8, Failure> {
    let own = std::env::current_exe().context("becalm's own path")?;
    let command = match args.command.is_empty() {
        true => String::new(),
        false => format!(" -- {}", term::shell_line(&args.command)),
    };
    let batch = Batch {
        nodes: args.batch.nodes,
        tasks: args.batch.tasks.unwrap_or(1),
        time: args.batch.time.clone(),
        cpu_freq: args.batch.cpu_freq.clone(),
        cpu_bind: args.batch.cpu_bind.clone(),
        becalm: term::quoted(&own),
        directory: term::quoted(std::path::absolute(&args.output)?),
        options: options(args)?,
        command,
    };
    if target.as_os_str() == "-" {
        term::print(&batch.script())?;
        return Ok(0);
    }
    save::whole(target, Path::new(""), |out| out.write_all(batch.script().as_bytes()))?;
    term::print(&format!("Next: sbatch {}\n", term::quoted_path(target)))?;
    Ok(0)
}

/// The options of the campaign that the script runs, each with a blank before it.
fn options(args: &CampaignArgs) -> Result<String, Failure> {
    let arms: Vec<_> = arms(args)?.iter().map(|arm| arm.name()).collect();
    let mut line = format!(
        " --blocks {} --arms {} --threshold {} --rate {}",
        args.blocks,
        arms.join(","),
        args.threshold,
        args.rate
    );
    match args.command.is_empty() {
        true => {
            let Kernel { steps, repeats, values, .. } = kernel(args);
            line += &format!(" --nbStep {steps} --nbRepeat {repeats} --nbValue {values}");
        }
        false => {
            line += if clock(args) == TimedBy::Wall { " --by wall" } else { "" };
            line += if args.untraced { " --untraced" } else { "" };
        }
    }
    line += &args.seed.map(|seed| format!(" --seed {seed}")).unwrap_or_default();
    line += if args.kernel.mpi { " --mpi" } else { "" };
    line += if args.retest { " --retest" } else { "" };
    Ok(line)
}
