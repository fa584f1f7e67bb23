//! What the cost model needs to work the wait out again, for several filesystems.

use cost::{
    CostModel, FilesystemProfile, OutlinedStart, RecordedStart, TimeSpan, WaitOutline, WaitTerms,
};
use explain::ExplainOptions;
use recording::Recording;
use serde::Serialize;

use crate::pictured_cause::{self, FAULTS};
use crate::returned_memory::give_back;

/// Steps of a start that a page gets. More of them are joined, whose error the tests hold.
const MOST_STEPS: usize = 1_000;

/// One filesystem, and a start's wait for it.
#[derive(Debug, Serialize)]
pub(crate) struct PicturedWait {
    /// The profile's name.
    profile: String,
    about: String,
    round_trip_ns: u64,
    service_ns: u64,
    data_round_trip_ns: u64,
    /// Bytes a second; none: as fast as here.
    bandwidth: Option<f64>,
    /// Nanoseconds of a request for a page fault; none: the metadata latency.
    fault_ns: Option<u64>,
    negatives: bool,
    ranks: u64,
    ranks_per_node: u64,
    /// Seconds that one rank and the last of all wait, as becalm predicts it.
    one_rank: f64,
    all_ranks: f64,
    compute_ns: f64,
    /// What one rank waits for, by cause.
    groups: Vec<Terms>,
    alone: Steps,
    job: Option<Steps>,
}

/// [`WaitTerms`], in the order of its fields.
type Terms = (u64, u64, f64, u64, u64, u64, u64, f64);

#[derive(Debug, Serialize)]
struct Steps {
    /// Computing, then terms, without the zeros at their end.
    steps: Vec<Vec<f64>>,
    rest_ns: f64,
}

/// A start's wait for the chosen filesystem, then for those that becalm brings.
pub(crate) fn of(recording: &Recording, options: &ExplainOptions) -> Vec<PicturedWait> {
    let causes = pictured_cause::of_calls(recording);
    let cause = |event: usize| causes.get(event).map_or(FAULTS - 1, |cause| (*cause).into());
    let (model, start) = (&options.model, RecordedStart::of(recording, &options.below, None));
    let others = FilesystemProfile::built_in().filter(|(name, _)| *name != model.profile.name);
    let others = others.filter_map(|(name, text)| FilesystemProfile::parse(text, name).ok());
    let models = others.map(|profile| CostModel { profile, ..model.clone() });
    let all = std::iter::once(model.clone()).chain(models);
    all.map(|model| {
        give_back();
        let outline = model.outline(&start, MOST_STEPS, FAULTS, cause);
        PicturedWait::of(&model, outline)
    })
    .collect()
}

impl PicturedWait {
    fn of(model: &CostModel, outline: WaitOutline) -> PicturedWait {
        let profile = &model.profile;
        let nanos = |span: TimeSpan| span.nanos().0;
        PicturedWait {
            profile: profile.title(),
            about: profile.about.clone(),
            round_trip_ns: nanos(profile.mds.round_trip),
            service_ns: nanos(profile.mds.service),
            data_round_trip_ns: nanos(profile.data.round_trip),
            bandwidth: profile.data.bandwidth.map(cost::Bandwidth::bytes_per_second),
            fault_ns: profile.data.fault.map(nanos),
            negatives: profile.cache.negatives > TimeSpan::ZERO,
            ranks: model.job.ranks,
            ranks_per_node: model.job.ranks_per_node,
            one_rank: outline.wait.one_rank,
            all_ranks: outline.wait.all_ranks,
            compute_ns: outline.compute_ns,
            groups: outline.groups.iter().map(terms).collect(),
            alone: Steps::of(&outline.alone),
            job: outline.job.as_ref().map(Steps::of),
        }
    }
}

impl Steps {
    fn of(start: &OutlinedStart) -> Steps {
        let steps = start.steps.iter().map(|step| {
            let (cached, own, beside, bytes, transfers, fault_bytes, faults, disk) =
                terms(&step.terms);
            let [cached, own, bytes, transfers, fault_bytes, faults] =
                [cached, own, bytes, transfers, fault_bytes, faults].map(|number| number as f64);
            let think = step.think_ns.round();
            let mut all =
                vec![think, cached, own, beside, bytes, transfers, fault_bytes, faults, disk];
            while all.last() == Some(&0.0) {
                all.pop();
            }
            all
        });
        Steps { steps: steps.collect(), rest_ns: start.rest_ns }
    }
}

fn terms(terms: &WaitTerms) -> Terms {
    (
        terms.cached,
        terms.own,
        terms.beside,
        terms.bytes,
        terms.transfers,
        terms.fault_bytes,
        terms.fault_requests,
        terms.disk_ns,
    )
}
