//! Block after block; in each, slow ranks once more with one thing changed.

use std::collections::BTreeMap;

use super::logged::{Logged, LoggedError};
use super::plan::{CampaignArm, CampaignJob, CampaignPlan};
use super::rank::name;
use super::start::{JobStart, StartError};
use crate::aslr::analyze::median;
use crate::aslr::log::{LoggedProcess, Retest, RetestChange};
use crate::aslr::verify::hash;

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct CampaignOptions {
    /// Up to how many blocks, those of earlier runs included.
    pub blocks: u64,
    /// Layouts are drawn from so many.
    pub layouts: u64,
    /// Slow is what takes longer than its block's median by this share.
    pub threshold: f64,
    /// Whether slow ranks are started again.
    pub retest: bool,
    /// The median of the pilot's ranks, in seconds.
    pub pilot: f64,
}

/// Why a campaign stopped. What was logged stays, and it can go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A job.
    #[error("block {block}, arm {arm}: {error}")]
    Start {
        /// The block.
        block: u64,
        /// The arm.
        arm: &'static str,
        /// Why.
        error: StartError,
    },
    /// The log.
    #[error(transparent)]
    Logged(#[from] LoggedError),
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CampaignOutcome {
    /// How many blocks were run now.
    pub blocks: u64,
    /// How many ranks were slow in them.
    pub slow: u64,
    /// How many jobs were started to test slow ranks again.
    pub retests: u64,
}

impl CampaignOptions {
    /// Runs the blocks that the log has not got yet. `start` runs a job; `tell` hears how many
    /// jobs of how many are done.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn go(
        &self,
        logged: &mut Logged,
        mut start: impl FnMut(&JobStart) -> Result<Vec<LoggedProcess>, StartError>,
        tell: impl Fn(&'static str, u64, u64),
    ) -> Result<CampaignOutcome, RunError> {
        let plan = logged.plan.clone();
        let arms = plan.arms.len() as u64;
        let mut done = CampaignOutcome::default();
        let mut limit = self.pilot * (1.0 + self.threshold);
        while logged.blocks < self.blocks {
            let block = logged.blocks;
            let mut jobs = Vec::new();
            for job in plan.jobs(block, self.layouts) {
                tell("running jobs", block * arms + jobs.len() as u64, self.blocks * arms);
                let limit = self.retest.then_some(limit);
                let order = JobStart { layout: job.layout, limit, ..JobStart::default() };
                let found = start(&order);
                let arm = job.arm.name();
                let mut found = found.map_err(|error| RunError::Start { block, arm, error })?;
                found.iter_mut().for_each(|process| complete(process, &job));
                jobs.push((job, found));
            }
            limit = baseline(&jobs) * (1.0 + self.threshold);
            for (job, found) in &mut jobs {
                let slow = found.iter_mut().filter(|process| process.avg > limit);
                let mut slow: Vec<_> = slow.collect();
                done.slow += slow.len() as u64;
                if self.retest && !slow.is_empty() {
                    tell("testing slow ranks again", block * arms, self.blocks * arms);
                    let again = self.again(&plan, job, &mut slow, &mut start);
                    let arm = job.arm.name();
                    done.retests += again.map_err(|error| RunError::Start { block, arm, error })?;
                }
            }
            let all: Vec<_> = jobs.into_iter().flat_map(|(_, found)| found).collect();
            logged.append(&all)?;
            done.blocks += 1;
        }
        Ok(done)
    }

    /// Starts a job again, as it was but for one thing, for the sake of its slow ranks; how often.
    ///
    /// All ranks run again, so that a slow one has the same company. What cannot be had is left
    /// out: the layout of a rank that the kernel has drawn, a processor that is not allowed.
    fn again(
        &self,
        plan: &CampaignPlan,
        job: &CampaignJob,
        slow: &mut [&mut LoggedProcess],
        start: &mut impl FnMut(&JobStart) -> Result<Vec<LoggedProcess>, StartError>,
    ) -> Result<u64, StartError> {
        let here = own_processors(slow);
        // As wide as the first time: the arguments are on the stack.
        let limit = Some(0.0);
        let same = JobStart { layout: job.layout, on: here.clone(), limit, ..JobStart::default() };
        let other = match job.arm {
            CampaignArm::On => None,
            CampaignArm::Off | CampaignArm::Job => {
                plan.layout(CampaignArm::Job, "another", job.block, self.layouts)
            }
        };
        let mut orders = vec![(RetestChange::Layout, JobStart { layout: other, ..same.clone() })];
        if job.layout.is_some() {
            let on = Vec::new();
            let elsewhere = JobStart { on, not_on: here.clone(), ..same.clone() };
            orders
                .push((RetestChange::Environment, JobStart { environment: true, ..same.clone() }));
            orders.extend((!here.is_empty()).then_some((RetestChange::Cpu, elsewhere)));
            orders.push((RetestChange::Nothing, same));
        }
        let mut runs = 0;
        for (changed, order) in orders.into_iter().rev() {
            runs += 1;
            let found = match start(&order) {
                Err(error) if error.is_interrupted() => return Err(error),
                Err(_) => continue,
                Ok(found) => found,
            };
            for one in slow.iter_mut() {
                let again = found.iter().find(|process| process.rank == one.rank);
                // It may choose its processor itself, as under taskset(1).
                let again = again.filter(|again| {
                    let place = again.cpu.zip(one.cpu).filter(|(now, then)| now != then);
                    let is_moved = place.is_some_and(|(_, then)| here.contains(&(one.rank, then)));
                    changed != RetestChange::Cpu || is_moved
                });
                one.retests.extend(again.map(|again| Retest { changed, avg: again.avg }));
            }
        }
        Ok(runs)
    }
}

/// Slow ranks, and the processors that they can be put on again. One that kept several busy would
/// be slow by that alone, and so would two of them on the same.
fn own_processors(slow: &[&mut LoggedProcess]) -> Vec<(u32, u32)> {
    let place = |one: &LoggedProcess| Some((one.node.clone(), one.cpu?));
    let mut sharers = BTreeMap::new();
    for place in slow.iter().filter_map(|one| place(one)) {
        *sharers.entry(place).or_insert(0) += 1;
    }
    let is_own = |one: &LoggedProcess| place(one).is_some_and(|place| sharers[&place] == 1);
    let own = slow.iter().filter(|one| !one.is_parallel && is_own(one));
    own.filter_map(|one| Some((one.rank, one.cpu?))).collect()
}

/// What is known of a process from its job.
fn complete(process: &mut LoggedProcess, job: &CampaignJob) {
    process.arm = job.arm.name().to_owned();
    process.job = job.number;
    process.block = Some(job.block);
    process.layout = match job.layout {
        // Of a child that took the time, nobody knows.
        None => (!process.maps.is_empty()).then(|| hash(&process.maps)),
        layout => Some(name(layout)),
    };
}

/// The median of the block's quickest job: what analyze, too, calls slow by.
fn baseline(jobs: &[(CampaignJob, Vec<LoggedProcess>)]) -> f64 {
    let of_job = |found: &[LoggedProcess]| {
        median(&mut found.iter().map(|process| process.avg).collect::<Vec<_>>())
    };
    jobs.iter().filter_map(|(_, found)| of_job(found)).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aslr::campaign::plan::TimedBy;
    use launch::layout::MemoryLayout;

    /// A campaign whose rank 1 is slow in the layout of the second block's job.
    #[test]
    fn a_slow_rank_is_started_again_with_one_thing_changed_at_a_time() {
        let plan = CampaignPlan {
            header: CampaignPlan::header("test".into(), vec!["kernel".into()], 1),
            launcher: Vec::new(),
            arms: vec![CampaignArm::On, CampaignArm::Off, CampaignArm::Job],
            ranks: 3,
            by: TimedBy::Cpu,
            is_kernel: true,
        };
        let unlucky = plan.layout(CampaignArm::Job, "layout", 1, 1 << 28);
        let directory = tempfile::tempdir().unwrap();
        let mut logged = Logged::open(directory.path(), &plan).unwrap();
        let start = |order: &JobStart| {
            let avg = |rank| if rank == 1 && order.layout == unlucky { 2.0 } else { 1.0 };
            let cpu = Some(if order.not_on.is_empty() { 5 } else { 6 });
            let one =
                |rank| LoggedProcess { rank, avg: avg(rank), cpu, ..LoggedProcess::default() };
            assert!(order.on.iter().chain(&order.not_on).all(|pair| *pair == (1, 5)));
            assert!(order.limit.is_some());
            Ok((0..3).map(one).collect())
        };
        let run = CampaignOptions {
            blocks: 3,
            layouts: 1 << 28,
            threshold: 0.1,
            retest: true,
            pilot: 1.0,
        };
        let done = run.go(&mut logged, start, |_, _, _| {}).unwrap();
        assert_eq!(done, CampaignOutcome { blocks: 3, slow: 1, retests: 4 });
        let text = std::fs::read_to_string(logged.path()).unwrap();
        let all =
            text.lines().skip(1).map(|line| serde_json::from_str::<LoggedProcess>(line).unwrap());
        let all: Vec<_> = all.collect();
        assert_eq!(all.len(), 27);
        let slow: Vec<_> = all.iter().filter(|one| !one.retests.is_empty()).collect();
        assert_eq!((slow.len(), slow[0].block, slow[0].rank), (1, Some(1), 1));
        let seen: Vec<_> = slow[0].retests.iter().map(|it| (it.changed, it.avg)).collect();
        assert_eq!(
            seen,
            [
                (RetestChange::Nothing, 2.0),
                (RetestChange::Cpu, 2.0),
                (RetestChange::Environment, 2.0),
                (RetestChange::Layout, 1.0)
            ]
        );
        let off = all.iter().find(|one| one.arm == "off").unwrap();
        assert_eq!(off.layout.as_deref(), Some(name(Some(MemoryLayout::Off)).as_str()));
    }

    #[test]
    fn a_rank_is_put_on_one_processor_only_where_that_alone_does_not_make_it_slow() {
        let plan = CampaignPlan {
            header: CampaignPlan::header("test".into(), vec!["app".into()], 1),
            launcher: Vec::new(),
            arms: vec![CampaignArm::Off],
            ranks: 9,
            by: TimedBy::Wall,
            is_kernel: false,
        };
        // 5 to 8 are slow: 5 has several threads, 7 and 8 share a processor, 6 always takes its
        // own.
        let directory = tempfile::tempdir().unwrap();
        let mut logged = Logged::open(directory.path(), &plan).unwrap();
        let start = |order: &JobStart| {
            let one = |rank| LoggedProcess {
                rank,
                avg: if rank >= 5 { 2.0 } else { 1.0 },
                cpu: Some(rank.min(7)),
                is_parallel: rank == 5,
                ..LoggedProcess::default()
            };
            assert!(order.on.iter().chain(&order.not_on).all(|pair| *pair == (6, 6)));
            Ok((0..9).map(one).collect())
        };
        let run =
            CampaignOptions { blocks: 1, layouts: 1, threshold: 0.1, retest: true, pilot: 1.0 };
        assert_eq!(run.go(&mut logged, start, |_, _, _| {}).unwrap().slow, 4);
        let text = std::fs::read_to_string(logged.path()).unwrap();
        let all =
            text.lines().skip(1).map(|line| serde_json::from_str::<LoggedProcess>(line).unwrap());
        for slow in all.filter(|one| one.rank >= 5) {
            let changed: Vec<_> = slow.retests.iter().map(|it| it.changed).collect();
            assert_eq!(
                changed,
                [RetestChange::Nothing, RetestChange::Environment, RetestChange::Layout]
            );
        }
    }
}
