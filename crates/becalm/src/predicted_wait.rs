//! The predicted wait of a start, as the verbs say it.

use cost::PredictedWait;
use explain::WaitModel;
use recording::Nanos;
use term::number::{count, counted, time};
use term::plain;

/// What a start waits, on what, and who starts; without a full stop.
pub fn wait_sentence(model: &WaitModel, wait: &PredictedWait) -> String {
    format!(
        "Predicted wait for the filesystem on {}: {} for 1 rank, {} for {} on {} {} {} of a {} \
         server ({})",
        plain(&model.profile),
        seconds(wait.one_rank),
        seconds(wait.all_ranks),
        counted(model.ranks, "rank", "ranks"),
        count(model.nodes),
        state(model.warm),
        if model.nodes == 1 { "node" } else { "nodes" },
        state(!model.cold_server),
        filesystem(model),
    )
}

/// What a wait is predicted for, where it is told already; without a full stop.
pub fn model_sentence(model: &WaitModel) -> String {
    format!(
        "Predicted for {} nodes of a {} server; {}: {}",
        state(model.warm),
        state(!model.cold_server),
        plain(&model.profile),
        filesystem(model),
    )
}

fn filesystem(model: &WaitModel) -> String {
    let rate = match model.mds_ops_per_second {
        Some(rate) => format!("{} MDS ops/s", count(rate)),
        None => "a server that takes no time".to_owned(),
    };
    let negatives = match model.negative_dentry_cache {
        true => "a negative dentry cache",
        false => "no negative dentry cache",
    };
    format!("metadata latency {}, {rate}, {negatives}", seconds(model.metadata_latency))
}

fn state(warm: bool) -> &'static str {
    if warm { "warm" } else { "cold" }
}

/// A number of seconds, with its unit.
pub fn seconds(seconds: f64) -> String {
    time(Nanos((seconds * 1e9) as u64))
}
