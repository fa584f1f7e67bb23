//! What a run waits for a shared filesystem, and when that is a storm.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod support;

use cost::{CostModel, FilesystemProfile, JobSize, PredictedWait, RecordedStart};
use explain::{ExplainOptions, Findings};
use support::*;

/// A filesystem whose RPCs take a millisecond each, and which caches all it can.
fn model() -> CostModel {
    let text = "name = 'even'\n[mds]\nround_trip = '900us'\nservice = '100us'\n\
                [cache]\nentries = 'forever'\nnegatives = 'forever'\nopen = 'cached'\n\
                list = 'cached'";
    let profile = FilesystemProfile::parse(text, "test").unwrap();
    CostModel { profile, job: JobSize { ranks: 1000, ranks_per_node: 64 }, warm: false }
}

/// What the run means where the files below /data are on that filesystem.
fn explained_on(tale: Tale, model: &CostModel) -> Findings {
    let recording = tale.told();
    let below = vec!["/data".into()];
    let options = ExplainOptions { model: model.clone(), below, ..ExplainOptions::default() };
    explain::explain(&recording, &options)
}

/// An app that looks up so many files that are there, from as many different directories as to be
/// no search.
fn calm(files: usize) -> Tale {
    let mut tale = Tale::of_app();
    for number in 0..files {
        tale.call("stat", &format!("/data/{number}"), YES);
    }
    tale
}

fn close(seconds: f64, expected: f64) {
    assert!((seconds - expected).abs() < 1e-6, "{seconds} is not {expected}");
}

#[test]
fn a_run_waits_as_the_cost_model_says_whoever_is_told() {
    let model = CostModel { job: JobSize::on_nodes(24_576, 128), ..model() };
    let recording = calm(150).told();
    let start = RecordedStart::of(&recording, &["/data".into()], None);
    let said: PredictedWait = model.project(&start).predicted_wait;
    assert_eq!(explained_on(calm(150), &model).predicted_wait, Some(said));
    close(said.one_rank, 0.150);
    // 128 nodes send 150 RPCs each, and the server takes 0.1 ms for one.
    assert!((said.all_ranks - 128.0 * 150.0 * 1e-4).abs() < 0.01, "{}", said.all_ranks);
}

#[test]
fn the_waits_of_storms_and_of_the_rest_add_up_to_the_whole() {
    let mut tale = calm(50);
    for number in 0..400 {
        tale.call("openat", &format!("/data/l{}/libx{number}.so", number % 40), NO);
    }
    let findings = explained_on(tale, &model());
    let storms = findings.storms.iter().map(|storm| storm.predicted_wait.one_rank);
    let rest = findings.rest.iter().map(|part| part.predicted_wait);
    close(storms.sum::<f64>() + rest.sum::<f64>(), findings.predicted_wait.unwrap().one_rank);
}

#[test]
fn a_start_without_a_storm_is_calm_up_to_a_second_and_not_above() {
    let at = explained_on(calm(1000), &model());
    close(at.predicted_wait.unwrap().one_rank, 1.0);
    assert_eq!(at.verdict, explain::StartVerdict::Calm, "{}", at.headline);
    let above = explained_on(calm(1001), &model());
    close(above.predicted_wait.unwrap().one_rank, 1.001);
    assert!(above.storms.is_empty(), "{:?}", above.storms);
    assert_eq!(above.verdict, explain::StartVerdict::NoStorm);
    let said = &above.headline;
    assert!(said.contains("1.00 s") && said.contains("on even"), "{said}");
    let largest = &above.rest[0];
    assert!(said.contains(largest.count.cause.name()), "{said} names {:?}", largest.count);
}

#[test]
fn what_the_kernel_serves_from_memory_takes_no_rpc() {
    let mut tale = Tale::of_app();
    for number in 0..500 {
        tale.call("openat", &format!("/proc/{number}/stat"), YES);
        tale.call("openat", &format!("/dev/shm/{number}"), YES);
    }
    let findings = explain::explain(&tale.told(), &ExplainOptions::default());
    assert_eq!((findings.totals.metadata_ops, findings.totals.in_memory), (1001, 1000));
    assert!(findings.predicted_wait.unwrap().rpcs < 20, "{:?}", findings.predicted_wait);
}

#[test]
fn the_same_run_is_a_storm_where_it_waits_and_none_where_it_does_not() {
    let searching = || {
        let mut tale = Tale::of_app();
        for number in 0..40 {
            tale.call("openat", &format!("/data/l{number}/libx.so"), NO);
        }
        tale
    };
    let slow = |latency: &str| {
        let mut model = model();
        model.profile.mds.round_trip = latency.parse().unwrap();
        explained_on(searching(), &model).predicted_wait.unwrap().one_rank
    };
    assert!(slow("10ms") > 10.0 * slow("0"));
}

#[test]
fn the_model_is_told_with_its_numbers() {
    let findings = explain::explain(&calm(10).told(), &ExplainOptions::default());
    let model = findings.model;
    assert_eq!((model.ranks, model.ranks_per_node, model.nodes), (1000, 64, 16));
    assert_eq!((model.profile.as_str(), model.mds_ops_per_second), ("nfs", Some(50_000)));
    close(model.metadata_latency, 0.0005);
    assert!(model.assumptions[1].contains("cold clients"), "{:?}", model.assumptions);
}
