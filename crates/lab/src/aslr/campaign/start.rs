//! A job: all of its ranks, started by the launcher.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek};
use std::path::PathBuf;

use launch::layout::MemoryLayout;
use launch::{CannotStart, Command, Ended, timed};
use rustix::fs::{MemfdFlags, memfd_create};

use super::gather::{self, GatherError};
use super::output::{Redirected, lines};
use super::plan::TimedBy;
use super::rank::{RankDetails, name};
use crate::aslr::log::LoggedProcess;

/// What starts jobs.
#[derive(Clone, Debug)]
pub struct Starter {
    /// Such as `srun -n 16`; empty where a job is one process.
    pub launcher: Vec<OsString>,
    /// becalm, where ranks find it.
    pub becalm: PathBuf,
    /// What each rank runs.
    pub command: Vec<OsString>,
    /// Whether that is the built-in kernel.
    pub is_kernel: bool,
    /// What is looked at beside the times of a command's ranks; the built-in kernel tells it
    /// itself.
    pub beside: RankDetails,
    /// Which time stands for a rank that prints none.
    pub by: TimedBy,
    /// How many ranks a job has, once that is known.
    pub ranks: Option<u32>,
}

/// How a job is to be started.
#[derive(Clone, Debug, Default)]
pub struct JobStart {
    /// The layout of its ranks; none where the kernel draws.
    pub layout: Option<MemoryLayout>,
    /// Ranks that may only run on this processor.
    pub on: Vec<(u32, u32)>,
    /// Ranks that may not run on this processor.
    pub not_on: Vec<(u32, u32)>,
    /// Whether its environment is another one.
    pub environment: bool,
    /// Above what the built-in kernel takes its time again in the same place, in seconds.
    pub limit: Option<f64>,
}

/// Why a job gave no times.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The launcher cannot be started, or becalm itself.
    #[error(transparent)]
    Command(#[from] CannotStart),
    /// It said why.
    #[error("a job {}; what it printed says why", match .0 {
        Ended::Exited(status) => format!("ended with status {status}"),
        Ended::Signaled(signal) => format!("was killed by signal {signal}"),
    })]
    Failed(Ended),
    /// Its ranks.
    #[error("a job ended well, but {0}")]
    Gather(#[from] GatherError),
    /// Pipes.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl StartError {
    /// Whether somebody has ended the job (with Ctrl-C, or kill), who wants an end of all.
    pub(super) fn is_interrupted(&self) -> bool {
        // Launchers and shells tell of a signal by a status above 128.
        matches!(self, StartError::Failed(Ended::Signaled(_) | Ended::Exited(129..)))
    }
}

impl Starter {
    /// Starts a job, waits for its end, and returns its processes, by rank.
    ///
    /// # Errors
    /// [`StartError`]: a job counts only if all of its ranks do.
    pub fn start(&self, order: &JobStart) -> Result<Vec<LoggedProcess>, StartError> {
        let argv = self.words(order);
        // Into memory: ranks print little, and nobody has to read it while the job runs.
        let printed = memfd_create("becalm-job", MemfdFlags::CLOEXEC);
        let mut printed = File::from(printed.map_err(io::Error::from)?);
        let redirected = Redirected::to(&printed)?;
        let timed = timed(&Command::of(argv));
        drop(redirected);
        let ended = timed?.ended;
        printed.rewind()?;
        let said = lines(printed, gather::said).collect();
        if ended != Ended::Exited(0) {
            return Err(StartError::Failed(ended));
        }
        Ok(gather::processes(said, self.by, self.ranks)?)
    }

    fn words(&self, order: &JobStart) -> Vec<OsString> {
        let mut words = self.launcher.clone();
        words.push(self.becalm.clone().into());
        words.extend(["lab", "aslr", "rank", "--layout"].map(OsString::from));
        words.push(name(order.layout).into());
        for (option, pairs) in [("--on", &order.on), ("--not-on", &order.not_on)] {
            if !pairs.is_empty() {
                let pairs = pairs.iter().map(|(rank, cpu)| format!("{rank}:{cpu}"));
                words.extend([option.into(), pairs.collect::<Vec<_>>().join(",").into()]);
            }
        }
        match self.beside {
            RankDetails::Nothing => {}
            RankDetails::Machine => words.push("--machine".into()),
            RankDetails::MachineAndVectors => {
                words.extend(["--machine".into(), "--vectors".into()])
            }
        }
        if order.environment {
            words.push("--another-environment".into());
        }
        words.push("--".into());
        words.extend(self.command.iter().cloned());
        if let Some(limit) = order.limit.filter(|_| self.is_kernel) {
            // Of one width: the arguments are on the stack, and their size would move it.
            words.extend(["--limit".into(), format!("{:016.9}", limit.min(99_999.0)).into()]);
        }
        words
    }
}
