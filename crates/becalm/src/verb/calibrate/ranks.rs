//! A filesystem measured by ranks that a launcher starts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use job::{RankAnswer, RanksInStep, StepRank};
use rehearse::measure::{
    FilesystemFigures, LoadFigures, MeasuringPlan, MeasuringTree, TransferFigures,
};

use super::STEPS;
use super::interrupt::Interrupt;
use super::rank::{RankHello, RankSays, step};
use crate::exit::Failure;

/// All ranks are there so long after the first.
const ARRIVAL: Duration = Duration::from_secs(30);
/// A step takes no longer, whatever the filesystem does.
const LONGEST: Duration = Duration::from_secs(25);
/// Where no rank says how many there are: all that come before nobody has for so long.
const SILENCE: Duration = Duration::from_secs(3);

struct Crew<'a> {
    ranks: RanksInStep,
    interrupt: &'a Interrupt,
    /// The launcher's name.
    launcher: String,
}

/// Has a launcher start ranks that measure in a directory that is filled.
pub fn measure(
    launcher: &[OsString],
    tree: &MeasuringTree,
    plan: &MeasuringPlan,
    interrupt: &Interrupt,
    progress: &term::ProgressBar,
) -> Result<FilesystemFigures, Failure> {
    let mut words = launcher.to_vec();
    // The file itself, not the /proc of the process that is asked.
    let own = std::env::current_exe().unwrap_or_else(|_| "becalm".into());
    words.push(own.into_os_string());
    words.extend(["calibrate", "--rank-in"].map(Into::into));
    words.push(tree.path().into());
    let name = term::plain(&launcher[0].to_string_lossy());
    let ranks = RanksInStep::start(&words, &tree.go())
        .with_context(|| format!("{name}: cannot start it"))?;
    let mut crew = Crew { ranks, interrupt, launcher: name };
    let measured = crew.measure(plan, progress);
    // They have said all, or are not waited for.
    let Crew { ranks, launcher, .. } = crew;
    let wait = if measured.is_ok() { Duration::from_secs(10) } else { Duration::from_millis(500) };
    let (status, words) = ranks.end(wait);
    measured.map_err(|error| match error {
        Unmeasured::Said(error) => error.into(),
        Unmeasured::Ended => {
            let how = status.map_or("it did not end".to_owned(), |status| status.to_string());
            let words = if words.is_empty() { how } else { format!("{how}: {words}") };
            anyhow!("{launcher}: ended before its ranks had measured: {}", term::plain(&words))
                .into()
        }
    })
}

/// Why ranks measured nothing.
enum Unmeasured {
    /// In words.
    Said(anyhow::Error),
    /// The launcher ended: it says why.
    Ended,
}

impl From<anyhow::Error> for Unmeasured {
    fn from(error: anyhow::Error) -> Unmeasured {
        Unmeasured::Said(error)
    }
}

impl Crew<'_> {
    fn measure(
        &mut self,
        plan: &MeasuringPlan,
        progress: &term::ProgressBar,
    ) -> Result<FilesystemFigures, Unmeasured> {
        progress.tell("waiting for the ranks", 1, STEPS);
        let there = self.arrived()?;
        let nodes: BTreeSet<&str> = there.iter().map(|hello| &*hello.node).collect();
        let elsewhere = there.iter().filter(|hello| hello.node != plan.node);
        let chosen = elsewhere.chain(&there).min_by_key(|it| (it.node == plan.node, it.rank));
        let chosen = chosen.ok_or(Unmeasured::Ended)?;
        progress.tell("one client", 1, STEPS);
        self.begin(step::ALONE, chosen)?;
        let alone = self.heard(1, |said| match said {
            RankSays::Alone(alone) => Some(alone),
            _ => None,
        })?;
        let mut loads = Vec::new();
        for number in 0..2 {
            progress.tell("all ranks at once", 2 + u64::from(number), STEPS);
            self.begin(step::LOAD + number, chosen)?;
            let loads_of_ranks = self.heard(there.len(), |said| match said {
                RankSays::Load(load) => Some(load),
                _ => None,
            })?;
            loads.push(LoadFigures::together(&loads_of_ranks));
        }
        progress.tell("reading", 4, STEPS);
        self.begin(step::TRANSFERS, chosen)?;
        let readers = there.iter().filter(|hello| hello.reads).count();
        let mut lifetimes = None;
        // The chosen rank may be through with the names first.
        let transfers = self.heard(readers, |said| match said {
            RankSays::Transfers(transfers) => Some(transfers),
            RankSays::Lifetimes(watched) => {
                lifetimes = Some(watched);
                None
            }
            _ => None,
        })?;
        progress.tell("what is cached, and for how long", 5, STEPS);
        let lifetimes = match lifetimes {
            Some(lifetimes) => lifetimes,
            None => {
                let mut watched = self.heard(1, |said| match said {
                    RankSays::Lifetimes(watched) => Some(watched),
                    _ => None,
                })?;
                watched.remove(0)
            }
        };
        Ok(FilesystemFigures {
            kind: chosen.kind.clone(),
            is_network: cost::is_network(&chosen.kind),
            nodes: nodes.len() as u64,
            ranks: there.len() as u64,
            is_made_elsewhere: chosen.node != plan.node,
            alone: alone[0],
            loads,
            lifetimes,
            transfers: TransferFigures::together(&transfers),
        })
    }

    /// Waits for all ranks: for the first as long as it takes, as jobs may wait for nodes.
    fn arrived(&mut self) -> Result<Vec<RankHello>, Unmeasured> {
        let mut there: Vec<RankHello> = Vec::new();
        let mut since: Option<(Instant, Instant)> = None;
        loop {
            let size = there.first().and_then(|hello| hello.size);
            if size.is_some_and(|size| there.len() >= size as usize) {
                return Ok(there);
            }
            if let Some((first, last)) = since {
                if size.is_none() && last.elapsed() > SILENCE {
                    return Ok(there);
                }
                if first.elapsed() > ARRIVAL {
                    let (came, all) = (there.len(), size.unwrap_or(0));
                    return Err(anyhow!("{}: {came} of {all} ranks came", self.launcher).into());
                }
            }
            match self.next()? {
                Some(RankSays::Hello(hello)) => {
                    there.push(hello);
                    let now = Instant::now();
                    since = Some((since.map_or(now, |(first, _)| first), now));
                }
                _ => continue,
            }
        }
    }

    fn begin(&mut self, step: u32, chosen: &RankHello) -> Result<(), Unmeasured> {
        let begun = self.ranks.begin(step, chosen.rank).context("telling the ranks to begin");
        Ok(begun?)
    }

    /// So many answers of a kind.
    fn heard<T>(
        &mut self,
        count: usize,
        mut of: impl FnMut(RankSays) -> Option<T>,
    ) -> Result<Vec<T>, Unmeasured> {
        let mut heard = Vec::new();
        let watch = Duration::from_secs(31);
        let begun = Instant::now();
        while heard.len() < count {
            if begun.elapsed() > LONGEST + watch {
                let (came, launcher) = (heard.len(), &self.launcher);
                return Err(anyhow!(
                    "{launcher}: {came} of {count} ranks answered within {} s",
                    begun.elapsed().as_secs()
                )
                .into());
            }
            heard.extend(self.next()?.and_then(&mut of));
        }
        Ok(heard)
    }

    /// What a rank says next; none for a while.
    fn next(&mut self) -> Result<Option<RankSays>, Unmeasured> {
        if self.interrupt.has_come() {
            return Err(anyhow!("asked to end").into());
        }
        match self.ranks.next(Duration::from_millis(200)) {
            RankAnswer::Said(said) => match StepRank::heard(&said) {
                Some(RankSays::Failed { node, why }) => Err(anyhow!("{node}: {why}").into()),
                said => Ok(said),
            },
            RankAnswer::Nothing => Ok(None),
            RankAnswer::Ended => Err(Unmeasured::Ended),
        }
    }
}
