//! How ranks compare in one number: the smallest, the middle, the largest, and whose that is.

use recording::{Nanos, Totals};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{count, time};
use term::{Column, Table};

use super::ranks::RankRow;

/// How ranks compare.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Figures {
    /// From the start to the command's end.
    pub took_ns: Spread,
    /// Metadata operations.
    pub metadata_ops: Spread,
    /// Of those, failed lookups.
    pub enoent: Spread,
    /// In metadata operations.
    pub metadata_time_ns: Spread,
    /// System calls.
    pub calls: Spread,
    /// Processes.
    pub processes: Spread,
}

/// One number over ranks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Spread {
    /// The smallest.
    pub minimum: u64,
    /// The middle; between two, their mean, rounded down.
    pub median: u64,
    /// The largest.
    pub maximum: u64,
    /// Whose the largest is; of several, the first.
    pub maximum_rank: u32,
    /// The sum over all of them.
    pub total: u64,
}

impl Figures {
    /// Compares the ranks that ended as they should; where none did, those that ended at all; none, where
    /// none did that.
    pub(super) fn of(rows: &[RankRow]) -> Option<Figures> {
        let good: Vec<_> = rows.iter().filter(|row| row.is_good()).collect();
        let rows = match good.is_empty() {
            true => rows.iter().filter(|row| row.ended).collect(),
            false => good,
        };
        let spread = |of: fn(&Totals) -> u64| Spread::of(&rows, of);
        Some(Figures {
            took_ns: spread(|totals| totals.took.0)?,
            metadata_ops: spread(|totals| totals.metadata_ops)?,
            enoent: spread(|totals| totals.enoent)?,
            metadata_time_ns: spread(|totals| totals.metadata_time.0)?,
            calls: spread(|totals| totals.calls)?,
            processes: spread(|totals| totals.processes)?,
        })
    }

    /// The same as a table.
    pub(super) fn table(&self) -> Table {
        let columns = ["minimum", "median", "maximum"].map(Column::number);
        let last = [Column::number("of rank"), Column::number("all ranks").spare()];
        let first = [Column::text("a rank")];
        let mut table = Table::new(first.into_iter().chain(columns).chain(last));
        let mut row = |name: &str, spread: &Spread, shown: fn(u64) -> String| {
            // Where all are equal there is no largest one to look at.
            let whose = match spread.minimum == spread.maximum {
                true => "all".to_owned(),
                false => spread.maximum_rank.to_string(),
            };
            let [least, middle, most, total] =
                [spread.minimum, spread.median, spread.maximum, spread.total].map(shown);
            table.row([name.to_owned(), least, middle, most, whose, total]);
        };
        let span = |nanos| time(Nanos(nanos));
        row("to its end", &self.took_ns, span);
        row("in metadata", &self.metadata_time_ns, span);
        row("metadata operations", &self.metadata_ops, count);
        row("failed lookups", &self.enoent, count);
        row("system calls", &self.calls, count);
        row("processes", &self.processes, count);
        table
    }
}

impl Spread {
    fn of(rows: &[&RankRow], of: fn(&Totals) -> u64) -> Option<Spread> {
        let mut numbers: Vec<u64> = rows.iter().map(|row| of(&row.totals)).collect();
        numbers.sort_unstable();
        let (minimum, maximum) = (*numbers.first()?, *numbers.last()?);
        let (low, high) = (numbers[(numbers.len() - 1) / 2], numbers[numbers.len() / 2]);
        let whose = rows.iter().find(|row| of(&row.totals) == maximum)?;
        Some(Spread {
            minimum,
            median: low + (high - low) / 2,
            maximum,
            maximum_rank: whose.rank,
            total: numbers.iter().fold(0, |sum, number| sum.saturating_add(*number)),
        })
    }
}
