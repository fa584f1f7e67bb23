//! Logs of many processes, whatever their form, as samples in little memory.

mod arm;
mod error;
mod line;
mod paths;
pub(crate) mod published;
mod reading;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::aslr::log::Retest;
pub use arm::Input;
pub use error::LogReadError;
use reading::LogReading;

/// No more samples are read: 32 bytes each, and sorting needs copies.
pub const MOST_SAMPLES: usize = 20_000_000;
/// No more samples with all that a campaign's log says of them, some 200 bytes each.
pub const MOST_DETAILS: usize = 4_000_000;

/// Which number stands for a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The mean of its repetitions.
    #[default]
    Avg,
    /// The quickest repetition.
    Min,
    /// The slowest.
    Max,
}

/// A form of log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogForm {
    /// `CT: rank min max avg stddev : …`
    Published,
    /// [`crate::aslr::log`].
    Own,
    /// A number a line, as ministat reads them.
    Plain,
}

/// One process: 32 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankSample {
    /// What stands for it.
    pub value: f64,
    pub rank: u32,
    /// Its place in [`RankSamples::runs`].
    pub run: u32,
    /// Its place in [`RankSamples::details`], or [`NONE`].
    details: u32,
    pub min: f32,
    pub max: f32,
    pub stddev: f32,
}

const NONE: u32 = u32::MAX;

/// Processes that were started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LoggedRun {
    pub arm: usize,
    pub file: usize,
    pub job: u64,
    /// The campaign, by its place, and the block in it.
    pub block: Option<(usize, u64)>,
}

/// What only a campaign's log says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Details {
    pub node: Option<Box<str>>,
    pub cpu: Option<u32>,
    pub control: Option<f64>,
    pub waited: Option<f64>,
    pub dirty_upper: Option<bool>,
    pub layout: Option<Box<str>>,
    /// The place of a name in [`RankSamples::maps`], and the address.
    pub maps: Box<[(u16, u64)]>,
    pub retests: Box<[Retest]>,
}

/// An arm of the experiment.
#[derive(Clone, Debug)]
pub(crate) struct LoggedArm {
    pub name: String,
    /// Places in [`RankSamples::files`].
    pub files: Vec<usize>,
}

/// What was wrong with what was read.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LogTrouble {
    /// Lines that are no whole record.
    pub malformed: u64,
    /// Lines whose numbers are none: NaN, infinite, or below zero.
    pub not_numbers: u64,
    /// Files that end in the middle of a line, which was left out.
    pub cut: u64,
    /// Where the first of these is, and what.
    pub first: Option<String>,
    /// Files in the published form that were left out, because a campaign's log is beside them.
    pub beside: u64,
}

/// All that was read.
#[derive(Debug, Default)]
pub struct RankSamples {
    pub(crate) arms: Vec<LoggedArm>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) runs: Vec<LoggedRun>,
    pub(crate) samples: Vec<RankSample>,
    pub(crate) details: Vec<Details>,
    pub(crate) maps: Vec<String>,
    /// What was wrong.
    pub trouble: LogTrouble,
    /// Whether an arm is only known by the name of its files.
    pub inferred: bool,
    /// Their names, and the first file of each.
    campaigns: Vec<(String, usize)>,
    known_runs: HashMap<LoggedRun, u32>,
}

impl RankSamples {
    /// Reads files, and directories of files.
    ///
    /// # Errors
    /// Those of [`LogReadError`]. What is wrong with single lines is no error: see
    /// [`RankSamples::trouble`].
    pub fn read(inputs: &[Input], statistic: Statistic) -> Result<RankSamples, LogReadError> {
        let mut samples = RankSamples::default();
        let (sources, beside) = paths::sources(inputs)?;
        samples.trouble.beside = beside;
        for source in &sources {
            LogReading::of(&mut samples, source, statistic).read(source)?;
        }
        match samples.empty_file(inputs) {
            Some(path) => Err(LogReadError::Nothing { path }),
            None => Ok(samples),
        }
    }

    /// A file of an arm that has no processes; where there is no arm at all, the first input.
    fn empty_file(&self, inputs: &[Input]) -> Option<PathBuf> {
        if self.arms.is_empty() {
            return Some(inputs.first().map(|input| input.path.clone()).unwrap_or_default());
        }
        let is_empty = |arm: &usize| !self.runs.iter().any(|run| run.arm == *arm);
        let empty = (0..self.arms.len()).find(is_empty)?;
        self.arms[empty].files.first().map(|file| self.files[*file].clone())
    }

    /// The names of the arms, in the order in which they were read.
    pub fn arms(&self) -> impl Iterator<Item = &str> {
        self.arms.iter().map(|arm| arm.name.as_str())
    }

    /// The files that were read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// The values of an arm, in their order.
    pub(crate) fn values(&self, arm: usize) -> Vec<f64> {
        self.of_arm(arm).map(|sample| sample.value).collect()
    }

    /// The processes of an arm, in their order.
    pub(crate) fn of_arm(&self, arm: usize) -> impl Iterator<Item = &RankSample> {
        self.samples.iter().filter(move |sample| self.run(sample).arm == arm)
    }

    pub(crate) fn run(&self, sample: &RankSample) -> &LoggedRun {
        &self.runs[sample.run as usize]
    }

    pub(crate) fn details(&self, sample: &RankSample) -> Option<&Details> {
        self.details.get(sample.details as usize)
    }

    fn run_number(&mut self, run: LoggedRun) -> u32 {
        // Lines of one run mostly follow each other.
        if let Some(last) = self.samples.last().filter(|last| self.runs[last.run as usize] == run) {
            return last.run;
        }
        *self.known_runs.entry(run).or_insert_with(|| {
            self.runs.push(run);
            self.runs.len() as u32 - 1
        })
    }

    fn arm_number(&mut self, name: &str, file: usize) -> usize {
        let known = self.arms.iter().position(|arm| arm.name == name);
        let number = known.unwrap_or_else(|| {
            self.arms.push(LoggedArm { name: name.to_owned(), files: Vec::new() });
            self.arms.len() - 1
        });
        let files = &mut self.arms[number].files;
        if files.last() != Some(&file) {
            files.push(file);
        }
        number
    }
}
