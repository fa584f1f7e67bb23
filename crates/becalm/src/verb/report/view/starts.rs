//! The starts of ranks beside each other: who waited for whom at MPI_Init.

use recording::{Nanos, RankStart};
use term::number::{counted, time};
use term::{Column, Table, plain, width};

/// How wide the line of a rank is.
const PLACES: usize = 32;

/// The starts of at most `rows` ranks, at most `columns` columns wide; nothing where MPI_Init was not seen in
/// two ranks, so that none can have waited.
pub(super) fn text(starts: &[RankStart], columns: usize, rows: usize) -> String {
    let called: Vec<_> = starts.iter().filter_map(|start| Some((start, start.called?))).collect();
    let [(last, last_called), .., (first, first_called)] = called[..] else { return String::new() };
    let waited: u64 = starts.iter().filter_map(|start| start.waited).map(|it| it.0).sum();
    let others = counted(called.len() as u64 - 1, "other", "others");
    let clocks = match called.iter().all(|(start, _)| start.node == last.node) {
        true => "",
        false => " Nodes are compared by their own clocks.",
    };
    let line = format!(
        "Rank {} on {} called MPI_Init last, {} after rank {}, the first; the {others} waited {} for it, \
         together.{clocks}",
        last.rank,
        last.node,
        time(Nanos(last_called.0 - first_called.0)),
        first.rank,
        time(Nanos(waited))
    );
    format!(
        "{}\n{}= start  - waits for rank {}  . MPI_Init\n\n",
        width::wrap(&plain(&line), columns),
        table(starts, rows).render(columns),
        last.rank
    )
}

fn table(starts: &[RankStart], rows: usize) -> Table {
    let mut table = Table::new([
        Column::number("rank"),
        Column::path("node"),
        Column::number("began"),
        Column::number("MPI_Init"),
        Column::number("waited"),
        Column::text("").spare(),
    ]);
    let end = starts.iter().map(|start| start.watched.0).max().unwrap_or(0).max(1);
    let shown = |nanos: Option<Nanos>| nanos.map_or_else(String::new, time);
    for start in starts.iter().take(rows) {
        table.row([
            start.rank.to_string(),
            start.node.clone(),
            time(start.began),
            shown(start.called),
            shown(start.waited),
            line(start, end),
        ]);
    }
    table
}

/// A rank's start along the time of all of them.
fn line(start: &RankStart, end: u64) -> String {
    let place = |nanos: u64| (u128::from(nanos) * PLACES as u128 / u128::from(end)) as usize;
    let called = start.called.map_or(start.watched.0, |called| called.0);
    let there = called.saturating_add(start.waited.map_or(0, |waited| waited.0));
    let returned = start.returned.map_or(there, |returned| returned.0);
    let [began, called, there, returned] = [start.began.0, called, there, returned].map(place);
    let mark = |at: usize| match at {
        at if at < began => ' ',
        // What is shorter than a place is seen, too.
        at if at < called.max(began + 1) => '=',
        at if at < there => '-',
        at if at < returned => '.',
        _ => ' ',
    };
    let line: String = (0..PLACES).map(mark).collect();
    line.trim_end().to_owned()
}
