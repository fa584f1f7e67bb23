//! A campaign's log: JSON lines, first a [`CampaignHeader`], then one [`LoggedProcess`] each.
//!
//! A log may be cut anywhere, as by a job's time limit: each line stands for itself. Fields are
//! only ever added within `/1`. docs/lab-aslr-analyze.md describes it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the header's `schema` says.
pub const SCHEMA: &str = "becalm.aslr.log/1";

/// The first line of a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CampaignHeader {
    /// [`SCHEMA`].
    pub schema: String,
    /// What names the campaign: its nodes' logs share it, and with it the numbers of blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// The command that was run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// What shuffled the blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// One process. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoggedProcess {
    /// How it was started: `on`, `off` or `job`, or another name.
    pub arm: String,
    /// The number of its job: processes of one job were started together.
    #[serde(default)]
    pub job: u64,
    /// The number of its block: jobs of all arms, in shuffled order, one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    /// Its rank in the job.
    pub rank: u32,
    /// Where it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The processor that it ran on, at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// The processor that it began on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cpu: Option<u32>,
    /// Whether it kept more than one processor busy: then there is none that it could be started
    /// on again. Not written down.
    #[serde(skip)]
    pub is_parallel: bool,
    /// Its quickest repetition.
    pub min: f64,
    /// Its slowest repetition.
    pub max: f64,
    /// The mean of its repetitions.
    pub avg: f64,
    /// Their standard deviation.
    pub stddev: f64,
    /// A loop of integers in registers, timed beside it: it knows no layout, so what slows it is
    /// the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<f64>,
    /// How much of its time it was ready to run, and did not; only where its times are of the
    /// clock, and becalm took them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
    /// Whether the upper halves of the vector registers were in use (NT_X86_XSTATE, XSTATE_BV bit
    /// 2), which slows SSE code many times: at the beginning of what the built-in kernel times, at
    /// the end of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_upper: Option<bool>,
    /// Its layout, as `becalm run --aslr` takes it back, or as a hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// Where it had what: `libm.so.6`, `[stack]`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub maps: BTreeMap<String, Address>,
    /// What became of it when it was slow, and was started again with one thing changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retests: Vec<Retest>,
}

/// An address, written as `0x7f0012345000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(transparent)]
pub struct Address(#[schemars(with = "String")] pub u64);

impl Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&format_args!("{:#x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Address, D::Error> {
        let text = <std::borrow::Cow<str>>::deserialize(from)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        u64::from_str_radix(digits, 16).map(Address).map_err(serde::de::Error::custom)
    }
}

/// The same again, with one thing changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retest {
    /// What.
    pub changed: RetestChange,
    /// What it took then, in seconds: the same statistic as [`LoggedProcess::avg`].
    pub avg: f64,
}

/// What a second start changed. All else, the layout included, was as in the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetestChange {
    /// Nothing: the same layout on the same processor.
    Nothing,
    /// The processor.
    Cpu,
    /// The environment.
    Environment,
    /// The layout.
    Layout,
    /// The upper halves of the vector registers were cleared first (`vzeroupper`).
    CleanUpper,
}
