//! `becalm lab aslr campaign`.

mod batch;
pub mod view;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, anyhow};
use lab::aslr::campaign::{
    CampaignArm, CampaignOptions, CampaignPlan, Expected, JobStart, Kernel, Logged, RankDetails,
    StartError, Starter, TimedBy,
};
use lab::aslr::log::LoggedProcess;
use launch::CommandLine;
use launch::layout::seed;
use launch::layout::{self, MemoryLayout};
use term::ProgressBar;

use crate::exit::{FAILED, Failure, USAGE};
use view::AslrCampaign;

/// Run many processes with and without randomised layouts, to see whether some are slow by it
///
/// Runs the repeated-pow test (nbStep, nbRepeat, nbValue), or a command: jobs of all arms, in
/// shuffled blocks. First one job as a pilot, and then, before all others, what so many can show
/// and how long they take. Interrupted and started again with the same directory, it goes on.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm lab aslr campaign --blocks 100
  becalm lab aslr campaign -o pow --launcher 'srun -n 16' --mpi --retest
  becalm lab aslr campaign -o app --arms on,off --launcher 'mpirun -n 4' -- ./app
  becalm lab aslr campaign -o pow --blocks 5000 --batch pow.sh --nodes 4 --tasks 16
  becalm lab aslr analyze pow")]
pub struct CampaignArgs {
    /// Where its log is, and the kernel
    #[arg(short, long = "output", value_name = "DIR", default_value = "aslr-campaign")]
    output: PathBuf,

    /// How many blocks, those of earlier runs included: in each, one job of every arm
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    blocks: u64,

    /// Which arms: randomised, not, or one layout a job
    #[arg(
        long,
        value_name = "ARMS",
        value_enum,
        value_delimiter = ',',
        default_value = "on,off,job"
    )]
    arms: Vec<WhichArm>,

    /// What starts the ranks of a job, such as 'srun -n 16'; one process if not given
    #[arg(long, value_name = "LINE")]
    launcher: Option<OsString>,

    /// becalm, where the ranks' nodes have it; this one if not given
    #[arg(long, value_name = "PATH")]
    becalm: Option<PathBuf>,

    /// Start slow ranks again with one thing changed: nothing, processor, environment, layout,
    /// clean vector registers
    #[arg(long)]
    retest: bool,

    /// Slow is what takes longer than its block's median by this much
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threshold: u32,

    /// Tell what the campaign can show of something that slows one rank in 1/RATE
    #[arg(long, value_name = "RATE", default_value_t = 1e-4, value_parser = rate)]
    rate: f64,

    /// What shuffles the blocks and draws the layouts
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Only run the pilot, and tell what the campaign could show
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    kernel: KernelArgs,

    #[command(flatten)]
    batch: BatchArgs,

    /// Print one JSON object (docs/schema/becalm.lab.aslr.campaign.md)
    #[arg(long)]
    json: bool,

    /// A command instead of the kernel: its CT: lines count, or else each process as one time
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,

    /// Which time counts of a command that prints none
    #[arg(long, value_name = "CLOCK", value_enum, default_value_t = WhichClock::Cpu, requires = "command")]
    by: WhichClock,

    /// Do not trace the command, and so not tell whether its vector registers were dirty
    #[arg(long, requires = "command")]
    untraced: bool,
}

/// The kernel.
#[derive(clap::Args)]
#[group(skip)]
struct KernelArgs {
    /// How many steps are timed
    #[arg(long = "nbStep", alias = "nb-step", value_name = "N", default_value_t = 10, conflicts_with = "command", value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// How often a step calls pow for each value
    #[arg(long = "nbRepeat", alias = "nb-repeat", value_name = "N", default_value_t = 100, conflicts_with = "command", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,

    /// For how many values
    #[arg(long = "nbValue", alias = "nb-value", value_name = "N", default_value_t = 1000, conflicts_with = "command", value_parser = clap::value_parser!(u32).range(1..))]
    values: u32,

    /// Have its ranks begin together, by MPI (compiled by mpicc)
    #[arg(long, conflicts_with = "command")]
    mpi: bool,
}

/// The script.
#[derive(clap::Args)]
#[group(skip)]
struct BatchArgs {
    /// Run nothing: write a script for sbatch that runs this campaign; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["launcher", "becalm", "dry_run", "json"], requires = "tasks")]
    batch: Option<PathBuf>,

    /// Of the script: how many nodes
    #[arg(long, value_name = "N", default_value_t = 1, requires = "batch", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,

    /// Of the script: how many ranks a job has
    #[arg(long, value_name = "N", requires = "batch", value_parser = clap::value_parser!(u32).range(1..))]
    tasks: Option<u32>,

    /// Of the script: at which frequency the ranks' processors run, as srun's --cpu-freq takes it
    #[arg(long, value_name = "FREQ", requires = "batch", value_parser = srun_value)]
    cpu_freq: Option<String>,

    /// Of the script: which rank runs on which processor, as srun's --cpu-bind takes it (map_cpu:0,2)
    #[arg(long, value_name = "BIND", requires = "batch", value_parser = srun_value)]
    cpu_bind: Option<String>,

    /// Of the script: its time limit; the partition's own if not given
    #[arg(long, value_name = "TIME", requires = "batch", value_parser = time_limit)]
    time: Option<String>,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum WhichArm {
    On,
    Off,
    Job,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum WhichClock {
    Cpu,
    Wall,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| *rate >= 1e-9 && *rate < 1.0);
    rate.ok_or_else(|| "give a chance from 1e-9 up to 1, such as 1e-4".to_owned())
}

/// As sbatch(1) takes it: minutes, or with colons and a dash.
fn time_limit(text: &str) -> Result<String, String> {
    let is_time = text.bytes().all(|byte| byte.is_ascii_digit() || b":-".contains(&byte));
    (is_time && !text.is_empty()).then(|| text.to_owned()).ok_or_else(|| "give HH:MM:SS".to_owned())
}

/// As srun(1) takes a frequency or a binding: words of a list. It goes into a line that is split
/// twice, so nothing else is let in.
fn srun_value(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":,-_=.".contains(&byte);
    let is_value = !text.is_empty() && text.bytes().all(is_plain);
    is_value.then(|| text.to_owned()).ok_or_else(|| {
        "give it as srun does, such as 2000000 or map_cpu:0,2: letters, digits, and : , - _ = ."
            .to_owned()
    })
}

/// Runs the verb.
pub fn run(args: &CampaignArgs) -> Result<u8, Failure> {
    match &args.batch.batch {
        Some(target) => batch::write(args, target),
        None => campaign(args),
    }
}

fn campaign(args: &CampaignArgs) -> Result<u8, Failure> {
    let begun = Instant::now();
    let launcher = args.launcher.as_deref().map_or(Ok(Vec::new()), words)?;
    let mut plan = plan(args, &launcher)?;
    // Before the kernel is compiled there.
    Logged::check(&args.output, &plan).map_err(Failure::of_command)?;
    let mut starter = starter(args, launcher)?;
    let (pilot, took) = pilot(args, &starter)?;
    plan.ranks = pilot.len() as u32;
    starter.ranks = Some(plan.ranks);
    let layouts = layout::layouts();
    let mut logged = match args.dry_run {
        true => None,
        false => Some(opened(args, &plan)?),
    };
    let earlier = logged.as_ref().map_or(0, |logged| logged.blocks);
    let blocks = args.blocks.max(earlier);
    let expected = Expected::of(
        (blocks, pilot.len() as u64),
        args.rate,
        (blocks - earlier) * plan.arms.len() as u64,
        took,
    );
    let mut answer = AslrCampaign::of(logged.as_ref().map_or(&plan, |it| &it.plan), expected);
    answer.goes_on(&args.output, earlier);
    before(args, &answer)?;
    if let Some(logged) = &mut logged {
        let times: Vec<_> = pilot.iter().map(|process| process.avg).collect();
        let run = CampaignOptions {
            blocks: args.blocks,
            layouts,
            threshold: f64::from(args.threshold) / 100.0,
            retest: args.retest,
            pilot: stats::median(&times).unwrap_or(f64::INFINITY),
        };
        let waiting = ProgressBar::new();
        let tell = |what, done, of| waiting.tell(what, done, of);
        let done = run.go(logged, |order| starter.start(order), tell);
        drop(waiting);
        // The lines of what is done, in any case.
        logged.publish().map_err(Failure::of_command)?;
        answer.ended(done.map_err(Failure::of_command)?, begun.elapsed());
    }
    term::print_answer(args.json, &answer, |columns| answer.after(columns))
        .map_err(Failure::of_command)?;
    Ok(0)
}

/// What the campaign can show, before it is run. Beside JSON, on standard error.
fn before(args: &CampaignArgs, answer: &AslrCampaign) -> Result<(), Failure> {
    let text = answer.before(term::width::terminal());
    match args.json {
        true => term::print_beside(&text),
        false => term::print(&text).map_err(Failure::of_command)?,
    }
    Ok(())
}

fn starter(args: &CampaignArgs, launcher: Vec<OsString>) -> Result<Starter, Failure> {
    let own = || std::env::current_exe().context("becalm's own path");
    let becalm = args.becalm.clone().map_or_else(own, Ok).map_err(Failure::of_command)?;
    let command = match args.command.is_empty() {
        false => args.command.clone(),
        true => {
            std::fs::create_dir_all(&args.output)
                .with_context(|| args.output.display().to_string())
                .map_err(Failure::of_command)?;
            // A path that holds wherever the launcher starts a rank.
            let directory = std::path::absolute(&args.output).map_err(Failure::of_command)?;
            let words = kernel(args).compiled(&directory).map_err(Failure::of_command)?;
            words.into_iter().map(OsString::from).collect()
        }
    };
    Ok(Starter {
        launcher,
        becalm,
        command,
        is_kernel: args.command.is_empty(),
        beside: match (args.command.is_empty(), args.untraced) {
            (true, _) => RankDetails::Nothing,
            (false, true) => RankDetails::Machine,
            (false, false) => RankDetails::MachineAndVectors,
        },
        by: clock(args),
        ranks: None,
    })
}

fn words(line: &OsStr) -> Result<Vec<OsString>, Failure> {
    let usage = |error| Failure { status: USAGE, error };
    let line = CommandLine::parse(line).map_err(|why| usage(anyhow!("--launcher: {why}")))?;
    if !line.environment.is_empty() {
        return Err(usage(anyhow!("--launcher: set variables before becalm")));
    }
    Ok(line.argv)
}

fn kernel(args: &CampaignArgs) -> Kernel {
    let KernelArgs { steps, repeats, values, mpi } = args.kernel;
    Kernel { steps, repeats, values, mpi }
}

fn clock(args: &CampaignArgs) -> TimedBy {
    match args.by {
        WhichClock::Cpu => TimedBy::Cpu,
        WhichClock::Wall => TimedBy::Wall,
    }
}

fn arms(args: &CampaignArgs) -> Result<Vec<CampaignArm>, Failure> {
    let wanted = [
        (WhichArm::On, CampaignArm::On),
        (WhichArm::Off, CampaignArm::Off),
        (WhichArm::Job, CampaignArm::Job),
    ];
    // Each once, in one order, however they were given: it is the same campaign.
    let arms: Vec<_> = wanted.into_iter().filter(|(which, _)| args.arms.contains(which)).collect();
    if arms.is_empty() {
        return Err(Failure { status: USAGE, error: anyhow!("--arms: give on, off or job") });
    }
    Ok(arms.into_iter().map(|(_, arm)| arm).collect())
}

/// One job, to see that it runs, with how many ranks, and how long it takes in seconds.
fn pilot(args: &CampaignArgs, starter: &Starter) -> Result<(Vec<LoggedProcess>, f64), Failure> {
    let layout = (!arms(args)?.contains(&CampaignArm::On)).then_some(MemoryLayout::Off);
    let start = Instant::now();
    let limit = args.retest.then_some(0.0);
    let found = starter.start(&JobStart { layout, limit, ..JobStart::default() });
    let found = found.map_err(|error| match error {
        StartError::Command(why) => Failure { status: why.exit_status(), error: why.into() },
        error => Failure { status: FAILED, error: anyhow!(error).context("the pilot") },
    })?;
    Ok((found, start.elapsed().as_secs_f64()))
}

/// The campaign; how many ranks its jobs have, the pilot will tell.
fn plan(args: &CampaignArgs, launcher: &[OsString]) -> Result<CampaignPlan, Failure> {
    let text = |words: &[OsString]| -> Vec<String> {
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    };
    let is_kernel = args.command.is_empty();
    let command = if is_kernel { kernel(args).words() } else { text(&args.command) };
    let fresh = seed::fresh().map_err(Failure::of_command)?;
    // JSON readers hold whole numbers up to 2^53 exactly.
    let seed = args.seed.unwrap_or(fresh >> 11);
    Ok(CampaignPlan {
        header: CampaignPlan::header(format!("{fresh:016x}"), command, seed),
        launcher: text(launcher),
        arms: arms(args)?,
        ranks: 0,
        by: clock(args),
        is_kernel,
    })
}

fn opened(args: &CampaignArgs, plan: &CampaignPlan) -> Result<Logged, Failure> {
    let logged = Logged::open(&args.output, plan).map_err(Failure::of_command)?;
    match (args.seed, logged.plan.header.seed) {
        (Some(given), Some(was)) if given != was => Err(Failure::of_command(anyhow!(
            "{}: this campaign was begun with --seed {was}",
            logged.path().display()
        ))),
        _ => Ok(logged),
    }
}
