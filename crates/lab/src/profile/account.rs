//! Samples and process starts, put together.
//!
//! Widths are CPU time. Samples say in which functions it went; what each process used at its
//! end (wait4(2), from the recording) says how much of it the samples do not show: all of a
//! process that was shorter than the time between two samples, and the kernel's part where only
//! programs may be sampled. That is drawn beside the samples, as a bar of its own.

use std::collections::HashMap;

use recording::{Micros, Nanos, Recording};
use schemars::JsonSchema;
use serde::Serialize;

use super::flame::{BarKind, GraphBar, GraphStack};
use super::lineage::Lineage;
use super::perf::{SamplingMethod, Scope};
use super::quality::{ProfileWarning, Quality};
use super::text::{PerfFrame, PerfSample};

/// More distinct stacks than this are not kept apart: their samples count for their process only.
const STACKS: usize = 1 << 20;

/// Where the time of a command went.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CommandProfile {
    /// Processes that were started, the command included.
    pub processes: u64,
    /// CPU time of all processes that have ended, in microseconds.
    pub cpu_us: u64,
    /// How many samples were taken in them.
    pub samples: u64,
    /// CPU time that the samples stand for, in microseconds.
    pub sampled_us: u64,
    /// CPU time of processes too short to be sampled, in microseconds.
    pub short_us: u64,
    /// CPU time in the kernel where only programs may be sampled, in microseconds.
    pub kernel_missed_us: u64,
    /// By program, the one that took most CPU time first.
    pub programs: Vec<ProfiledProgram>,
    /// By the function that was running, the one with most samples first.
    pub functions: Vec<Function>,
    /// What is missing or unsure.
    pub warnings: Vec<ProfileWarning>,
    /// The flame graph.
    #[serde(skip)]
    pub stacks: Vec<GraphStack>,
}

/// All processes that ran one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProfiledProgram {
    /// Its name; after it a script's.
    pub program: String,
    /// How many processes.
    pub processes: u64,
    /// Their CPU time, in microseconds.
    pub cpu_us: u64,
    /// How much of it samples stand for.
    pub sampled_us: u64,
}

/// Samples in one function itself, not in what it calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Function {
    /// Its name; none where there is no symbol.
    pub function: Option<String>,
    /// The file that it is in, or the kernel's part in brackets.
    pub object: Option<String>,
    /// CPU time, in microseconds.
    pub self_us: u64,
}

/// Takes samples in, one by one.
pub struct Gather<'a> {
    recording: &'a Recording,
    how: SamplingMethod,
    /// What perf's clock showed when the recording began.
    origin_ns: u64,
    lineage: Lineage,
    quality: Quality,
    names: DistinctBars,
    /// Periods by ancestry and stack, the outermost frame first.
    periods: HashMap<(usize, Vec<u32>), u64>,
    functions: HashMap<(Option<String>, Option<String>), u64>,
    samples: u64,
}

/// Each distinct bar once.
#[derive(Default)]
struct DistinctBars {
    bars: Vec<GraphBar>,
    known: HashMap<GraphBar, u32>,
}

impl DistinctBars {
    fn number(&mut self, bar: GraphBar) -> u32 {
        *self.known.entry(bar).or_insert_with_key(|bar| {
            self.bars.push(bar.clone());
            self.bars.len() as u32 - 1
        })
    }
}

impl<'a> Gather<'a> {
    /// For the samples that were taken while this was recorded.
    pub fn new(recording: &'a Recording, how: SamplingMethod, origin_ns: u64) -> Gather<'a> {
        Gather {
            recording,
            how,
            origin_ns,
            lineage: Lineage::of(recording),
            quality: Quality::default(),
            names: DistinctBars::default(),
            periods: HashMap::new(),
            functions: HashMap::new(),
            samples: 0,
        }
    }

    /// The processes whose samples count.
    pub fn pids(&self) -> Vec<u32> {
        self.lineage.pids()
    }

    /// Takes a sample in; one of a process that is not in the recording does not count.
    pub fn take(&mut self, sample: PerfSample) {
        let moment = Nanos(sample.at_ns.saturating_sub(self.origin_ns));
        let Some(process) = self.lineage.at(sample.pid, moment) else { return };
        self.samples += 1;
        self.quality.take(&sample);
        let kin = self.lineage.of_process(process);
        let mut stack: Vec<u32> = Vec::new();
        if self.periods.len() < STACKS {
            stack = sample.frames.iter().rev().map(|frame| self.names.number(bar(frame))).collect();
        }
        let sum = self.periods.entry((kin, stack)).or_default();
        *sum = sum.saturating_add(sample.period);
        if let Some(frame) = sample.frames.into_iter().next()
            && self.functions.len() < STACKS
        {
            let sum = self.functions.entry((frame.symbol, frame.object)).or_default();
            *sum = sum.saturating_add(sample.period);
        }
    }

    /// What it comes to.
    pub fn finish(self) -> CommandProfile {
        let used = used(self.recording, &self.lineage);
        let mut sampled = vec![0_u64; used.len()];
        let scale = self.scale(&used);
        for ((kin, _), period) in &self.periods {
            sampled[*kin] = sampled[*kin].saturating_add(*period);
        }
        let sampled: Vec<u64> = sampled.into_iter().map(|period| scale.micros(period)).collect();
        let mut profile = CommandProfile {
            processes: self.recording.processes.len() as u64,
            samples: self.samples,
            cpu_us: used.iter().map(Used::all).sum(),
            sampled_us: sampled.iter().sum(),
            programs: programs(&self.lineage, &used, &sampled),
            functions: functions(&self.functions, scale),
            warnings: self.quality.warnings(self.samples, self.how.kernel),
            ..CommandProfile::default()
        };
        for ((kin, stack), period) in &self.periods {
            let mut all = bars(&self.lineage, *kin);
            all.extend(stack.iter().map(|name| self.names.bars[*name as usize].clone()));
            profile.stacks.push(GraphStack { bars: all, width: scale.micros(*period) });
        }
        for (kin, (used, sampled)) in used.iter().zip(sampled).enumerate() {
            self.beside(kin, *used, sampled, &mut profile);
        }
        profile
    }

    /// What the samples of an ancestry do not show.
    fn beside(&self, kin: usize, used: Used, sampled: u64, profile: &mut CommandProfile) {
        let period = self.how.period_ns() / 1000;
        let expected = if self.how.kernel { used.all() } else { used.user };
        let short = expected.saturating_sub(sampled);
        // Of processes that are hit at all, less than a sample is chance; and where every CPU has
        // its timer, short processes are hit as often as they should be.
        let chance = sampled > 0 && (short <= period || self.how.scope == Scope::Machine);
        let short = if chance { 0 } else { short };
        let kernel = if self.how.kernel { 0 } else { used.system };
        for (width, name) in [(short, "(not sampled)"), (kernel, "(kernel, not sampled)")] {
            if width > 0 {
                let mut all = bars(&self.lineage, kin);
                all.push(GraphBar { name: name.to_owned(), kind: BarKind::Missed });
                profile.stacks.push(GraphStack { bars: all, width });
            }
        }
        profile.short_us += short;
        profile.kernel_missed_us += kernel;
    }

    /// What a unit of the period is worth: of a clock's it is a nanosecond; of cycles it follows
    /// from the CPU time of the processes that samples were taken in.
    fn scale(&self, used: &[Used]) -> NanosPerUnit {
        if self.how.event == "cpu-clock" {
            return NanosPerUnit { nanos: 1, periods: 1 };
        }
        let mut hit = vec![false; used.len()];
        let mut periods = 0_u128;
        for ((kin, _), period) in &self.periods {
            hit[*kin] = true;
            periods += u128::from(*period);
        }
        let time = |used: &Used| if self.how.kernel { used.all() } else { used.user };
        let hit = used.iter().zip(hit).filter(|(_, hit)| *hit).map(|(used, _)| time(used));
        let nanos = hit.map(u128::from).sum::<u128>() * 1000;
        NanosPerUnit { nanos: nanos.max(1), periods: periods.max(1) }
    }
}

/// Nanoseconds of CPU time for so many units of the event.
#[derive(Clone, Copy)]
struct NanosPerUnit {
    nanos: u128,
    periods: u128,
}

impl NanosPerUnit {
    fn micros(self, period: u64) -> u64 {
        let nanos = u128::from(period).saturating_mul(self.nanos) / self.periods;
        u64::try_from(nanos / 1000).unwrap_or(u64::MAX)
    }
}

/// CPU time in microseconds.
#[derive(Clone, Copy, Default)]
struct Used {
    user: u64,
    system: u64,
}

impl Used {
    fn all(&self) -> u64 {
        self.user.saturating_add(self.system)
    }
}

/// What the processes of each ancestry used, as far as they have ended.
fn used(recording: &Recording, lineage: &Lineage) -> Vec<Used> {
    let mut used = vec![Used::default(); lineage.kin.len()];
    for process in &recording.processes {
        let Some(end) = process.end else { continue };
        let (Micros(user), Micros(system)) = (end.usage.user, end.usage.system);
        let sum = &mut used[lineage.of_process(process.id)];
        sum.user = sum.user.saturating_add(user);
        sum.system = sum.system.saturating_add(system);
    }
    used
}

fn programs(lineage: &Lineage, used: &[Used], sampled: &[u64]) -> Vec<ProfiledProgram> {
    let mut by_name: HashMap<&str, ProfiledProgram> = HashMap::new();
    for (kin, (used, sampled)) in lineage.kin.iter().zip(used.iter().zip(sampled)) {
        let row = by_name.entry(&kin.program).or_default();
        row.processes += kin.starts;
        row.cpu_us = row.cpu_us.saturating_add(used.all());
        row.sampled_us = row.sampled_us.saturating_add(*sampled);
    }
    let named =
        |(name, row): (&str, ProfiledProgram)| ProfiledProgram { program: name.to_owned(), ..row };
    let mut rows: Vec<ProfiledProgram> = by_name.into_iter().map(named).collect();
    rows.sort_by(|a, b| {
        (b.cpu_us, b.processes, &a.program).cmp(&(a.cpu_us, a.processes, &b.program))
    });
    rows
}

fn functions(
    periods: &HashMap<(Option<String>, Option<String>), u64>,
    scale: NanosPerUnit,
) -> Vec<Function> {
    let row = |((function, object), period): (&(Option<String>, Option<String>), &u64)| Function {
        function: function.clone(),
        object: object.clone(),
        self_us: scale.micros(*period),
    };
    let mut rows: Vec<Function> = periods.iter().map(row).collect();
    rows.sort_by(|a, b| {
        (b.self_us, &a.function, &a.object).cmp(&(a.self_us, &b.function, &b.object))
    });
    rows
}

/// The bars of an ancestry's programs, with how often each was started.
pub(crate) fn bars(lineage: &Lineage, kin: usize) -> Vec<GraphBar> {
    let bar = |number: &usize| {
        let kin = &lineage.kin[*number];
        let name = match kin.starts {
            1 => kin.program.clone(),
            starts => format!("{} ({starts} starts)", kin.program),
        };
        GraphBar { name, kind: BarKind::Program }
    };
    lineage.line(kin).iter().map(bar).collect()
}

/// A frame without a symbol is named for the file that it is in.
fn bar(frame: &PerfFrame) -> GraphBar {
    let kind = if frame.kernel { BarKind::Kernel } else { BarKind::Function };
    let name = match (&frame.symbol, &frame.object) {
        (Some(symbol), _) => symbol.clone(),
        (None, Some(object)) => {
            let name = object.rsplit('/').next().unwrap_or(object);
            format!("[{}]", name.trim_matches(['[', ']']))
        }
        (None, None) => "[unknown]".to_owned(),
    };
    GraphBar { name, kind }
}
