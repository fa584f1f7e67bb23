//! A filesystem measured by this process alone.

use std::time::Instant;

use rehearse::measure::{
    FilesystemFigures, MeasuringPlan, MeasuringTree, alone, filesystem_kind, lifetimes, load,
    transfers,
};

use super::STEPS;
use super::interrupt::Interrupt;
use super::rank::THREADS;
use crate::exit::Failure;

/// Measures in a directory that is filled.
pub fn measure(
    tree: &MeasuringTree,
    plan: &MeasuringPlan,
    interrupt: &Interrupt,
    progress: &term::ProgressBar,
) -> Result<FilesystemFigures, Failure> {
    let path = tree.path();
    let is_asked = || interrupt.has_come();
    let kind = filesystem_kind(path)?;
    let is_network = cost::is_network(&kind);
    let begun = Instant::now();
    progress.tell("one client", 1, STEPS);
    let alone = alone(path, plan, &is_asked)?;
    // Nobody watches the caches of a filesystem that nobody else changes.
    let watched = |plan: &MeasuringPlan| match is_network {
        // It goes on beside the rest.
        true => lifetimes(path, plan, plan.watch(begun.elapsed()), &is_asked),
        false => Ok(Default::default()),
    };
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watched(plan));
        let mut loads = Vec::new();
        for (number, threads) in THREADS.into_iter().enumerate() {
            if is_asked() {
                break;
            }
            progress.tell("many clients at once", 2 + number as u64, STEPS);
            loads.push(load(path, 0, 1, threads)?);
        }
        progress.tell("reading", 4, STEPS);
        let transfers = transfers(path)?;
        progress.tell("what is cached, and for how long", 5, STEPS);
        let lifetimes =
            watcher.join().map_err(|_| anyhow::anyhow!("the watching thread failed"))??;
        let (nodes, ranks, is_made_elsewhere) = (1, 1, false);
        Ok(FilesystemFigures {
            kind,
            is_network,
            nodes,
            ranks,
            is_made_elsewhere,
            alone,
            loads,
            lifetimes,
            transfers,
        })
    })
}
