//! `becalm lab aslr analyze`.

mod next;
mod verdict;
pub mod view;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use lab::aslr::analyze::{self, Analysis, AnalysisOptions, Input, RankSamples, Statistic};
use lab::ministat::{Confidence, FEWEST_VALUES, MOST_SETS, MinistatOptions, ministat};

use crate::exit::{Failure, NO, USAGE};
use crate::save;
use view::AslrAnalysis;

/// How many slow ranks are named, if not all.
const NAMED: usize = 10;
/// A taller plot is only shown with --ministat: it would push the answer off the screen.
const PLOT_ROWS: usize = 16;
/// With --all: more is a list for no one.
const NAMED_OF_ALL: usize = 100_000;

/// Say what times of many processes prove about rare slow ones
///
/// Reads logs of a campaign, lines of the published test (CT: rank min max avg stddev : …), or
/// numbers, one a line. Says what ministat says, and then what it cannot: how many ranks are slow,
/// whether one arm has more (Fisher's exact test), how likely a job has one, and what a
/// conclusion takes. Answers with exit status 0, or 1 (compared, and not proven).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm lab aslr analyze on.log off.log
  becalm lab aslr analyze on=monday/ off=tuesday/ --ranks 24576
  becalm lab aslr analyze campaign/ --strip strip.svg --tail tail.svg
  becalm lab aslr analyze --ministat before.txt after.txt")]
pub struct AnalyzeArgs {
    /// A log, or a directory of logs. NAME= before it says of which arm it is: on, off, job, …
    #[arg(required = true, value_name = "[NAME=]PATH")]
    paths: Vec<OsString>,

    /// Slow is what takes longer by this much than the median job of all arms; in a campaign, than the
    /// quickest of its block
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent)]
    threshold: f64,

    /// Which number stands for a rank: the mean of its repetitions, or the extremes
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Which::Avg)]
    of: Which,

    /// How likely a job of so many ranks has a slow one
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = ranks())]
    ranks: u64,

    /// Name every slow rank, not only the slowest ten
    #[arg(long)]
    all: bool,

    /// Print what ministat prints, and nothing else
    #[arg(long, conflicts_with_all = ["json", "all"])]
    ministat: bool,

    /// ministat's confidence: 80, 90, 95, 98, 99 or 99.5
    #[arg(short, long, value_name = "PERCENT", default_value = "95", value_parser = confidence)]
    confidence: Confidence,

    /// ministat's bars for each arm on a line of its own
    #[arg(short, long)]
    separate: bool,

    /// How wide ministat's plot is
    #[arg(short, long, value_name = "COLUMNS", default_value_t = 74, value_parser = columns())]
    width: u64,

    /// Draw every rank as a mark in the strip of its arm, as SVG
    #[arg(long, value_name = "FILE")]
    strip: Option<PathBuf>,

    /// Draw which share of each arm took longer than a time, as SVG
    #[arg(long, value_name = "FILE")]
    tail: Option<PathBuf>,

    /// Print one JSON object (docs/schema/becalm.lab.aslr.analyze.md)
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Which {
    Avg,
    Min,
    Max,
}

impl From<Which> for Statistic {
    fn from(which: Which) -> Statistic {
        match which {
            Which::Avg => Statistic::Avg,
            Which::Min => Statistic::Min,
            Which::Max => Statistic::Max,
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let share = text.trim_end_matches('%').parse().ok();
    let share = share.filter(|share: &f64| *share > 0.0 && *share <= 100_000.0);
    share.ok_or_else(|| "give a percentage above 0".to_owned())
}

fn confidence(text: &str) -> Result<Confidence, String> {
    let named = text.parse().ok().and_then(Confidence::named);
    named.ok_or_else(|| "give 80, 90, 95, 98, 99 or 99.5".to_owned())
}

fn ranks() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=1_000_000_000)
}

fn columns() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(2..=10_000)
}

/// Runs the verb.
pub fn run(args: &AnalyzeArgs) -> Result<u8, Failure> {
    let inputs: Vec<_> = args.paths.iter().map(|path| input(path)).collect();
    let samples = RankSamples::read(&inputs, args.of.into())?;
    if args.ministat {
        term::print(&as_ministat(args, &samples)?)?;
        return Ok(0);
    }
    let options = AnalysisOptions {
        threshold: args.threshold / 100.0,
        ranks: args.ranks,
        most_named: if args.all { NAMED_OF_ALL } else { NAMED },
    };
    let analysis = analyze::analyze(&samples, &options)?;
    draw(args, &samples, &analysis)?;
    let proven = analysis.proven;
    let explained = next::explained(&analysis);
    let answer = AslrAnalysis::of(&samples, args.of.into(), analysis);
    answer.warnings().iter().for_each(|line| term::warn(line));
    let text = match args.json {
        true => term::json(&answer)?,
        false => {
            let sets = analyze::data_sets(&samples, false);
            let ministat = ministat(&sets, &look(args));
            let next = explained.or_else(|| next::seen(args));
            answer.render(term::width::terminal(), &ministat, next.as_deref())
        }
    };
    term::print(&text)?;
    Ok(if proven == Some(false) { NO } else { 0 })
}

/// A path, and the arm before it. A file whose name has such a sign in it is still a file.
fn input(word: &OsStr) -> Input {
    let bytes = word.as_bytes();
    let sign = bytes.iter().position(|byte| *byte == b'=');
    match sign.filter(|_| !Path::new(word).exists()) {
        Some(at) if at > 0 => Input {
            path: PathBuf::from(OsStr::from_bytes(&bytes[at + 1..])),
            arm: Some(String::from_utf8_lossy(&bytes[..at]).into_owned()),
        },
        _ => Input { path: PathBuf::from(word), arm: None },
    }
}

fn look(args: &AnalyzeArgs) -> MinistatOptions {
    MinistatOptions {
        width: usize::try_from(args.width).unwrap_or(usize::MAX),
        separate_bars: args.separate,
        confidence: args.confidence,
        most_rows: (!args.ministat).then_some(PLOT_ROWS),
    }
}

/// What ministat would print, or why it would not.
fn as_ministat(args: &AnalyzeArgs, samples: &RankSamples) -> Result<String, Failure> {
    let sets = analyze::data_sets(samples, true);
    let arms = samples.arms().count();
    let error = match (arms, sets.len()) {
        (arms, _) if arms > MOST_SETS => {
            anyhow!("{arms} data sets: ministat takes {MOST_SETS} at most")
        }
        (arms, sets) if sets < arms => {
            anyhow!("each data set must have at least {FEWEST_VALUES} values")
        }
        _ => return Ok(ministat(&sets, &look(args))),
    };
    Err(Failure { status: USAGE, error })
}

fn draw(args: &AnalyzeArgs, samples: &RankSamples, analysis: &Analysis) -> anyhow::Result<()> {
    type PlotOf = fn(&RankSamples, &Analysis) -> String;
    let plots: [(&Option<PathBuf>, PlotOf); 2] =
        [(&args.strip, analyze::strip_plot), (&args.tail, analyze::tail_plot)];
    for (target, plot) in plots {
        if let Some(target) = target {
            // Never over a log.
            let logs = samples.files().find(|file| is_same(file, target));
            let text = plot(samples, analysis);
            save::whole(target, logs.unwrap_or(Path::new("")), |out| {
                out.write_all(text.as_bytes())
            })?;
        }
    }
    Ok(())
}

fn is_same(file: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(file).is_some_and(|file| Some(file) == real(other))
}
