//! Which rank of a parallel job this process is, as the launcher tells it in the environment.

use recording::Rank;

/// The name of this node.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

/// A rank as its launcher started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchedRank {
    /// Which.
    pub rank: Rank,
    /// How many ranks of the run share this node; none where the launcher does not say.
    pub here: Option<u32>,
    /// Which of the ranks of its node it is, from 0; none where the launcher does not say.
    pub local: Option<u32>,
}

impl LaunchedRank {
    /// This process, if a launcher started it.
    pub fn this_process() -> Option<LaunchedRank> {
        let parent = std::os::unix::process::parent_id();
        LaunchedRank::from(|name| std::env::var(name).ok(), &host(), parent)
    }

    /// This process's rank, or where no launcher started it rank 0; in any case on a named node.
    pub fn rank_or_alone() -> Rank {
        let mut rank = LaunchedRank::this_process().map(|it| it.rank).unwrap_or_default();
        if rank.node.is_empty() {
            rank.node = host();
        }
        rank
    }

    /// This process, if a launcher started it as one of several ranks.
    pub fn one_of_many() -> Option<LaunchedRank> {
        LaunchedRank::this_process().filter(LaunchedRank::is_one_of_many)
    }

    /// What an environment says. The innermost launcher goes first: `mpirun` in a Slurm job
    /// starts its daemons by srun, whose variables its ranks inherit. A batch script is no rank,
    /// though Slurm gives it a SLURM_PROCID: only a step has a SLURM_STEP_NUM_TASKS.
    pub fn from(
        get: impl Fn(&str) -> Option<String>,
        host: &str,
        parent: u32,
    ) -> Option<LaunchedRank> {
        let number = |name: &str| get(name)?.trim().parse::<u32>().ok();
        let node = get("SLURMD_NODENAME").unwrap_or_else(|| host.to_owned());
        let unnumbered = |launcher: &str| format!("{launcher} ?{node}:{parent}");
        let numbered = |launcher: &str, variable: &str| match get(variable) {
            Some(run) => format!("{launcher} {run}"),
            None => unnumbered(launcher),
        };
        let made = |rank, size, run, here, local| {
            Some(LaunchedRank { rank: Rank { rank, size, node: node.clone(), run }, here, local })
        };
        if let Some(rank) = number("OMPI_COMM_WORLD_RANK") {
            let run = numbered("openmpi", "PMIX_NAMESPACE");
            let here = number("OMPI_COMM_WORLD_LOCAL_SIZE");
            let local = number("OMPI_COMM_WORLD_LOCAL_RANK");
            return made(rank, number("OMPI_COMM_WORLD_SIZE"), run, here, local);
        }
        // srun's own --mpi=pmi2 sets PMI_RANK, too.
        let slurm = number("SLURM_PROCID").zip(number("SLURM_STEP_NUM_TASKS"));
        if let Some(rank) = number("PMI_RANK")
            && slurm.is_none_or(|slurm| Some(slurm) != number("PMI_RANK").zip(number("PMI_SIZE")))
        {
            let run = numbered("pmi", "PMI_JOBID");
            let (here, local) = (number("MPI_LOCALNRANKS"), number("MPI_LOCALRANKID"));
            return made(rank, number("PMI_SIZE"), run, here, local);
        }
        if let Some((rank, size)) = slurm {
            let here = get("SLURM_STEP_TASKS_PER_NODE")
                .zip(number("SLURM_NODEID"))
                .and_then(|(counts, node)| tasks_on(&counts, node));
            return made(rank, Some(size), slurm_run(&get), here, number("SLURM_LOCALID"));
        }
        let rank = number("PMIX_RANK")?;
        made(rank, None, numbered("pmix", "PMIX_NAMESPACE"), None, None)
    }

    /// Whether there is anything to tell apart: not so where the run has one rank.
    pub fn is_one_of_many(&self) -> bool {
        self.rank.size.is_none_or(|size| size > 1)
    }

    /// Whether it is for this rank to do what is done once a node: it is the node's first, or the
    /// launcher does not say which it is.
    pub fn is_first_here(&self) -> bool {
        self.local.is_none_or(|local| local == 0)
    }

    /// Whether the whole run is on this node.
    pub fn is_on_one_node(&self) -> bool {
        self.here.is_some() && self.here == self.rank.size
    }
}

/// A job that was requeued has the numbers of its first try.
fn slurm_run(get: &impl Fn(&str) -> Option<String>) -> String {
    let or_none = |name: &str| get(name).unwrap_or_default();
    let run = format!("slurm {}.{}", or_none("SLURM_JOB_ID"), or_none("SLURM_STEP_ID"));
    match get("SLURM_RESTART_COUNT").filter(|count| count != "0") {
        Some(count) => format!("{run} restarted {count}"),
        None => run,
    }
}

/// How many tasks a node has: srun(1) writes `3(x2),1` for two nodes of three and one of one.
fn tasks_on(counts: &str, node: u32) -> Option<u32> {
    let mut before = 0u32;
    for part in counts.split(',') {
        let (tasks, nodes) = match part.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        before = before.checked_add(nodes)?;
        if node < before {
            return tasks.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(variables: &[(&str, &str)]) -> Option<LaunchedRank> {
        let get = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        };
        LaunchedRank::from(get, "host", 77)
    }

    const STEP: [(&str, &str); 9] = [
        ("SLURM_JOB_ID", "5"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "6"),
        ("SLURM_NODEID", "2"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_STEP_NUM_TASKS", "7"),
        ("SLURM_STEP_TASKS_PER_NODE", "3(x2),1"),
        ("SLURMD_NODENAME", "n3"),
        ("PMIX_RANK", "6"),
    ];

    #[test]
    fn a_slurm_step_tells_its_rank_its_size_and_how_many_share_the_node() {
        let launched = launched(&STEP).unwrap();
        let rank = Rank { rank: 6, size: Some(7), node: "n3".into(), run: "slurm 5.0".into() };
        assert_eq!(launched, LaunchedRank { rank, here: Some(1), local: Some(0) });
    }

    #[test]
    fn a_batch_script_is_no_rank() {
        assert_eq!(launched(&[("SLURM_JOB_ID", "5"), ("SLURM_PROCID", "0")]), None);
    }

    #[test]
    fn a_rank_of_mpirun_within_a_slurm_job_is_mpiruns_rank() {
        let mut both = STEP.to_vec();
        both.push(("OMPI_COMM_WORLD_RANK", "11"));
        both.push(("OMPI_COMM_WORLD_SIZE", "12"));
        both.push(("OMPI_COMM_WORLD_LOCAL_SIZE", "4"));
        both.push(("PMIX_NAMESPACE", "99"));
        let launched = launched(&both).unwrap();
        assert_eq!((launched.rank.rank, launched.rank.size), (11, Some(12)));
        assert_eq!((launched.rank.run.as_str(), launched.here), ("openmpi 99", Some(4)));
    }

    #[test]
    fn a_run_without_a_number_is_told_apart_on_its_node_by_its_launchers_process() {
        let one = launched(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]).unwrap().rank;
        assert_eq!(one.run, "pmi ?host:77");
        let other = Rank { run: "pmi ?elsewhere:8".into(), ..one.clone() };
        assert!(one.may_be_with(&other));
        assert!(!one.may_be_with(&Rank { run: "slurm 5.0".into(), ..one.clone() }));
    }

    #[test]
    fn a_requeued_job_is_another_run() {
        let mut again = STEP.to_vec();
        again.push(("SLURM_RESTART_COUNT", "1"));
        assert_ne!(launched(&again).unwrap().rank.run, launched(&STEP).unwrap().rank.run);
    }

    #[test]
    fn numbers_that_make_no_sense_are_no_rank() {
        assert_eq!(launched(&[("OMPI_COMM_WORLD_RANK", "x"), ("PMIX_RANK", "-1")]), None);
        assert_eq!(tasks_on("4(x4294967295),4(x2)", 4_294_967_295), None);
        assert_eq!(tasks_on("4(x", 0), None);
    }
}
