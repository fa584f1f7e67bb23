//! Which of many ranks says what it saw: sixteen equal reports help nobody.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::anyhow;
use job::{LaunchedRank, ReportingRank};
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
        ReportingRank::of_this_run(self.rank).map_err(Failure::of_command)
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
        let file = term::quoted(file);
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

/// What a process says of its command, where it may be one of many ranks.
pub trait RankReport {
    /// Says what the recording does not show; of a rank that is silent otherwise, only what is
    /// its own.
    fn say_what_is_missing(&self, finished: &Finished);

    /// Shows a report, made for so many columns: on standard error, since standard output is the
    /// command's, or there, if only that is a terminal. That of a rank is none: mpirun gives each
    /// one, and reads it.
    ///
    /// # Errors
    /// Where it cannot be written to standard output.
    fn print_report(&self, report: impl FnOnce(usize) -> String) -> anyhow::Result<()>;

    /// After a report: whose it was, and how the others' can be had.
    fn say_whose(&self, others: &str);
}

impl RankReport for ReportingRank {
    fn say_what_is_missing(&self, finished: &Finished) {
        match self {
            ReportingRank::Silent(rank) => recorded::say_what_is_missing_of(rank, finished),
            ReportingRank::Alone | ReportingRank::Reports(_) => {
                recorded::say_what_is_missing(finished)
            }
        }
    }

    fn print_report(&self, report: impl FnOnce(usize) -> String) -> anyhow::Result<()> {
        let out = std::io::stdout().is_terminal() && !std::io::stderr().is_terminal();
        if out && *self == ReportingRank::Alone {
            return Ok(term::print(&report(term::width::terminal()))?);
        }
        let columns = term::width::terminal_of(std::io::stderr());
        // Where standard error takes nothing there is nobody to tell.
        term::print_beside(&report(columns));
        Ok(())
    }

    fn say_whose(&self, others: &str) {
        let ReportingRank::Reports(rank) = self else { return };
        let of = rank.size.map_or(String::new(), |size| format!(" of {size}"));
        let line = format!("this was rank {}{of}, on {}; {others}", rank.rank, rank.node);
        term::warn(&line);
    }
}

/// Refuses to do as one of many ranks what is done once for all of them.
///
/// # Errors
/// Where a launcher started several of this process; `instead` says what to do.
pub fn refuse_many_ranks(verb: &str, instead: &str) -> Result<(), Failure> {
    let Some(LaunchedRank { rank: Rank { rank, .. }, .. }) = LaunchedRank::one_of_many() else {
        return Ok(());
    };
    let error = anyhow!("{verb} is not for every rank of a job (this is rank {rank}); {instead}");
    Err(Failure { status: USAGE, error })
}
