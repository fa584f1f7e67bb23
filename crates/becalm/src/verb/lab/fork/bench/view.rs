//! `becalm lab fork bench`: what starting a program costs by the size of who starts it.

use lab::fork_bench::{ForkTimes, Parent, published_ms};
use recording::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use term::number::{count, time};
use term::{Column, Table, style, width};

/// What `becalm lab fork bench` answers: as JSON, docs/schema/becalm.lab.fork.bench.md.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ForkBench {
    /// `becalm.lab.fork.bench/1`.
    schema: &'static str,
    /// The answer in words.
    headline: String,
    /// Medians, a size each.
    rows: Vec<BenchRow>,
    #[serde(flatten)]
    bench: ForkTimes,
}

/// A size, with medians.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct BenchRow {
    /// The parent's memory, in 2^20 bytes.
    megabytes: u64,
    /// By fork(2) and execve(2).
    fork_ns: u64,
    /// By vfork(2).
    vfork_ns: u64,
    /// By posix_spawn(3).
    posix_spawn_ns: u64,
    /// By fork(2), the parent in huge pages.
    huge_fork_ns: u64,
    /// The same by vfork(2).
    huge_vfork_ns: u64,
    /// The same by posix_spawn(3).
    huge_posix_spawn_ns: u64,
    /// What was published for bash; null where it was not.
    published_fork_ms: Option<f64>,
}

impl ForkBench {
    /// The answer.
    pub fn of(bench: ForkTimes) -> ForkBench {
        let rows: Vec<BenchRow> = bench.parents.chunks_exact(2).map(row).collect();
        ForkBench { schema: "becalm.lab.fork.bench/1", headline: headline(&rows), rows, bench }
    }

    /// What must be known before believing the answer, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for size in &self.bench.left_out {
            lines.push(format!("{} MB were left out: too little memory is free", count(*size)));
        }
        let poor = |parent: &&Parent| {
            // Below 2 MB there is none that would fit.
            parent.huge_pages
                && parent.megabytes >= 2
                && parent.huge_bytes < (parent.megabytes << 20) / 10 * 9
        };
        for parent in self.bench.parents.iter().filter(poor) {
            lines.push(format!(
                "of {} MB only {} were in huge pages: the kernel had or gave no more",
                count(parent.megabytes),
                count(parent.huge_bytes >> 20)
            ));
        }
        lines
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let mut text = style::headline(&self.headline, columns);
        text.push('\n');
        text.push_str(&table(&self.rows).render(columns));
        text.push('\n');
        text.push_str(&plot(&self.rows, columns));
        let note = format!(
            "Medians of {}, to the end of {}. The parent is a plain process with so much memory, \
             as a shell of that size would have. Published: fork+exec from bash.",
            count(self.bench.parents.first().map_or(0, |parent| parent.fork_ns.len()) as u64),
            self.bench.program
        );
        text.push('\n');
        text + &width::wrap(&note, columns)
    }
}

/// A size's two parents as a row.
fn row(parents: &[Parent]) -> BenchRow {
    let [plain, huge] = [&parents[0], &parents[1]];
    BenchRow {
        megabytes: plain.megabytes,
        fork_ns: median(&plain.fork_ns),
        vfork_ns: median(&plain.vfork_ns),
        posix_spawn_ns: median(&plain.posix_spawn_ns),
        huge_fork_ns: median(&huge.fork_ns),
        huge_vfork_ns: median(&huge.vfork_ns),
        huge_posix_spawn_ns: median(&huge.posix_spawn_ns),
        published_fork_ms: published_ms(plain.megabytes),
    }
}

fn median(times: &[u64]) -> u64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

fn headline(rows: &[BenchRow]) -> String {
    let Some(largest) = rows.last() else { return "Nothing was measured.".to_owned() };
    format!(
        "From a process of {} MB, fork and exec take {}; with huge pages {}, by posix_spawn {}.",
        count(largest.megabytes),
        time(Nanos(largest.fork_ns)),
        time(Nanos(largest.huge_fork_ns)),
        time(Nanos(largest.posix_spawn_ns))
    )
}

fn table(rows: &[BenchRow]) -> Table {
    let mut table = Table::new([
        Column::number("parent"),
        Column::number("fork+exec"),
        Column::number("vfork"),
        Column::number("posix_spawn"),
        Column::number("huge: fork+exec"),
        Column::number("vfork").spare(),
        Column::number("posix_spawn").spare(),
        Column::number("published"),
    ]);
    for row in rows {
        let shown = |nanos: u64| time(Nanos(nanos));
        table.row([
            format!("{} MB", count(row.megabytes)),
            shown(row.fork_ns),
            shown(row.vfork_ns),
            shown(row.posix_spawn_ns),
            shown(row.huge_fork_ns),
            shown(row.huge_vfork_ns),
            shown(row.huge_posix_spawn_ns),
            row.published_fork_ms.map_or_else(String::new, |ms| format!("{ms} ms")),
        ]);
    }
    table
}

/// Room for a size before the axis.
const MARGIN: usize = 9;

/// A line a size, times along it on a logarithmic scale.
fn plot(rows: &[BenchRow], columns: usize) -> String {
    let marks = |row: &BenchRow| {
        // The later ones lie over the earlier ones.
        [
            (row.vfork_ns, 'v'),
            (row.posix_spawn_ns, 's'),
            (row.huge_fork_ns, 'h'),
            (row.fork_ns, 'f'),
        ]
    };
    let times = || rows.iter().flat_map(marks).map(|(time, _)| time.max(1) as f64);
    let low = times().fold(f64::INFINITY, f64::min);
    let high = times().fold(low * 2.0, f64::max);
    let places = columns.saturating_sub(MARGIN + 3).clamp(10, 72);
    let mut text = String::new();
    for row in rows {
        let mut line = vec![' '; places];
        for (time, mark) in marks(row) {
            let part = (time.max(1) as f64 / low).ln() / (high / low).ln();
            line[((places - 1) as f64 * part.clamp(0.0, 1.0)).round() as usize] = mark;
        }
        let line: String = line.into_iter().collect();
        let label = format!("{} MB", count(row.megabytes));
        text.push_str(&format!("{label:>MARGIN$} |{}\n", line.trim_end()));
    }
    let (from, to) = (time(Nanos(low as u64)), time(Nanos(high as u64)));
    let gap = places.saturating_sub(width::of(&from));
    text.push_str(&format!("{:MARGIN$} +{}\n", "", "-".repeat(places)));
    text.push_str(&format!("{:MARGIN$}  {from}{to:>gap$}\n", ""));
    text + &format!("{:MARGIN$}  f fork+exec  h with huge pages  v vfork  s posix_spawn\n", "")
}
