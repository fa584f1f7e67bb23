//! The starts of a run's ranks beside each other: who waited for whom at MPI_Init.
//!
//! MPI_Init returns when all ranks have called it. So a rank that calls it early waits for the one
//! that calls it last. Each node's own clock says when its ranks began.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Nanos, Rank, Totals};

/// A rank's start. Times are from when the first rank of the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RankStart {
    /// Its number.
    pub rank: u32,
    /// Its node.
    pub node: String,
    /// When it began.
    #[serde(rename = "began_ns")]
    pub began: Nanos,
    /// When it called MPI_Init; null where that was not seen.
    #[serde(rename = "mpi_init_ns")]
    pub called: Option<Nanos>,
    /// How long it then waited until the last rank that is there had called it.
    #[serde(rename = "waited_ns")]
    pub waited: Option<Nanos>,
    /// When MPI_Init had returned, and it was let go of; null where that was not seen.
    #[serde(rename = "returned_ns")]
    pub returned: Option<Nanos>,
    /// Until when it was watched.
    #[serde(rename = "watched_ns")]
    pub watched: Nanos,
}

impl RankStart {
    /// Of recordings of one run, the slowest first: who called MPI_Init last, and then, of those of
    /// whom that was not seen, who was watched the longest.
    pub fn all<'a>(ranks: impl Iterator<Item = (&'a Rank, &'a Totals)> + Clone) -> Vec<RankStart> {
        let first = ranks.clone().map(|(_, totals)| totals.began_unix).min().unwrap_or(0);
        let mut starts: Vec<_> =
            ranks.map(|(rank, totals)| RankStart::of(rank, totals, first)).collect();
        let last = starts.iter().filter_map(|start| start.called).max();
        for start in &mut starts {
            start.waited = last.zip(start.called).map(|(last, called)| Nanos(last.0 - called.0));
        }
        starts.sort_by_key(|start| std::cmp::Reverse((start.called, start.watched)));
        starts
    }

    fn of(rank: &Rank, totals: &Totals, first: u64) -> RankStart {
        let began = totals.began_unix - first;
        let after = |nanos: Nanos| Nanos(began.saturating_add(nanos.0));
        let let_go = totals.let_go.as_ref();
        let called = let_go.and_then(|let_go| let_go.mpi_init);
        let returned = let_go.filter(|let_go| let_go.why == crate::LetGoReason::MpiInit);
        RankStart {
            rank: rank.rank,
            node: rank.node.clone(),
            began: Nanos(began),
            called: called.map(after),
            waited: None,
            returned: returned.filter(|_| called.is_some()).map(|let_go| after(let_go.at)),
            watched: after(totals.took),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LetGo, LetGoReason};

    #[test]
    fn whoever_calls_mpi_init_last_is_first_and_the_others_waited_for_it() {
        let of = |rank, began_unix, mpi_init: Option<u64>| {
            let let_go = mpi_init.map(|called| LetGo {
                at: Nanos(900),
                why: LetGoReason::MpiInit,
                mpi_init: Some(Nanos(called)),
            });
            let totals = Totals { began_unix, let_go, took: Nanos(900), ..Totals::default() };
            (Rank { rank, node: "n".into(), ..Rank::default() }, totals)
        };
        let ranks = [of(0, 1_000, Some(100)), of(1, 1_050, Some(500)), of(2, 1_010, None)];
        let starts = RankStart::all(ranks.iter().map(|(rank, totals)| (rank, totals)));
        let told: Vec<_> = starts
            .iter()
            .map(|it| (it.rank, it.began.0, it.called.map(|it| it.0), it.waited.map(|it| it.0)))
            .collect();
        assert_eq!(
            told,
            [(1, 50, Some(550), Some(0)), (0, 0, Some(100), Some(450)), (2, 10, None, None)]
        );
        assert_eq!((starts[0].returned, starts[2].returned), (Some(Nanos(950)), None));
    }
}
