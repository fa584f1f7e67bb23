//! `becalm run --aslr`: a command's memory laid out without randomisation, or as the whole job's.

use std::ffi::OsString;
use std::str::FromStr;

use anyhow::{Context, anyhow};
use job::LaunchedRank;
use launch::layout::seed;
use launch::layout::{self, LayoutError, LayoutOffset, MemoryLayout, Untouched};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{FAILED, Failure};

/// Where memory lies.
#[derive(Clone, clap::Args)]
#[group(skip)]
pub struct RunAslrArgs {
    /// Lay memory out without randomisation (off), alike in all ranks of a job and fresh for each
    /// job (job), or as a scan has told (layout:0x1a2b3)
    #[arg(long, value_name = "off|job|layout:SPEC", group = "means")]
    pub aslr: Option<AslrSetting>,

    /// What the job's layout is drawn from, instead of the job's number and a secret of the user
    #[arg(long, value_name = "TEXT", requires = "aslr")]
    pub seed: Option<String>,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq)]
pub enum AslrSetting {
    Off,
    Job,
    Replayed(LayoutOffset),
}

impl FromStr for AslrSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<AslrSetting, String> {
        match text {
            "off" => Ok(AslrSetting::Off),
            "job" => Ok(AslrSetting::Job),
            _ => match text.strip_prefix("layout:") {
                Some(spec) => spec.parse().map(AslrSetting::Replayed),
                None => Err("give off, job or layout:0x1a2b3".to_owned()),
            },
        }
    }
}

/// Where the command's memory lies.
#[derive(Serialize, JsonSchema)]
pub struct EnteredLayout {
    /// `off`, or what `--aslr` takes back: `layout:0x1a2b3+0x40`; null where the program takes none.
    layout: Option<String>,
    /// What names the job; null where a seed was given or there is none.
    job: Option<String>,
    /// It is one of so many, with `job`.
    layouts: Option<u64>,
    /// What does not hold for it, a sentence each.
    notes: Vec<String>,
}

/// Lays out what this process executes next, if that is asked for, and says what
/// docs/schema/becalm.run.md describes. `variables` must hold all others: it is padded to a size.
pub fn enter(
    args: &RunAslrArgs,
    command: &launch::Command,
    variables: &mut Vec<(OsString, OsString)>,
) -> Result<Option<EnteredLayout>, Failure> {
    let Some(drawn) = draw(args)? else { return Ok(None) };
    let mut notes = drawn.notes;
    // What cannot be found, replacing this process will tell.
    let untouched = command.file().ok().and_then(|path| layout::untouched(&path));
    let layout = match untouched {
        // Under a tracer it would not get its user, and the kernel ignores the layout.
        Some(Untouched::Setuid) => None,
        Some(Untouched::Narrow) => Some(MemoryLayout::Off),
        _ => Some(drawn.layout),
    };
    notes.extend(untouched.map(|why| about_program(why).to_owned()));
    let layout = match layout.map(|layout| (layout, layout::enter(layout, command, variables))) {
        None => None,
        Some((layout, Ok(()))) => Some(layout),
        Some((_, Err(LayoutError::Command(why)))) => {
            return Err(Failure { status: why.exit_status(), error: why.into() });
        }
        Some((MemoryLayout::Moved(_), Err(why)))
            if args.aslr == Some(AslrSetting::Job) && is_fixed(&why) =>
        {
            layout::enter(MemoryLayout::Off, command, variables).map_err(Failure::of_command)?;
            notes.push(format!("{why}; the layout is that of --aslr off: every job has the same"));
            Some(MemoryLayout::Off)
        }
        Some((_, Err(why))) => {
            return Err(Failure::of_command(anyhow!(why).context("--aslr")));
        }
    };
    if is_first() {
        notes.iter().for_each(|note| term::warn(&format!("--aslr: {note}")));
    }
    Ok(Some(EnteredLayout {
        layout: layout.map(|layout| match layout {
            MemoryLayout::Off => "off".to_owned(),
            MemoryLayout::Moved(moved) => format!("layout:{moved}"),
        }),
        job: drawn.job,
        layouts: drawn.layouts,
        notes,
    }))
}

/// A layout, and what is to be said about where it is from.
pub struct DrawnLayout {
    pub layout: MemoryLayout,
    /// What names the job, unless a seed does.
    job: Option<String>,
    /// It is one of so many.
    layouts: Option<u64>,
    notes: Vec<String>,
}

/// The layout that is asked for.
pub fn draw(args: &RunAslrArgs) -> Result<Option<DrawnLayout>, Failure> {
    let plain = |layout| DrawnLayout { layout, job: None, layouts: None, notes: Vec::new() };
    if args.seed.is_some() && args.aslr != Some(AslrSetting::Job) {
        return Err(Failure {
            status: crate::exit::USAGE,
            error: anyhow!("--seed is for --aslr job"),
        });
    }
    match args.aslr {
        None => Ok(None),
        Some(AslrSetting::Off) => Ok(Some(plain(MemoryLayout::Off))),
        Some(AslrSetting::Replayed(moved)) => Ok(Some(plain(MemoryLayout::Moved(moved)))),
        Some(AslrSetting::Job) => draw_for_job(args.seed.as_deref()).map(Some),
    }
}

fn draw_for_job(given: Option<&str>) -> Result<DrawnLayout, Failure> {
    let mut notes = Vec::new();
    let job = if given.is_some() { None } else { job()? };
    let number = match (given, &job) {
        (Some(text), _) => seed::drawn_from(text.as_bytes(), ""),
        (None, Some(job)) => {
            let secret = remedy::state_directory().map_err(anyhow::Error::from);
            let secret = secret.and_then(|state| Ok(seed::secret(&state)?));
            let secret = secret.context("no secret to draw a layout from; give --seed");
            let secret = secret.map_err(|error| Failure { status: FAILED, error })?;
            seed::drawn_from(&secret, job)
        }
        (None, None) => {
            notes.push("no job was found, so this launch has a layout of its own".to_owned());
            seed::fresh().map_err(Failure::of_command)?
        }
    };
    let layouts = layout::layouts();
    if (2..layout::unlimited_layouts()).contains(&layouts) {
        notes.push(format!(
            "the hard limit of the stack allows {layouts} layouts, and one of a rank under \
             another limit may differ"
        ));
    }
    let layout = MemoryLayout::Moved(LayoutOffset::drawn(number, layouts));
    Ok(DrawnLayout { layout, job, layouts: Some(layouts), notes })
}

/// What names the job that this process is of: a launcher's name for the run of a rank, or a
/// scheduler's for a batch script. None where there is neither.
fn job() -> Result<Option<String>, Failure> {
    if let Some(launched) = LaunchedRank::this_process() {
        let run = launched.rank.run;
        // One with a question mark is known on its own node only.
        if run.contains('?') && launched.rank.size != Some(1) {
            let error =
                anyhow!("the launcher does not tell its ranks which job they are of; give --seed");
            return Err(Failure { status: FAILED, error });
        }
        return Ok(Some(run));
    }
    // Slurm, PBS, LSF, Flux, Grid Engine, Fujitsu's.
    const JOBS: [&str; 6] =
        ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID", "PJM_JOBID"];
    let named = |name: &&str| std::env::var(name).ok().map(|value| format!("{name}={value}"));
    Ok(JOBS.iter().find_map(named))
}

/// Whether this is a lack of the machine that leaves the fixed layout: the same in all ranks.
fn is_fixed(why: &LayoutError) -> bool {
    use LayoutError::{Addresses, Legacy, Limit, Untraceable};
    matches!(why, Untraceable(_) | Limit { .. } | Addresses | Legacy)
}

/// Thousands of ranks need not say the same.
pub(super) fn is_first() -> bool {
    LaunchedRank::this_process().is_none_or(|launched| launched.rank.rank == 0)
}

fn about_program(why: Untouched) -> &'static str {
    match why {
        Untouched::Setuid => {
            "it changes its user, group or capabilities, for which the kernel switches \
             randomisation on again: started unchanged"
        }
        Untouched::Narrow => "it is a 32-bit program: the layout is that of --aslr off",
        Untouched::Static => {
            "it is linked statically at a fixed address: only its stack and what it maps can move"
        }
    }
}
