//! Something brought to every node of the job that this process is in, from one of them or from
//! where it was submitted, by what the site has for that.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};

/// A launcher has so many seconds,
const LIMIT: u64 = 60;
/// and one more for each so many bytes.
const SLOWEST: u64 = 2 << 20;
/// timeout(1)'s statuses where it ended its command, and where that took SIGKILL.
const ENDED: [i32; 2] = [124, 137];

/// What brings it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroadcastMeans {
    /// Slurm's sbcast(1): its daemons pass a file on to each other, in a tree.
    Sbcast,
    /// Slurm's srun(1): a program on each node, which srun gives its own standard input.
    Srun,
    /// Open MPI's mpirun(1): the same.
    Mpirun,
    /// This process: this node only.
    Here,
}

impl BroadcastMeans {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            BroadcastMeans::Sbcast => "sbcast",
            BroadcastMeans::Srun => "srun",
            BroadcastMeans::Mpirun => "mpirun",
            BroadcastMeans::Here => "here",
        }
    }

    /// Those that can be tried here, the best first.
    pub fn usual() -> Vec<BroadcastMeans> {
        let all = match (is_set("SLURM_JOB_ID"), nodes()) {
            (true, _) => vec![BroadcastMeans::Sbcast, BroadcastMeans::Srun, BroadcastMeans::Mpirun],
            (false, Some(nodes)) if nodes > 1 => vec![BroadcastMeans::Mpirun],
            (false, _) => vec![BroadcastMeans::Here],
        };
        all.into_iter().filter(|means| means.is_here()).collect()
    }

    /// Whether its program is in PATH.
    fn is_here(self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        self == BroadcastMeans::Here
            || std::env::split_paths(&path).any(|directory| directory.join(self.name()).is_file())
    }

    /// Starts a program once on each node, with this file as its standard input. What the
    /// programs write is taken together.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn on_each_node(self, words: &[OsString], input: Option<File>) -> io::Result<Output> {
        let bytes = input.as_ref().and_then(|input| input.metadata().ok()).map_or(0, |it| it.len());
        let limit = LIMIT + bytes / SLOWEST;
        // coreutils' timeout(1): a launcher may wait for ever, and outlive whoever started it.
        let mut command = Command::new("timeout");
        command.args(["--foreground", "--kill-after=10", &limit.to_string(), self.name()]);
        match self {
            BroadcastMeans::Srun => {
                let nodes = nodes().unwrap_or(1);
                command.args([format!("--nodes={nodes}"), format!("--ntasks={nodes}")]);
                command.args(["--ntasks-per-node=1", "--overlap", "--mpi=none"]);
                // Not what the batch script's own options say for its steps.
                command.args(["--input=all", "--output=all", "--error=all"]);
                command.arg("--kill-on-bad-exit=0");
            }
            BroadcastMeans::Mpirun => {
                // To all of one, Open MPI 4.1 passes nothing on, nor its end.
                let to = if nodes().unwrap_or(1) > 1 { "all" } else { "0" };
                command.args(["-N", "1", "--stdin", to]);
            }
            BroadcastMeans::Sbcast | BroadcastMeans::Here => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "starts no programs"));
            }
        }
        command.args(words);
        // SAFETY: between fork and exec it only makes system calls, on memory of the child's own.
        unsafe {
            command.pre_exec(|| {
                // While something is unfinished, becalm holds signals back.
                launch::signals::block_only(&launch::signals::set([]));
                launch::restore_signals();
                // timeout(1) passes it on, and mpirun and srun end what they have started.
                Ok(set_parent_process_death_signal(Some(Signal::TERM))?)
            });
        }
        let said = command.stdin(input.map_or_else(Stdio::null, Stdio::from)).output()?;
        match said.status.code() {
            Some(status) if ENDED.contains(&status) && said.stdout.is_empty() => {
                let why = format!("{} was ended, as it took over {limit} s", self.name());
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }
            _ => Ok(said),
        }
    }

    /// Copies a file of this node to a path on each node of the Slurm job, in place of what is
    /// there.
    ///
    /// # Errors
    /// Where sbcast cannot be started, or fails: then the words that it said.
    pub fn sbcast(source: &Path, target: &Path) -> Result<(), String> {
        let mut command = Command::new("sbcast");
        command.arg("--force").arg(source).arg(target).stdin(Stdio::null());
        let said = command.output().map_err(|error| error.to_string())?;
        match said.status.success() {
            true => Ok(()),
            false => Err(failed(&said)),
        }
    }
}

/// How a program ended that failed: its last words, else its status. Rules around them, as Open MPI
/// draws them, are none.
pub fn failed(said: &Output) -> String {
    let words = String::from_utf8_lossy(&said.stderr);
    let line = words.lines().rfind(|line| line.contains(char::is_alphanumeric));
    line.map_or_else(|| said.status.to_string(), str::to_owned)
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// How many nodes the job has, if it says so.
pub fn nodes() -> Option<u32> {
    let number = |name: &str| std::env::var(name).ok()?.trim().parse::<u32>().ok();
    let listed = || {
        // Torque's and PBS's: a line a slot.
        let file =
            std::env::var_os("PBS_NODEFILE").and_then(|file| std::fs::read_to_string(file).ok());
        // LSF's: names, one a slot.
        let names = file.or_else(|| std::env::var("LSB_HOSTS").ok())?;
        Some(names.split_whitespace().collect::<BTreeSet<_>>().len() as u32)
    };
    number("SLURM_JOB_NUM_NODES").or_else(|| number("SLURM_NNODES")).or_else(listed)
}

/// The name of this node, as its job has it.
pub fn node_name() -> String {
    std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| crate::launched::host())
}
