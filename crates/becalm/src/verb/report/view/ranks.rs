//! `becalm report` on the recordings of many ranks: how they compare, and which was the slowest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use picture::{PicturedRank, RankMap};
use recording::{
    ExitStatus, Name, Rank, RankRecording, RankStart, RankedRecordings, Record, RecordingReadError,
    Totals, shown_name,
};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{count, counted, time};
use term::{Column, Table, plain, quoted_path, shell_line, style, width};

use super::rank_end::unknown;
use super::spread::Figures;
use super::starts;

/// Numbers of ranks that a line names; the others it counts.
const NAMED: usize = 8;

/// What `becalm report` answers on ranks: as JSON, docs/schema/becalm.ranks.md; as text,
/// [`RanksReport::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RanksReport {
    /// `becalm.ranks/1`.
    pub schema: &'static str,
    /// The file, as given.
    pub recording: String,
    /// The command of the first rank.
    pub command: Vec<Name>,
    /// The launcher and its number for the run.
    pub run: String,
    /// How many ranks the run had, where the launcher says so.
    pub size: Option<u32>,
    /// Whether the file has its end.
    pub whole: bool,
    /// The ranks of the run that are not in the file.
    pub absent: Vec<u32>,
    /// How the ranks compare that ended with status 0, or, where none did, that ended at all; none where none did.
    pub figures: Option<Figures>,
    /// The rank that took the longest to its end; none where that of some is not known: it failed, was killed, let
    /// go of, cut or is absent.
    pub slowest: Option<u32>,
    /// The nodes, in the order of their first ranks.
    pub nodes: Vec<NodeRow>,
    /// The ranks, by number.
    pub ranks: Vec<RankRow>,
    /// Their starts beside each other, the slowest first: who waited for whom at MPI_Init.
    pub starts: Vec<RankStart>,
    /// Whether it is a program of MPI, whose ranks wait for each other.
    #[serde(skip)]
    waits_for_others: bool,
    #[serde(skip)]
    file: PathBuf,
}

/// One rank.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RankRow {
    /// Its number.
    pub rank: u32,
    /// Its node.
    pub node: String,
    /// Whether the recording holds the command's own end.
    pub ended: bool,
    /// Its exit status.
    pub status: Option<u8>,
    /// The signal that killed it.
    pub signal: Option<u8>,
    /// Why its recording cannot be read.
    pub unreadable: Option<String>,
    /// Its sums; up to the cut, where it did not end.
    #[serde(flatten)]
    pub totals: Totals,
}

/// One node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NodeRow {
    /// Its name.
    pub node: String,
    /// How many ranks of it there are.
    pub ranks: u64,
    /// Metadata operations of all of them.
    pub metadata_ops: u64,
    /// The longest that one of them took.
    pub slowest_ns: u64,
}

impl RanksReport {
    /// Adds up the recordings that were opened from `file`, on all CPUs.
    pub fn of(file: &Path, ranks: &RankedRecordings) -> RanksReport {
        let (rows, command) = rows(&ranks.members);
        let first = ranks.members.first().map(|member| member.rank.clone()).unwrap_or_default();
        let there: Vec<u32> = rows.iter().map(|row| row.rank).collect();
        let (figures, absent) = (Figures::of(&rows), absent(&there, first.size));
        RanksReport {
            schema: "becalm.ranks/1",
            recording: shown_name(file),
            command,
            run: first.run,
            size: first.size,
            whole: ranks.whole,
            slowest: figures
                .as_ref()
                .filter(|_| absent.is_empty() && rows.iter().all(RankRow::is_good))
                .map(|figures| figures.took_ns.maximum_rank),
            waits_for_others: is_mpi(&ranks.members),
            absent,
            figures,
            nodes: node_rows(&rows),
            starts: of_rows(&rows),
            ranks: rows,
            file: file.to_owned(),
        }
    }

    /// What a reader must be told before trusting a number: one line each, for standard error.
    pub fn warnings(&self) -> Vec<String> {
        let file = plain(&self.recording);
        let mut lines = Vec::new();
        let mut say = |which: Vec<u32>, what: &str| {
            if !which.is_empty() {
                lines.push(format!("{file}: {what} {}", numbers(&which)));
            }
        };
        let of = |wanted: &dyn Fn(&RankRow) -> bool| -> Vec<u32> {
            self.ranks.iter().filter(|row| wanted(row)).map(|row| row.rank).collect()
        };
        say(self.absent.clone(), "no recording of");
        say(of(&|row| row.unreadable.is_some()), "unreadable, and left out:");
        let is_let_go = |row: &RankRow| !row.ended && row.totals.let_go.is_some();
        say(of(&is_let_go), "let go of after the start, and their ends not compared:");
        let is_cut = |row: &RankRow| !row.ended && row.unreadable.is_none() && !is_let_go(row);
        say(of(&is_cut), "cut, and not compared:");
        say(of(&|row| row.ended && !row.totals.whole), "not all was seen of");
        say(of(&|row| row.signal.is_some()), "killed by a signal:");
        say(of(&|row| row.status.is_some_and(|status| status != 0)), "failed:");
        if !self.whole {
            lines.push(format!("{file}: the file was cut, and ranks may be missing"));
        }
        lines
    }

    /// The ranks as a picture has them.
    pub fn map(&self) -> RankMap {
        let rank = |row: &RankRow| PicturedRank {
            rank: row.rank,
            node: plain(&row.node),
            took_ns: row.totals.took.0,
            metadata_ns: row.totals.metadata_time.0,
            ops: row.totals.metadata_ops,
            failed: row.totals.enoent,
            end: plain(&row.end()),
        };
        let mut ranks: Vec<_> = self.ranks.iter().map(rank).collect();
        ranks.sort_by_key(|rank| rank.rank);
        let command = shell_line(&self.command);
        RankMap::of(self.headline(), self.run.clone(), command, self.warnings(), ranks)
    }

    /// The answer as a person reads it, at most `columns` columns wide, with the slowest `rows`
    /// ranks.
    pub fn render(&self, columns: usize, rows: usize) -> String {
        let mut text = style::headline(&plain(&self.headline()), columns);
        let command = shell_line(&self.command);
        let about = format!("{}: {}", self.run, width::shorten(&command, columns * 2));
        text.push_str(&width::wrap(&plain(&about), columns));
        text.push('\n');
        if let Some(figures) = &self.figures {
            text.push_str(&figures.table().render(columns));
            text.push('\n');
        }
        if self.nodes.len() > 1 {
            text.push_str(&self.node_table(rows).render(columns));
            text.push('\n');
        }
        text.push_str(&self.slowest_table(rows).render(columns));
        text.push('\n');
        text.push_str(&starts::text(&self.starts, columns, rows));
        if self.is_late_unseen() {
            let line = "Which rank was late to MPI_Init, for which the others wait, is seen by \
                        becalm record --until mpi-init.";
            text.push_str(&width::wrap(line, columns));
        }
        if self.ranks.len() > rows {
            text.push_str(&width::wrap("Add --all for every rank.", columns));
        }
        text.push_str(&style::next(&self.next()));
        text
    }

    fn headline(&self) -> String {
        let ranks = match self.size {
            Some(size) if size as usize != self.ranks.len() => {
                format!("{} of {} ranks", count(self.ranks.len() as u64), count(size.into()))
            }
            _ => counted(self.ranks.len() as u64, "rank", "ranks"),
        };
        let nodes = counted(self.nodes.len() as u64, "node", "nodes");
        let Some(figures) = &self.figures else {
            return format!("{ranks} on {nodes}: none of them was recorded to its end");
        };
        let unknown = unknown(&self.ranks, &self.absent);
        let compared = self.ranks.iter().filter(|row| row.is_good()).count();
        let last = figures.took_ns.maximum_rank;
        let Some(row) = self.ranks.iter().find(|row| row.is_good() && row.rank == last) else {
            return format!("{ranks} on {nodes}: none of them ended with status 0; {unknown}");
        };
        let (first, of) = match unknown.is_empty() {
            true => (String::new(), String::new()),
            false => (format!("{unknown}; "), format!(" of the {} others", count(compared as u64))),
        };
        // Where ranks wait for each other, the last to end need not be one that was slow.
        let what = if self.waits_for_others { "last to end" } else { "slowest" };
        let (last, node, took) = (row.rank, &row.node, time(row.totals.took));
        let median = time(recording::Nanos(figures.took_ns.median));
        match compared {
            1 if !unknown.is_empty() => {
                format!("{ranks} on {nodes}: {first}rank {last} on {node} took {took} to its end")
            }
            _ => format!(
                "{ranks} on {nodes}: {first}the {what}{of} is rank {last} on {node}, {took} to its end, the \
                 median {median}"
            ),
        }
    }

    fn node_table(&self, rows: usize) -> Table {
        let mut nodes: Vec<_> = self.nodes.iter().collect();
        nodes.sort_by_key(|node| std::cmp::Reverse(node.slowest_ns));
        let columns = ["ranks", "ops", "slowest"].map(Column::number);
        let mut table = Table::new([Column::path("node")].into_iter().chain(columns));
        for node in nodes.into_iter().take(rows) {
            let slowest = time(recording::Nanos(node.slowest_ns));
            table.row([node.node.clone(), count(node.ranks), count(node.metadata_ops), slowest]);
        }
        table
    }

    fn slowest_table(&self, rows: usize) -> Table {
        let columns = [
            Column::number("rank"),
            Column::path("node"),
            Column::number("to its end"),
            Column::number("ops"),
            Column::number("failed"),
            Column::number("in metadata"),
            Column::text("").spare(),
        ];
        let mut ranks: Vec<_> = self.ranks.iter().collect();
        // What failed, or was cut, is at the top: it is what to look at first.
        ranks.sort_by_key(|row| (row.trouble(), std::cmp::Reverse(row.totals.took)));
        let mut table = Table::new(columns);
        for row in ranks.into_iter().take(rows) {
            let totals = &row.totals;
            table.row([
                row.rank.to_string(),
                row.node.clone(),
                time(totals.took),
                count(totals.metadata_ops),
                count(totals.enoent),
                time(totals.metadata_time),
                row.end(),
            ]);
        }
        table
    }

    /// Whether ranks that wait for each other were watched without seeing who waits.
    fn is_late_unseen(&self) -> bool {
        self.waits_for_others
            && self.ranks.len() > 1
            && self.figures.is_some()
            && self.starts.iter().all(|start| start.called.is_none())
    }

    /// What to ask next, as a command to paste.
    fn next(&self) -> String {
        let file = quoted_path(&self.file);
        // Of those that were let go of none ended: then whom the others waited for.
        let last = self.starts.first().filter(|start| start.called.is_some());
        let first = self.ranks.first().map(|row| row.rank);
        let worst = self.ranks.iter().filter(|row| self.figures.is_some() && !row.is_good());
        let worst = worst.min_by_key(|row| (row.trouble(), std::cmp::Reverse(row.totals.took)));
        let rank = worst.map(|row| row.rank).or(self.slowest).or(last.map(|start| start.rank));
        let rank = rank.or(first).unwrap_or_default();
        format!("becalm report {file} --rank {rank}")
    }
}

/// The starts of those that can be read.
fn of_rows(rows: &[RankRow]) -> Vec<RankStart> {
    let readable = rows.iter().filter(|row| row.unreadable.is_none());
    let ranks: Vec<_> = readable
        .map(|row| {
            (Rank { rank: row.rank, node: row.node.clone(), ..Rank::default() }, &row.totals)
        })
        .collect();
    RankStart::all(ranks.iter().map(|(rank, totals)| (rank, *totals)))
}

/// The sums of each rank, and the first one's command.
fn rows(members: &[RankRecording]) -> (Vec<RankRow>, Vec<Name>) {
    let rows = Mutex::new(Vec::with_capacity(members.len()));
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(member) = members.get(next.fetch_add(1, Ordering::Relaxed)) {
            let row = row(member);
            rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(row);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(members.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut rows = rows.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    rows.sort_by_key(|row: &RankRow| row.rank);
    let command = members.iter().find_map(|member| Some(member.reader().ok()?.header().command()));
    (rows, command.unwrap_or_default())
}

fn row(member: &RankRecording) -> RankRow {
    let totals = member.reader().and_then(Totals::of);
    let unreadable =
        totals.as_ref().err().map(|error: &RecordingReadError| plain(&error.to_string()));
    let totals = totals.unwrap_or_default();
    let (status, signal) = match totals.status {
        Some(ExitStatus::Exited(status)) => (Some(status), None),
        Some(ExitStatus::Signaled(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    let (rank, node) = (member.rank.rank, member.rank.node.clone());
    RankRow { rank, node, ended: totals.status.is_some(), status, signal, unreadable, totals }
}

/// Whether the first recording that can be read is of a program that has looked for MPI's library, as the
/// recorder knows it (`watch`, `mpi_init`).
fn is_mpi(members: &[RankRecording]) -> bool {
    let mut readers = members.iter().filter_map(|member| member.reader().ok());
    let Some(mut reader) = readers.next() else { return false };
    let is_library = |path: &[u8]| {
        path.rsplit(|byte| *byte == b'/').next().is_some_and(|name| name.starts_with(b"libmpi"))
    };
    while let Ok(Some(record)) = reader.next_record() {
        let path = match record {
            Record::Call(event) => event.path,
            _ => None,
        };
        if path.is_some_and(|path| is_library(reader.path(path))) {
            return true;
        }
    }
    false
}

fn node_rows(rows: &[RankRow]) -> Vec<NodeRow> {
    let mut order = Vec::<NodeRow>::new();
    let mut known = BTreeMap::<&str, usize>::new();
    for row in rows {
        let at = *known.entry(&row.node).or_insert(order.len());
        if at == order.len() {
            let node = row.node.clone();
            order.push(NodeRow { node, ranks: 0, metadata_ops: 0, slowest_ns: 0 });
        }
        let node = &mut order[at];
        node.ranks += 1;
        node.metadata_ops += row.totals.metadata_ops;
        node.slowest_ns = node.slowest_ns.max(row.totals.took.0);
    }
    order
}

/// The nodes of ranks and how many each has, in the order of their first ranks.
pub(crate) fn nodes_of<'a>(members: impl Iterator<Item = &'a RankRecording>) -> Vec<(String, u64)> {
    let mut order = Vec::<(String, u64)>::new();
    for member in members {
        match order.iter_mut().find(|(node, _)| *node == member.rank.node) {
            Some((_, ranks)) => *ranks += 1,
            None => order.push((member.rank.node.clone(), 1)),
        }
    }
    order
}

/// The ranks of a run of that size that are not there. A hostile file may claim any size; what is
/// told of it is bounded.
pub(crate) fn absent(there: &[u32], size: Option<u32>) -> Vec<u32> {
    const MOST: usize = 1 << 20;
    let mut there = there.iter().copied().peekable();
    let all = 0..size.unwrap_or_default();
    all.filter(|rank| there.next_if_eq(rank).is_none()).take(MOST).collect()
}

/// `rank 3`, `ranks 3, 5`, and how many more.
pub(crate) fn numbers(ranks: &[u32]) -> String {
    let named: Vec<_> = ranks.iter().take(NAMED).map(u32::to_string).collect();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    let more = match ranks.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {} more", count(more as u64)),
    };
    format!("{word} {}{more}", named.join(", "))
}
