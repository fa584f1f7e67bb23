//! `becalm lab profile`.

pub mod view;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use job::ReportingRank;
use lab::profile::flame::{self, Captions, GraphStack};
use lab::profile::{
    Allowed, CommandProfile, Gather, Sampler, SamplingMethod, SamplingOptions, StartsWidth,
};
use recording::Recording;

use crate::command_report::{ReportOptions, is_done_or_said};
use crate::exit::Failure;
use crate::recorded;
use crate::reporting_rank::RankReport;
use crate::save::{self, OutputKind};
use view::{Profiled, Sampling};

/// Run a command and draw where its time goes: a flame graph of perf's samples and process starts
///
/// The real perf takes the samples; the processes that the command starts are recorded besides,
/// since samples miss those that end too soon. Without perf, or where the kernel forbids it, the
/// graph is of process starts alone. The command's own output is left alone: the report follows on
/// standard error (on standard output, if only that is a terminal). Its exit status is passed on.
#[derive(clap::Args)]
#[command(after_help = "\
Under srun or mpirun every rank's processes are recorded, and one rank is sampled, drawn and reported
on. With %r, the rank, in FILE.svg each is drawn, to a file of its own.

Examples:
  becalm lab profile -- ./unpack.sh list.txt
  becalm lab profile -o import.svg --folded import.folded -- python3 -c 'import numpy'
  becalm lab profile --starts wall -- make -j4
  becalm lab profile --json -- ./app --version | jq '.programs[0]'")]
pub struct ProfileArgs {
    /// Where to save the flame graph; an SVG that is there is replaced
    #[arg(short, long, value_name = "FILE.svg", default_value = "profile.svg")]
    output: PathBuf,

    /// Save the folded stacks, too, for other tools
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,

    /// Samples for each second on a CPU
    #[arg(long, value_name = "HZ", default_value_t = 199, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    frequency: u32,

    /// How much of each stack perf copies to unwind it, a multiple of 8
    #[arg(long, value_name = "BYTES", default_value_t = 8192, value_parser = stack_bytes)]
    stack_bytes: u32,

    /// Sample by a timer, even where the processor counts cycles
    #[arg(long)]
    timer: bool,

    /// Take no samples: draw process starts alone, as wide as they are many, as the time that they
    /// took, or as their CPU time
    #[arg(long, value_name = "WIDTH")]
    starts: Option<StartsOption>,

    #[command(flatten)]
    report: ReportOptions,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What is written, with the names filled in.
struct ProfileFiles {
    svg: PathBuf,
    folded: Option<PathBuf>,
}

impl ProfileFiles {
    /// Those of this rank; none where another's is drawn.
    fn of(args: &ProfileArgs, rank: &ReportingRank) -> Option<ProfileFiles> {
        let (svg, is_own) = job::own_name(&args.output);
        let folded = args.folded.as_deref().map(job::own_name);
        let is_drawn = is_own || !rank.is_silent();
        // One file for all is of the rank that speaks.
        let folded = folded.filter(|(_, is_own)| *is_own || !rank.is_silent());
        is_drawn.then_some(ProfileFiles { svg, folded: folded.map(|(path, _)| path) })
    }

    /// Before the command runs.
    fn check(&self) -> anyhow::Result<()> {
        GRAPH.check(&self.svg)?;
        self.folded.as_deref().map_or(Ok(()), |folded| FOLDED.check(folded))
    }
}

const GRAPH: OutputKind = OutputKind {
    what: "flame graph",
    kind: "SVG",
    is_one: |start| start.starts_with(b"<?xml") || start.starts_with(b"<svg"),
};
const FOLDED: OutputKind =
    OutputKind { what: "stacks", kind: "file of folded stacks", is_one: is_folded };

/// Whether a file begins as one of folded stacks does: `a;b;c 12`. A line may be longer than what of it
/// is seen.
fn is_folded(start: &[u8]) -> bool {
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let is_whole = line.len() < start.len();
    !is_whole || (count.len() < line.len() && count.iter().all(u8::is_ascii_digit))
}

#[derive(Clone, Copy, ValueEnum)]
enum StartsOption {
    Count,
    Wall,
    Cpu,
}

fn stack_bytes(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok().filter(|bytes| (8..=65528).contains(bytes) && bytes % 8 == 0);
    bytes.ok_or_else(|| "give a multiple of 8, at most 65528".to_owned())
}

/// Runs the verb.
pub fn run(args: &ProfileArgs) -> Result<u8, Failure> {
    let report = args.report.begin()?;
    let files = ProfileFiles::of(args, &report.rank);
    if let Some(files) = &files {
        files.check().map_err(Failure::of_command)?;
    }
    let allowed = Allowed::here();
    let sampler = files.is_some().then(|| sampler(args, &allowed));
    let wanted = recorded::RecordRequest {
        starts: Some(watch::RecordedStarts::Alone),
        ..recorded::RecordRequest::of(&args.command)
    };
    let (recording, finished) = recorded::and_read(&wanted)?;
    report.rank.say_what_is_missing(&finished);
    // Otherwise another rank is drawn.
    let Some((files, sampler)) = files.zip(sampler) else { return recorded::pass_on(&finished) };
    let (profile, sampling) = match sampler {
        Ok(sampler) => sampled(&recording, sampler, &allowed),
        Err(why) => {
            let why = args.starts.is_none().then_some(why);
            (Gather::new(&recording, NOTHING, 0).finish(), Sampling::none(&allowed, why))
        }
    };
    let stacks = match sampling.how {
        Some(_) => profile.stacks.clone(),
        None => lab::profile::starts(&recording, width(args.starts)),
    };
    let shown = Profiled {
        command: recording.header.command(),
        rank: report.rank.number(),
        output: files.svg,
        folded: files.folded,
        still_running: finished.still_running as u64,
        sampling,
        profile,
    };
    if !is_done_or_said(write(args, &stacks, &shown))? {
        return recorded::pass_on(&finished);
    }
    let others = "another's: --rank N; each rank's graph: -o %r.svg";
    report.print(Path::new(""), &shown.json(), |columns| shown.render(columns), others)?;
    recorded::pass_on(&finished)
}

/// How nothing is sampled: process starts and what they used are all that is known.
const NOTHING: SamplingMethod = SamplingMethod {
    scope: lab::profile::Scope::Command,
    event: "cpu-clock",
    kernel: true,
    frequency_hz: 1,
    stack_bytes: 0,
};

/// perf, sampling this process and all that it starts from now on; or why not.
fn sampler(args: &ProfileArgs, allowed: &Allowed) -> Result<Sampler, String> {
    if args.starts.is_some() {
        return Err("--starts asks for process starts alone".to_owned());
    }
    let perf = lab::profile::find().map_err(|error| error.to_string())?;
    let ProfileArgs { frequency, stack_bytes, timer, .. } = *args;
    let how = SamplingMethod::best(
        allowed,
        SamplingOptions { frequency_hz: frequency, stack_bytes, timer },
    );
    let how = how.ok_or("the kernel refuses perf_event_open; `becalm doctor` says why")?;
    Sampler::start(&perf, how).map_err(|error| error.to_string())
}

fn sampled(
    recording: &Recording,
    sampler: Sampler,
    allowed: &Allowed,
) -> (CommandProfile, Sampling) {
    let (samples, early) = sampler.stop();
    let mut gather = Gather::new(recording, samples.how, lab::profile::origin_ns(recording));
    let read = samples.read(&gather.pids(), &mut |sample| gather.take(sample));
    let trouble = early.or(read.err()).map(|error| error.to_string());
    (gather.finish(), Sampling::of(samples.how, allowed, trouble))
}

fn width(starts: Option<StartsOption>) -> StartsWidth {
    match starts {
        None | Some(StartsOption::Count) => StartsWidth::Count,
        Some(StartsOption::Wall) => StartsWidth::Wall,
        Some(StartsOption::Cpu) => StartsWidth::Cpu,
    }
}

fn write(args: &ProfileArgs, stacks: &[GraphStack], shown: &Profiled) -> anyhow::Result<()> {
    let unit = match (&shown.sampling.how, args.starts) {
        (None, None | Some(StartsOption::Count)) => "process starts",
        _ => "µs",
    };
    let captions = Captions { title: shown.command_line(), subtitle: shown.subtitle(unit), unit };
    let nothing = Path::new("");
    save::whole(&shown.output, nothing, |out| flame::svg(stacks, &captions, out))?;
    match &shown.folded {
        Some(target) => Ok(save::whole(target, nothing, |out| flame::folded(stacks, out))?),
        None => Ok(()),
    }
}
