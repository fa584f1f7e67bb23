//! Which of many ranks says what it saw: sixteen equal reports help nobody.

use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{anyhow, bail};
use job::Launched;
use recording::{Rank, Recording};
use watch::Finished;

use crate::exit::{Failure, USAGE};
use crate::recorded;

/// The option of the verbs that report on one rank.
#[derive(clap::Args)]
pub struct RankOption {
    /// Of many ranks, the one to report on [default: of a command under srun or mpirun, 0]
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
}

impl RankOption {
    /// Whether this process reports on the command that it runs.
    ///
    /// # Errors
    /// Where nobody would report, because the run has no such rank.
    pub fn reporting_rank(&self) -> Result<ReportingRank, Failure> {
        let launched = Launched::this_process().filter(Launched::is_one_of_many);
        reporting_rank(self.rank, launched.map(|launched| launched.rank))
            .map_err(Failure::of_command)
    }

    /// The recording in a file; of a file of many ranks, that of the rank that was asked for.
    ///
    /// # Errors
    /// Where it cannot be loaded, or has many ranks and none was asked for.
    pub fn load(&self, file: &Path) -> anyhow::Result<Recording> {
        let Some(rank) = self.rank else {
            return crate::load::load(file).map_err(|error| match error.is_of_ranks() {
                true => anyhow!("{}: has many ranks; say which with --rank N", named(file)),
                false => error.into(),
            });
        };
        load_rank(file, rank)
    }

    /// The file as a shell takes it, with the rank that was asked for.
    pub fn quoted(&self, file: &Path) -> String {
        let file = term::quoted(file.as_os_str().as_bytes());
        self.rank.map_or(file.clone(), |rank| format!("{file} --rank {rank}"))
    }

    /// The number that was asked for.
    pub fn asked_for(&self) -> Option<u32> {
        self.rank
    }
}

/// One rank's recording of a file of many.
///
/// # Errors
/// Where it cannot be loaded, or has no such rank.
pub fn load_rank(file: &Path, rank: u32) -> anyhow::Result<Recording> {
    crate::load::load_rank(file, rank)?
        .ok_or_else(|| anyhow!("{}: rank {rank} is not there", named(file)))
}

fn named(file: &Path) -> String {
    term::plain(&file.to_string_lossy())
}

/// Whether this process reports.
#[derive(Debug, PartialEq, Eq)]
pub enum ReportingRank {
    /// It is alone, and does.
    Alone,
    /// It is the one of many ranks that does.
    Reports(Rank),
    /// Another does. The command is watched all the same, so that no rank is slowed alone.
    Silent(Rank),
}

fn reporting_rank(asked_for: Option<u32>, this: Option<Rank>) -> anyhow::Result<ReportingRank> {
    let number = asked_for.unwrap_or(0);
    let Some(this) = this else {
        if number != 0 {
            bail!("--rank {number}: no launcher started this, there is one rank");
        }
        return Ok(ReportingRank::Alone);
    };
    match this.size {
        Some(size) if number >= size => {
            bail!("--rank {number}: the ranks of this run are 0 to {}", size.saturating_sub(1))
        }
        _ if this.rank == number => Ok(ReportingRank::Reports(this)),
        _ => Ok(ReportingRank::Silent(this)),
    }
}

impl ReportingRank {
    /// Whether another rank reports.
    pub fn is_silent(&self) -> bool {
        matches!(self, ReportingRank::Silent(_))
    }

    /// This rank's number, where there are many.
    pub fn number(&self) -> Option<u32> {
        match self {
            ReportingRank::Alone => None,
            ReportingRank::Reports(rank) | ReportingRank::Silent(rank) => Some(rank.rank),
        }
    }

    /// Says what the recording does not show; of a rank that is silent otherwise, only what is
    /// its own.
    pub fn say_what_is_missing(&self, finished: &Finished) {
        match self {
            ReportingRank::Silent(rank) => recorded::say_what_is_missing_of(rank, finished),
            ReportingRank::Alone | ReportingRank::Reports(_) => {
                recorded::say_what_is_missing(finished)
            }
        }
    }

    /// Shows a report, made for so many columns: on standard error, since standard output is the
    /// command's, or there, if only that is a terminal. That of a rank is none: mpirun gives each
    /// one, and reads it.
    ///
    /// # Errors
    /// Where it cannot be written to standard output.
    pub fn print_report(&self, report: impl FnOnce(usize) -> String) -> anyhow::Result<()> {
        let out = std::io::stdout().is_terminal() && !std::io::stderr().is_terminal();
        if out && *self == ReportingRank::Alone {
            return Ok(term::print(&report(term::width::terminal()))?);
        }
        let columns = term::width::terminal_of(std::io::stderr());
        // Where standard error takes nothing there is nobody to tell.
        let _ = anstream::stderr().write_all(report(columns).as_bytes());
        Ok(())
    }

    /// After a report: whose it was, and how the others' can be had.
    pub fn say_whose(&self, others: &str) {
        let ReportingRank::Reports(rank) = self else { return };
        let of = rank.size.map_or(String::new(), |size| format!(" of {size}"));
        let line = format!("this was rank {}{of}, on {}; {others}", rank.rank, rank.node);
        anstream::eprintln!("becalm: {}", term::plain(&line));
    }
}

/// Refuses to do as one of many ranks what is done once for all of them.
///
/// # Errors
/// Where a launcher started several of this process; `instead` says what to do.
pub fn once(verb: &str, instead: &str) -> Result<(), Failure> {
    match Launched::this_process().filter(Launched::is_one_of_many) {
        None => Ok(()),
        Some(Launched { rank: Rank { rank, .. }, .. }) => {
            let error =
                anyhow!("{verb} is not for every rank of a job (this is rank {rank}); {instead}");
            Err(Failure { status: USAGE, error })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: u32) -> Rank {
        Rank { rank, size: Some(4), node: "n1".to_owned(), run: "slurm 1.0".to_owned() }
    }

    #[test]
    fn one_of_many_ranks_reports_the_first_unless_another_was_asked_for() {
        assert_eq!(reporting_rank(None, Some(rank(0))).unwrap(), ReportingRank::Reports(rank(0)));
        assert_eq!(reporting_rank(None, Some(rank(3))).unwrap(), ReportingRank::Silent(rank(3)));
        assert_eq!(
            reporting_rank(Some(3), Some(rank(3))).unwrap(),
            ReportingRank::Reports(rank(3))
        );
        assert_eq!(reporting_rank(Some(3), Some(rank(0))).unwrap(), ReportingRank::Silent(rank(0)));
        assert_eq!(reporting_rank(None, None).unwrap(), ReportingRank::Alone);
    }

    #[test]
    fn a_rank_that_nobody_is_would_leave_no_report_and_is_refused() {
        assert!(reporting_rank(Some(4), Some(rank(0))).is_err());
        assert!(reporting_rank(Some(1), None).is_err());
    }
}
