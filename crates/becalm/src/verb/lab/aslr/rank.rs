//! `becalm lab aslr rank`: one rank of a campaign's job. Its launcher starts it; nobody types it.

use std::ffi::OsString;
use std::str::FromStr;

use job::LaunchedRank;
use lab::aslr::campaign::{RankDetails, RankError, RankStart, run_rank};
use launch::layout::{LayoutError, MemoryLayout};
use launch::{Command, Ended};

use crate::exit::Failure;

/// Start one rank of a campaign, and say what it took
#[derive(clap::Args)]
#[command(after_help = "Example:\n  becalm lab aslr rank --layout off -- ./app")]
pub struct CampaignRankArgs {
    /// Its layout
    #[arg(long, value_name = "on|off|layout:SPEC")]
    layout: GivenLayout,

    /// Of some ranks, the only processor
    #[arg(long, value_name = "RANK:CPU,…", value_delimiter = ',')]
    on: Vec<RankOnCpu>,

    /// Of some ranks, a processor that they must not run on
    #[arg(long, value_name = "RANK:CPU,…", value_delimiter = ',')]
    not_on: Vec<RankOnCpu>,

    /// Give it an environment of another size
    #[arg(long)]
    another_environment: bool,

    /// Tell its processors, too, and what a control loop takes there
    #[arg(long)]
    machine: bool,

    /// And whether it leaves upper halves of vector registers in use: it is traced for that
    #[arg(long, requires = "machine")]
    vectors: bool,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy)]
struct GivenLayout(Option<MemoryLayout>);

impl FromStr for GivenLayout {
    type Err = String;

    fn from_str(text: &str) -> Result<GivenLayout, String> {
        let layout = match (text, text.strip_prefix("layout:")) {
            ("on", _) => None,
            ("off", _) => Some(MemoryLayout::Off),
            (_, Some(spec)) => Some(MemoryLayout::Moved(spec.parse()?)),
            _ => return Err("give on, off or layout:0x1a2b3".to_owned()),
        };
        Ok(GivenLayout(layout))
    }
}

#[derive(Clone, Copy)]
struct RankOnCpu {
    rank: u32,
    cpu: u32,
}

impl FromStr for RankOnCpu {
    type Err = String;

    fn from_str(text: &str) -> Result<RankOnCpu, String> {
        let pair = text.split_once(':').and_then(|(rank, cpu)| {
            Some(RankOnCpu { rank: rank.parse().ok()?, cpu: cpu.parse().ok()? })
        });
        pair.ok_or_else(|| "give pairs of numbers, RANK:CPU".to_owned())
    }
}

/// Runs the verb.
pub fn run(args: &CampaignRankArgs) -> Result<u8, Failure> {
    let rank = LaunchedRank::rank_or_alone();
    let of_rank =
        |pairs: &[RankOnCpu]| pairs.iter().find(|pair| pair.rank == rank.rank).map(|pair| pair.cpu);
    let seat = RankStart {
        layout: args.layout.0,
        on: of_rank(&args.on),
        not_on: of_rank(&args.not_on),
        environment: args.another_environment,
        beside: match (args.machine, args.vectors) {
            (false, _) => RankDetails::Nothing,
            (true, false) => RankDetails::Machine,
            (true, true) => RankDetails::MachineAndVectors,
        },
    };
    let command = Command::of(args.command.clone());
    let ran = run_rank(&command, &seat, rank.rank, rank.node);
    let (lines, told, ended) = ran.map_err(|why| match why {
        RankError::Layout(LayoutError::Command(why)) => {
            Failure { status: why.exit_status(), error: why.into() }
        }
        why => Failure::of_command(why),
    })?;
    if ended != Ended::Exited(0) {
        return Ok(ended.pass_on());
    }
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text.push_str(&told.line().map_err(Failure::of_command)?);
    text.push('\n');
    term::print(&text).map_err(Failure::of_command)?;
    Ok(0)
}
