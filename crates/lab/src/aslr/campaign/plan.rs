//! What a campaign runs, and in which order.

use launch::layout::{LayoutOffset, MemoryLayout};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Random;

use crate::aslr::log::{CampaignHeader, SCHEMA};
use launch::layout::seed;

/// How a job's ranks are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CampaignArm {
    /// As the kernel draws it, for each rank.
    On,
    /// Without randomisation.
    Off,
    /// One draw for all ranks of a job.
    Job,
}

impl CampaignArm {
    /// As logs name it.
    pub fn name(self) -> &'static str {
        match self {
            CampaignArm::On => "on",
            CampaignArm::Off => "off",
            CampaignArm::Job => "job",
        }
    }
}

/// Which time stands for a process that prints none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimedBy {
    /// That of the processor, with children that were waited for.
    Cpu,
    /// From the first instruction to the end.
    Wall,
}

/// What makes a campaign the same one. It is the first line of its log, where a header is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CampaignPlan {
    /// What every log begins with.
    #[serde(flatten)]
    pub header: CampaignHeader,
    /// What starts a job's ranks, such as `srun -n 16`; empty where a job is one process.
    pub launcher: Vec<String>,
    /// The arms.
    pub arms: Vec<CampaignArm>,
    /// How many ranks a job has; 0 where that is not known yet.
    pub ranks: u32,
    /// Which time stands for a process that prints none.
    pub by: TimedBy,
    /// Whether the command is the built-in kernel.
    pub is_kernel: bool,
}

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignJob {
    /// Its number in the campaign.
    pub number: u64,
    /// The number of its block.
    pub block: u64,
    /// Its arm.
    pub arm: CampaignArm,
    /// Its layout; none where the kernel draws.
    pub layout: Option<MemoryLayout>,
}

impl CampaignPlan {
    /// A header of this name, for this command, shuffled by this seed.
    pub fn header(campaign: String, command: Vec<String>, seed: u64) -> CampaignHeader {
        CampaignHeader {
            schema: SCHEMA.to_owned(),
            campaign: Some(campaign),
            command,
            seed: Some(seed),
        }
    }

    /// What of this plan is another one than `logged`, if anything. Names and seeds are not
    /// compared: a campaign that goes on has those that it began with; nor is the number of ranks
    /// where it is 0, not known yet.
    pub fn differs(&self, logged: &CampaignPlan) -> Option<&'static str> {
        let same = [
            (self.header.command == logged.header.command, "command"),
            (self.is_kernel == logged.is_kernel, "command"),
            (self.launcher == logged.launcher, "launcher"),
            (self.ranks == logged.ranks || self.ranks == 0, "number of ranks"),
            (self.arms == logged.arms, "arms"),
            (self.by == logged.by, "clock"),
        ];
        same.into_iter().find(|(is_same, _)| !is_same).map(|(_, what)| what)
    }

    /// The jobs of a block: all arms, shuffled. A block is the same whichever ran before it.
    /// Layouts are drawn from the first `layouts`.
    pub fn jobs(&self, block: u64, layouts: u64) -> Vec<CampaignJob> {
        let mut random = self.random("order", block);
        let mut arms = self.arms.clone();
        for last in (1..arms.len()).rev() {
            arms.swap(last, (random.bits() % (last as u64 + 1)) as usize);
        }
        let first = block * arms.len() as u64;
        let job = |(number, arm)| CampaignJob {
            number,
            block,
            arm,
            layout: self.layout(arm, "layout", block, layouts),
        };
        (first..).zip(arms).map(job).collect()
    }

    /// A layout of an arm; another one for each `purpose` where the arm has more than one.
    pub(super) fn layout(
        &self,
        arm: CampaignArm,
        purpose: &str,
        block: u64,
        layouts: u64,
    ) -> Option<MemoryLayout> {
        match arm {
            CampaignArm::On => None,
            CampaignArm::Off => Some(MemoryLayout::Off),
            CampaignArm::Job => {
                let random = self.random(purpose, block).bits();
                Some(MemoryLayout::Moved(LayoutOffset::drawn(random, layouts)))
            }
        }
    }

    fn random(&self, purpose: &str, block: u64) -> Random {
        let seed = self.header.seed.unwrap_or_default().to_le_bytes();
        Random::seeded(seed::drawn_from(&seed, &format!("{purpose} {block}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn plan(seed: u64) -> CampaignPlan {
        CampaignPlan {
            header: CampaignPlan::header("test".into(), vec!["kernel".into()], seed),
            launcher: Vec::new(),
            arms: vec![CampaignArm::On, CampaignArm::Off, CampaignArm::Job],
            ranks: 2,
            by: TimedBy::Cpu,
            is_kernel: true,
        }
    }

    #[test]
    fn every_block_has_every_arm_once_in_orders_that_differ_and_come_again() {
        let blocks: Vec<_> = (0..40).map(|block| plan(1).jobs(block, 1 << 28)).collect();
        let mut orders = std::collections::BTreeSet::new();
        for (at, jobs) in blocks.iter().enumerate() {
            let mut names: Vec<_> = jobs.iter().map(|job| job.arm.name()).collect();
            orders.insert(names.clone());
            names.sort_unstable();
            assert_eq!(names, ["job", "off", "on"]);
            assert_eq!(jobs[0].number, at as u64 * 3);
        }
        assert_eq!(orders.len(), 6);
        assert_eq!(plan(1).jobs(7, 1 << 28), blocks[7]);
        assert_ne!(plan(2).jobs(7, 1 << 28), blocks[7]);
    }

    #[test]
    fn every_job_of_the_arm_job_has_a_layout_of_its_own() {
        let layout = |block| plan(1).layout(CampaignArm::Job, "layout", block, 1 << 28);
        assert_ne!(layout(1), layout(2));
        assert_eq!(plan(1).layout(CampaignArm::On, "layout", 1, 1 << 28), None);
    }

    #[test]
    fn the_first_line_of_a_log_is_the_plan_and_still_a_header() {
        let line = serde_json::to_string(&plan(1)).unwrap();
        assert_eq!(serde_json::from_str::<CampaignPlan>(&line).unwrap(), plan(1));
        assert_eq!(serde_json::from_str::<CampaignHeader>(&line).unwrap(), plan(1).header);
    }
}
