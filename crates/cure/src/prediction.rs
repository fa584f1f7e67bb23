//! What a start does without the calls that a cure takes away.
//!
//! A cure says which recorded calls it takes away, and how many it adds. The wait follows from what
//! is left, by the [cost] model; what a cure adds is asked of the node itself (its own programs,
//! becalm's files) and is counted, not waited for.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cost::{CallSet, CostModel, LOOKS_AT_ONCE, PredictedWait, RecordedStart, SharedChoice};
use explain::{ExplainOptions, Findings};
use recording::Recording;
use schemars::JsonSchema;
use serde::Serialize;

/// What a start does: its counts, and its wait for the filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PredictedStart {
    /// Metadata operations.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
    /// What it waits for the filesystem, of 1 rank and of all; none where the recording does not
    /// tell.
    pub wait: Option<PredictedWait>,
}

/// A start before and after cures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CurePrediction {
    /// As it was recorded.
    pub before: PredictedStart,
    /// With the cures.
    pub after: PredictedStart,
}

/// One in so many operations, or seconds of wait, is the least that is worth a change.
const ONE_IN: u64 = 10;

impl CurePrediction {
    /// Metadata operations that go.
    pub fn spared(&self) -> u64 {
        self.before.metadata_ops.saturating_sub(self.after.metadata_ops)
    }

    /// Whether a tenth of the operations or of the wait goes, and nothing becomes more.
    pub fn is_worth_it(&self) -> bool {
        let seconds = |start: &PredictedStart| start.wait.map_or(0.0, |wait| wait.one_rank);
        let (before, after) = (seconds(&self.before), seconds(&self.after));
        let is_felt = self.spared() * ONE_IN >= self.before.metadata_ops
            || (before - after) * ONE_IN as f64 >= before;
        let costs_more = self.after.metadata_ops > self.before.metadata_ops
            || after > before
            || self.asks_more();
        let is_less = self.spared() > 0 || after < before;
        is_felt && is_less && !costs_more
    }

    /// Whether the server is asked for more, all at once: one rank may wait less for that, and many then
    /// wait for each other.
    fn asks_more(&self) -> bool {
        self.rpcs().is_some_and(|[before, after]| after > before)
    }

    fn rpcs(&self) -> Option<[u64; 2]> {
        Some([self.before.wait?.rpcs, self.after.wait?.rpcs])
    }

    /// The same in words: why it is not worth it.
    pub(crate) fn too_little(&self) -> String {
        if let Some([before, after]) = self.rpcs().filter(|_| self.asks_more()) {
            let (before, after) = (term::number::count(before), term::number::count(after));
            return format!("the server would then have {after} RPCs, and not {before}");
        }
        match self.after.metadata_ops >= self.before.metadata_ops {
            true => format!(
                "the start would then make {}, and not fewer",
                operations(self.after.metadata_ops)
            ),
            false => format!(
                "it would take away {} of {}, less than a tenth of the start",
                term::number::count(self.spared()),
                operations(self.before.metadata_ops)
            ),
        }
    }
}

pub(crate) fn operations(number: u64) -> String {
    term::number::counted(number, "metadata operation", "metadata operations")
}

/// What a cure takes from a recorded start, and adds to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CureEffect {
    /// Numbers in [`Recording::events`]: these calls are no longer made, or served by the node.
    pub taken: CallSet,
    /// Metadata operations that becalm makes on the node itself.
    pub added: u64,
    /// Names that becalm looks at on the shared filesystem, once a node, many at a time.
    pub looked_at: u64,
    /// Others that it looks at there as the start looks them up, one after another.
    pub looked_up: u64,
    /// Directories over which an image is mounted: what they lie in is looked up all the same.
    pub mounted: Vec<PathBuf>,
    /// Seconds that each rank waits less for data, though it makes all its calls.
    pub waits_less: f64,
}

impl CureEffect {
    pub(crate) fn of(taken: impl IntoIterator<Item = usize>) -> CureEffect {
        CureEffect { taken: taken.into_iter().collect(), ..CureEffect::default() }
    }

    /// Both.
    pub(crate) fn join(&mut self, other: &CureEffect) {
        self.taken.extend(other.taken.iter());
        self.added += other.added;
        self.looked_at += other.looked_at;
        self.looked_up += other.looked_up;
        self.mounted.extend_from_slice(&other.mounted);
        self.waits_less += other.waits_less;
    }
}

/// Predicts what cures do to a recorded start.
pub(crate) struct StartPredictor<'r> {
    recording: &'r Recording,
    start: RecordedStart<'r>,
    model: CostModel,
    before: PredictedStart,
}

impl<'r> StartPredictor<'r> {
    pub(crate) fn new(
        recording: &'r Recording,
        findings: &Findings,
        options: &ExplainOptions,
    ) -> StartPredictor<'r> {
        let before = PredictedStart {
            metadata_ops: findings.totals.metadata_ops,
            enoent: findings.totals.enoent,
            wait: findings.predicted_wait,
        };
        let start = RecordedStart::of(recording, &options.below, None);
        StartPredictor { recording, start, model: options.model.clone(), before }
    }

    /// Whether a directory lies on the shared filesystem, or it is not known which one is shared.
    pub(crate) fn may_be_shared(&self, directory: &Path) -> bool {
        self.start.chosen == SharedChoice::Everything
            || self.start.shared.contains(directory.as_os_str().as_bytes())
    }

    /// The start with this done to it.
    pub(crate) fn predict(&self, effect: &CureEffect) -> CurePrediction {
        let events = effect.taken.iter().map(|number| &self.recording.events[number]);
        let (mut taken, mut enoent) = (0, 0);
        for event in events.filter(|event| event.is_metadata()) {
            taken += 1;
            enoent += u64::from(event.is_missing());
        }
        let wait = |_| self.looking(self.model.predict_without(&self.start, &effect.taken), effect);
        let added = effect.added + effect.looked_at + effect.looked_up;
        let after = PredictedStart {
            metadata_ops: (self.before.metadata_ops + added).saturating_sub(taken),
            enoent: self.before.enoent.saturating_sub(enoent),
            wait: self.before.wait.map(wait),
        };
        CurePrediction { before: self.before, after }
    }

    /// How many directories above those that are mounted over no call looks up any more, so that
    /// becalm does.
    fn looked_up_above(&self, effect: &CureEffect) -> u64 {
        let shared = &self.start.shared;
        // The node knows a mount point itself.
        let is_served = |path: &&Path| {
            shared.contains(path.as_os_str().as_bytes())
                && !shared.roots.iter().any(|root| root == path)
        };
        let all = effect.mounted.iter().flat_map(|mounted| mounted.ancestors().skip(1));
        let mut above: HashSet<&Path> = all.filter(is_served).collect();
        let mut seen = HashSet::new();
        for (number, event) in self.recording.events.iter().enumerate() {
            if above.is_empty() {
                break;
            }
            let path = event.path.filter(|_| event.is_metadata() && !effect.taken.contains(number));
            if let Some(path) = path.filter(|path| seen.insert(*path)) {
                let path = Path::new(OsStr::from_bytes(self.recording.path(path)));
                for path in path.ancestors() {
                    above.remove(path);
                }
            }
        }
        above.len() as u64
    }

    /// With what becalm looks at on the shared filesystem, which the first rank of each node waits
    /// for and all others with it.
    fn looking(&self, wait: PredictedWait, effect: &CureEffect) -> PredictedWait {
        let profile = &self.model.profile;
        let at_once = effect.looked_at + self.looked_up_above(effect);
        let turns = at_once.div_ceil(LOOKS_AT_ONCE) + effect.looked_up;
        let rpcs = at_once + effect.looked_up;
        let alone = turns as f64 * profile.latency().seconds();
        let all = rpcs as f64 * self.model.job.nodes() as f64;
        let queued = profile.ops_per_second().map_or(0.0, |rate| all / rate as f64);
        PredictedWait {
            rpcs: wait.rpcs + rpcs,
            one_rank: (wait.one_rank + alone - effect.waits_less).max(0.0),
            all_ranks: (wait.all_ranks + alone.max(queued) - effect.waits_less).max(0.0),
            ..wait
        }
    }
}
