//! The simulation of groups of ranks, held against formulas and against each rank by itself.

use crate::closed_queue::{Granularity, USUAL, run};
use crate::rpc_sequence::RpcSequence;
use crate::stretches::{Stretch, Stretches};
use crate::{FilesystemProfile, JobSize, RpcSummary};

/// Each rank and each operation by itself.
const EXACT: Granularity = Granularity { rank_groups: usize::MAX, work: usize::MAX };

fn profile(round_trip: &str, service: &str) -> FilesystemProfile {
    let text = format!(
        "name = 'test'\n[mds]\nround_trip = '{round_trip}'\nservice = '{service}'\n\
         [cache]\nentries = 'forever'\nnegatives = '0'\nopen = 'revalidated'\nlist = 'revalidated'"
    );
    FilesystemProfile::parse(&text, "test").unwrap()
}

/// A start of so many operations, of which every `period`-th (0: none) is kept by the node.
fn start(operations: usize, period: usize, think: f64) -> RpcSequence {
    let visit = |number: usize| {
        let cached = u32::from(period > 0 && number.is_multiple_of(period));
        Stretch { think, cached, own: 1 - cached, ..Stretch::default() }
    };
    let list: Stretches = (0..operations).map(visit).collect();
    let kept = list.iter().map(|visit| u64::from(visit.cached)).sum();
    let operations = operations as u64;
    let (total, every_rank) = (operations, operations - kept);
    let summary = RpcSummary { total, once_a_node: kept, every_rank, ..RpcSummary::default() };
    RpcSequence { list, rest: 0.0, summary, ..RpcSequence::default() }
}

fn seconds(
    visits: &RpcSequence,
    profile: &FilesystemProfile,
    job: JobSize,
    grain: Granularity,
) -> f64 {
    run(visits, profile, job, grain).last / 1e9
}

fn job(ranks: u64, ranks_per_node: u64) -> JobSize {
    JobSize { ranks, ranks_per_node }
}

#[track_caller]
fn close(left: f64, right: f64, part: f64) {
    assert!((left - right).abs() <= part * right, "{left} and {right}");
}

#[test]
fn ranks_that_send_nothing_wait_for_nobody() {
    let visits = start(0, 0, 0.0);
    let profile = profile("900us", "100us");
    let all = run(&RpcSequence { rest: 5e6, ..visits }, &profile, job(1000, 64), USUAL);
    assert_eq!((all.last, all.busy, all.served), (5e6, 0.0, 0));
    // One that is computed before, and sends for no rank: what a warm node has.
    let list: Stretches = [Stretch { think: 1e6, ..Stretch::default() }].into_iter().collect();
    let warm = RpcSequence { list, ..RpcSequence::default() };
    assert_eq!(run(&warm, &profile, job(1000, 64), USUAL).last, 1e6);
}

#[test]
fn one_rank_waits_for_nothing_but_its_own_operations() {
    let visits = start(1000, 3, 250e3);
    let one = seconds(&visits, &profile("900us", "100us"), job(1, 1), USUAL);
    close(one, 1000.0 * 1.25e-3, 1e-9);
}

#[test]
fn four_ranks_in_front_of_a_server_without_a_network_each_see_four_services() {
    let visits = start(500, 0, 0.0);
    let four = seconds(&visits, &profile("0", "200us"), job(4, 1), EXACT);
    close(four, 500.0 * 800e-6, 1e-9);
}

#[test]
fn an_even_start_takes_the_longer_of_its_own_cycle_and_the_servers() {
    // Denning and Buzen's bounds, which operations of equal length reach, but for the first round.
    let profile = profile("450us", "10us");
    let visits = start(2000, 0, 40e3);
    for ranks in [1, 10, 49, 51, 64, 500, 10_000, 100_000] {
        let cycle = 500e-6_f64.max(ranks as f64 * 10e-6);
        let all = seconds(&visits, &profile, job(ranks, 1), USUAL);
        close(all, 2000.0 * cycle, 0.03);
    }
}

#[test]
fn what_a_node_keeps_is_asked_once_a_node() {
    let profile = profile("0", "100us");
    let visits = start(1000, 1, 0.0);
    for (ranks, on_a_node, nodes) in [(64, 64, 1.0), (64, 16, 4.0), (1000, 10, 100.0)] {
        let all = seconds(&visits, &profile, job(ranks, on_a_node), USUAL);
        close(all, nodes * 0.1, 0.01);
    }
}

/// Operations in bursts, of either kind, with computing of very different length between them.
fn uneven(operations: usize, seed: u64) -> RpcSequence {
    let mut state = seed;
    let mut random = || {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut visits = start(operations, 0, 0.0);
    let (mut burst, mut is_kept) = (0.0, false);
    let change = |mut visit: Stretch| {
        burst -= 1.0;
        if burst < 0.0 {
            burst = random() * 60.0;
            is_kept = random() < 0.5;
            // Mostly microseconds, at times many milliseconds.
            visit.think = 10e3 / (random() + 1e-4);
        }
        let cached = u32::from(if random() < 0.9 { is_kept } else { !is_kept });
        (visit.cached, visit.own) = (cached, 1 - cached);
        visit
    };
    visits.list = visits.list.iter().map(change).collect();
    let kept = visits.list.iter().map(|visit| u64::from(visit.cached)).sum::<u64>();
    visits.summary.once_a_node = kept;
    visits.summary.every_rank = operations as u64 - kept;
    visits
}

/// The largest error of a grain, as a part of the exact time, over a grid of servers, starts and
/// jobs.
fn worst(grain: Granularity) -> f64 {
    let servers = [("480us", "20us"), ("190us", "10us"), ("1ms", "0"), ("0", "50us")];
    let jobs = [(3, 2), (40, 8), (64, 8), (100, 1), (256, 64), (300, 7), (900, 16), (1500, 192)];
    let mut worst: f64 = 0.0;
    for (round_trip, service) in servers {
        let profile = profile(round_trip, service);
        for seed in 1..3 {
            let visits = uneven(1500, seed);
            for (ranks, on_a_node) in jobs {
                let job = job(ranks, on_a_node);
                let exact = seconds(&visits, &profile, job, EXACT);
                let error = seconds(&visits, &profile, job, grain) / exact - 1.0;
                println!("{round_trip}+{service} {seed} {job:?}: {exact:.4} s, {error:+.4}");
                worst = worst.max(error.abs());
            }
        }
    }
    println!("worst {worst}");
    worst
}

#[test]
fn groups_of_ranks_cost_what_their_ranks_cost_one_by_one() {
    let worst = worst(Granularity { work: usize::MAX, ..USUAL });
    assert!(worst < 0.02, "{worst}");
}

#[test]
fn stretches_of_a_start_cost_what_their_operations_cost_one_by_one() {
    // Fewer stretches than are ever used: they are at least `WORK / CUSTOMERS`.
    let worst = worst(Granularity { work: 500 * USUAL.rank_groups, ..USUAL });
    assert!(worst < 0.05, "{worst}");
}
