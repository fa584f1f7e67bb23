//! One of the ranks that measure together, and what it says to the process that had them started.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use job::{LaunchedRank, StepRank};
use rehearse::measure::{
    AloneFigures, LifetimeFigures, LoadFigures, MeasuringPlan, MeasuringTree, TransferFigures,
    alone, filesystem_kind, lifetimes, load, transfers,
};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// How many threads a rank has at each level of load.
pub const THREADS: [usize; 2] = [8, 64];
/// The same for one of many ranks.
pub const THREADS_OF_MANY: [usize; 2] = [1, 8];

/// The steps, in their order.
pub mod step {
    pub const ALONE: u32 = 1;
    /// And the next one, with more threads.
    pub const LOAD: u32 = 2;
    pub const TRANSFERS: u32 = 4;
}

/// What a rank says.
#[derive(Debug, Serialize, Deserialize)]
pub enum RankSays {
    Hello(RankHello),
    Alone(AloneFigures),
    Load(LoadFigures),
    Transfers(TransferFigures),
    Lifetimes(LifetimeFigures),
    Failed { node: String, why: String },
}

/// That it is there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankHello {
    pub rank: u32,
    /// Of how many; none where the launcher does not say.
    pub size: Option<u32>,
    pub node: String,
    /// Whether it reads for its node.
    pub reads: bool,
    /// The filesystem's type.
    pub kind: String,
}

/// Does what it is told. Its status is 0, as mpirun ends all others with the first that fails.
pub fn run(tree: &Path) -> Result<u8, Failure> {
    let plan = MeasuringTree::plan(tree);
    let watch = plan.as_ref().map_or(0, |plan| plan.allowed);
    let crew = StepRank::of(&tree.join("go"), Duration::from_secs(watch + 90));
    let rank = LaunchedRank::rank_or_alone();
    let node = rank.node.clone();
    let done = plan.map_err(|why| anyhow!(why)).and_then(|plan| {
        let launched = LaunchedRank::this_process();
        let hello = RankHello {
            rank: rank.rank,
            // Without a launcher that numbers them, this one is all there is.
            size: if launched.is_some() { rank.size } else { Some(1) },
            node: node.clone(),
            reads: launched.is_none_or(|launched| launched.is_first_here()),
            kind: filesystem_kind(tree)?,
        };
        crew.say(&RankSays::Hello(hello.clone()))?;
        steps(tree, &plan, &crew, &hello)
    });
    if let Err(why) = done {
        crew.say(&RankSays::Failed { node, why: format!("{why:#}") })?;
    }
    Ok(0)
}

fn steps(
    tree: &Path,
    plan: &MeasuringPlan,
    crew: &StepRank,
    hello: &RankHello,
) -> anyhow::Result<()> {
    // Where nobody tells any more what to do, there is nothing to say either.
    let Some(go) = crew.wait_for(step::ALONE) else { return Ok(()) };
    // Waiting for the ranks comes on top of what is allowed.
    let begun = Instant::now();
    let is_chosen = go.chosen == hello.rank;
    if is_chosen {
        crew.say(&RankSays::Alone(alone(tree, plan, &|| false)?))?;
    }
    let Some(_) = crew.wait_for(step::LOAD) else { return Ok(()) };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_watched = is_chosen && cost::is_network(&hello.kind);
        let is_asked = || is_over.load(Ordering::Relaxed);
        let watcher = is_watched.then(|| {
            let watch = plan.watch(begun.elapsed());
            scope.spawn(move || lifetimes(tree, plan, watch, &is_asked))
        });
        let done = together(tree, crew, hello);
        is_over.store(!matches!(done, Ok(true)), Ordering::Relaxed);
        if done? && is_chosen {
            let watched = watcher.map(|watcher| watcher.join());
            let watched = watched.transpose().map_err(|_| anyhow!("the watching thread failed"))?;
            crew.say(&RankSays::Lifetimes(watched.transpose()?.unwrap_or_default()))?;
        }
        Ok(())
    })
}

/// What all do at once; whether it was done to the end.
fn together(tree: &Path, crew: &StepRank, hello: &RankHello) -> anyhow::Result<bool> {
    let ranks = u64::from(hello.size.unwrap_or(1));
    for (number, threads) in THREADS_OF_MANY.into_iter().enumerate() {
        let Some(_) = crew.wait_for(step::LOAD + number as u32) else { return Ok(false) };
        crew.say(&RankSays::Load(load(tree, hello.rank, ranks, threads)?))?;
    }
    let Some(_) = crew.wait_for(step::TRANSFERS) else { return Ok(false) };
    if hello.reads {
        crew.say(&RankSays::Transfers(transfers(tree)?))?;
    }
    Ok(true)
}
