//! Which of many ranks says what it saw: sixteen equal reports help nobody.

use recording::Rank;

use crate::{JobError, LaunchedRank};

/// Who reports on a command that every rank runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportingRank {
    /// This process: there are no ranks.
    Alone,
    /// This process, which is this rank of many.
    Reports(Rank),
    /// Another one; this is who this process is. The command is watched all the same, so that no
    /// rank is slowed alone.
    Silent(Rank),
}

impl ReportingRank {
    /// Whoever reports: the rank that was asked for, or else the first.
    ///
    /// # Errors
    /// Where nobody would report, because the run has no such rank.
    pub fn of_this_run(asked: Option<u32>) -> Result<ReportingRank, JobError> {
        let launched = LaunchedRank::one_of_many();
        ReportingRank::choose(asked, launched.map(|launched| launched.rank))
    }

    fn choose(asked: Option<u32>, this: Option<Rank>) -> Result<ReportingRank, JobError> {
        let asked = asked.unwrap_or(0);
        match this {
            None if asked == 0 => Ok(ReportingRank::Alone),
            None => Err(JobError::NoLauncher(asked)),
            Some(Rank { size: Some(size), .. }) if asked >= size => {
                Err(JobError::NoSuchRank { asked, last: size.saturating_sub(1) })
            }
            Some(this) if this.rank == asked => Ok(ReportingRank::Reports(this)),
            Some(this) => Ok(ReportingRank::Silent(this)),
        }
    }

    /// Whether another rank reports.
    pub fn is_silent(&self) -> bool {
        matches!(self, ReportingRank::Silent(_))
    }

    /// This process's number, where there are ranks.
    pub fn number(&self) -> Option<u32> {
        match self {
            ReportingRank::Alone => None,
            ReportingRank::Reports(rank) | ReportingRank::Silent(rank) => Some(rank.rank),
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
        let choose =
            |asked, this: Option<u32>| ReportingRank::choose(asked, this.map(rank)).unwrap();
        assert_eq!(choose(None, Some(0)), ReportingRank::Reports(rank(0)));
        assert_eq!(choose(None, Some(3)), ReportingRank::Silent(rank(3)));
        assert_eq!(choose(Some(3), Some(3)), ReportingRank::Reports(rank(3)));
        assert_eq!(choose(Some(3), Some(0)), ReportingRank::Silent(rank(0)));
        assert_eq!(choose(None, None), ReportingRank::Alone);
    }

    #[test]
    fn a_rank_that_nobody_is_would_leave_no_report_and_is_refused() {
        assert!(ReportingRank::choose(Some(4), Some(rank(0))).is_err());
        assert!(ReportingRank::choose(Some(1), None).is_err());
    }
}
