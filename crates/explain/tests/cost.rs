//! What operations cost on a cold shared filesystem, by hand.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod support;

use explain::{Cost, ExplainOptions};
use support::*;

fn cost(tale: Tale, ranks: u64, ranks_per_node: u64) -> Cost {
    let options = ExplainOptions { ranks, ranks_per_node, ..ExplainOptions::default() };
    explain::explain(&tale.told(), &options).cost
}

/// An app that asks for 100 files that are there and 100 that are not, each twice. With its own
/// execve that is 201 distinct questions; 200 times it is told no.
fn tale() -> Tale {
    let mut tale = Tale::of_app();
    for _ in 0..2 {
        for number in 0..100 {
            tale.call("openat", &format!("/yes/{number}"), YES);
            tale.call("openat", &format!("/no/{number}"), NO);
        }
    }
    tale
}

fn close(seconds: f64, expected: f64) {
    assert!((seconds - expected).abs() < 1e-9, "{seconds} is not {expected}");
}

#[test]
fn a_cold_node_asks_each_distinct_question_once_and_each_takes_half_a_millisecond() {
    let cost = cost(tale(), 1, 1);
    assert_eq!((cost.questions, cost.questions_unkept), (201, 301));
    close(cost.one_rank, 0.1005);
    close(cost.one_rank_unkept, 0.1505);
    close(cost.all_ranks, 0.1005);
}

#[test]
fn ranks_wait_for_the_server_once_its_work_takes_longer_than_one_ranks_round_trips() {
    // 64 ranks a node: 16 nodes ask 16 x 201 questions, which the server answers in 32 ms.
    let few = cost(tale(), 1000, 64);
    close(few.all_ranks, 0.1005);
    // 384 nodes ask 384 x 201 of them: 0.77 s.
    let many = cost(tale(), 24_576, 64);
    close(many.all_ranks, 384.0 * 201.0 / 100_000.0);
    // A 'no' that is not kept is asked by each rank each time: 24,576 x 200.
    close(many.all_ranks_unkept, (384.0 * 101.0 + 24_576.0 * 200.0) / 100_000.0);
}

#[test]
fn ranks_that_do_not_fill_a_node_still_need_it() {
    close(
        cost(tale(), 65, 64).all_ranks_unkept,
        0.1505_f64.max((2.0 * 101.0 + 65.0 * 200.0) / 1e5),
    );
}

#[test]
fn what_the_kernel_serves_from_memory_costs_no_server_anything() {
    let mut tale = Tale::of_app();
    for number in 0..500 {
        tale.call("openat", &format!("/proc/{number}/stat"), YES);
        tale.call("openat", &format!("/dev/shm/{number}"), YES);
    }
    let recording = tale.told();
    let findings = explained(&recording);
    assert_eq!((findings.totals.metadata_ops, findings.totals.in_memory), (1001, 1000));
    assert_eq!(findings.cost.questions, 1);
}

#[test]
fn a_change_is_asked_by_every_rank_each_time() {
    let mut tale = Tale::of_app();
    tale.times(10, "mkdir", "/data/lock", YES);
    let cost = cost(tale, 6400, 64);
    assert_eq!(cost.questions, 11);
    close(cost.all_ranks, (100.0 + 6400.0 * 10.0) / 100_000.0);
}

#[test]
fn two_spellings_of_a_path_are_one_question_and_two_kinds_of_question_are_two() {
    let mut tale = Tale::of_app();
    tale.call("stat", "/data/a/../b", YES).call("stat", "/data/b", YES);
    tale.call("openat", "/data/b", YES);
    assert_eq!(cost(tale, 1, 1).questions, 3);
}

#[test]
fn the_model_is_told_with_its_constants() {
    let model = explained(&tale().told()).model;
    assert_eq!((model.ranks, model.ranks_per_node, model.nodes), (1000, 64, 16));
    for part in ["0.5 ms", "100,000 a second", "1,000 ranks", "16 cold nodes", "once"] {
        assert!(model.words.contains(part), "no {part} in {}", model.words);
    }
}
