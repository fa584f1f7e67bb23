//! `becalm scale`: a start, times many ranks.

use cost::{ComputeSource, CostModel, FilesystemProfile, JobProjection, JobSize, Projection};
use recording::{ByteUnits, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use term::number::{bytes, count, counted, time};
use term::{Cell, Column, Table, plain, style, width};

/// What `becalm scale` answers: as JSON, docs/schema/becalm.scale.md; as text,
/// [`ScaleAnswer::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScaleAnswer {
    /// `becalm.scale/1`.
    pub schema: &'static str,
    /// The shared filesystem.
    pub profile: FilesystemProfile,
    /// Whether its server is cold.
    pub cold_server: bool,
    /// On how many metadata servers its directories are.
    pub metadata_servers: u32,
    /// The ranks in question.
    pub job: JobSize,
    /// How many nodes they are on.
    pub nodes: u64,
    /// Whether each node has had such a start before.
    pub warm: bool,
    /// The recording.
    pub before: Projection,
    /// The recording of the fix.
    pub after: Option<Projection>,
}

impl ScaleAnswer {
    /// What is projected for this job.
    pub fn of(model: CostModel, before: Projection, after: Option<Projection>) -> ScaleAnswer {
        let CostModel { profile, job, warm } = model;
        let (schema, nodes) = ("becalm.scale/1", job.nodes());
        let (cold_server, metadata_servers) = (profile.cold_server, profile.metadata_servers);
        ScaleAnswer {
            schema,
            profile,
            cold_server,
            metadata_servers,
            nodes,
            job,
            warm,
            before,
            after,
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide; `next` is what to do
    /// next, as a command to paste.
    pub fn render(&self, columns: usize, next: &str) -> String {
        let mut text = style::headline(&plain(&self.headline()), columns);
        text.push_str(&self.ranks().render(columns));
        text.push('\n');
        text.push_str(&super::plot::plot(&self.before, self.after.as_ref(), columns));
        text.push('\n');
        text.push_str(&self.one_node().render(columns));
        text.push('\n');
        for side in [Some(&self.before), self.after.as_ref()].into_iter().flatten() {
            let Some(spread) = &side.spread else { continue };
            let line = format!(
                "Spread (becalm image spread): one node reads {} of the image in {}, and the nodes \
                 pass it on in {}, those that have it twice as many each time.",
                bytes(ByteUnits(spread.bytes)),
                span(spread.read_seconds),
                span(spread.job.broadcast_seconds),
            );
            text.push_str(&width::wrap(&line, columns));
        }
        for line in &self.before.assumptions {
            text.push_str(&width::wrap(&plain(line), columns));
        }
        text.push_str(&style::next(next));
        text
    }

    fn headline(&self) -> String {
        let ranks = counted(self.job.ranks, "rank", "ranks");
        let nodes = counted(self.nodes, "node", "nodes");
        let JobProjection { seconds, queued_seconds, .. } = self.before.job;
        let wait = self.before.predicted_wait.all_ranks;
        let program = &self.before.program;
        let mut text = format!("{ranks} on {nodes} ({}): ", self.profile.title());
        if let Some(after) = &self.after {
            let (before, after) = (span(wait), span(after.predicted_wait.all_ranks));
            return format!("{text}the last {program} waits {before} before, {after} after.");
        }
        let through = span(seconds);
        text.push_str(&format!("the last {program} waits {} of its {through}", span(wait)));
        if queued_seconds * 20.0 > wait {
            text.push_str(&format!(", {} of that in the server's queue", span(queued_seconds)));
        }
        text.push_str(&match self.before.saturation {
            None => "; the server is never the limit".to_owned(),
            Some(knee) => {
                let is = if knee.ranks <= self.job.ranks as f64 { "is" } else { "would be" };
                let from = match knee.nodes {
                    nodes if nodes >= 1.0 => counted(nodes.ceil() as u64, "node", "nodes"),
                    _ => counted(knee.ranks.ceil() as u64, "rank", "ranks"),
                };
                format!("; the server {is} saturated from {from}")
            }
        });
        text.push('.');
        text
    }

    /// What so many ranks cost.
    fn ranks(&self) -> Table {
        let mut columns =
            vec![Column::number("ranks"), Column::number("nodes"), Column::number("RPCs")];
        columns.extend([Column::number("wait"), Column::number("in queue").spare()]);
        let spreads = [Some(&self.before), self.after.as_ref()].map(|side| side?.spread.as_ref());
        if spreads[0].is_some() {
            columns.push(Column::number("spread: wait"));
        }
        if self.after.is_some() {
            columns.extend([Column::number("after: RPCs"), Column::number("wait")]);
            columns.push(Column::number("faster").spare());
        }
        if spreads[1].is_some() {
            columns.push(Column::number("after, spread: wait"));
        }
        let mut table = Table::new(columns);
        let after = self.after.as_ref().map(Projection::rows);
        for (number, row) in self.before.rows().iter().enumerate() {
            let is_job = row.ranks == self.job.ranks;
            if !is_job && !is_decade(row.ranks) {
                continue;
            }
            let after = after.as_ref().and_then(|rows| rows.get(number));
            let look = if is_job { style::TOTAL } else { style::NONE };
            let spread = spreads.map(|side| side.and_then(|side| side.of_ranks(row.ranks)));
            let spread = spread.map(|it| it.map(|it| span(it.wait_seconds)));
            let mut cells = cells(row, after);
            let [before, after] = spread;
            before.into_iter().for_each(|cell| cells.insert(5, cell));
            cells.extend(after);
            table.row(cells.iter().map(|cell| Cell::styled(cell, look)));
        }
        table
    }

    /// What one rank does, and what a negative dentry cache matters.
    fn one_node(&self) -> Table {
        let sides: Vec<_> =
            [Some(&self.before), self.after.as_ref()].into_iter().flatten().collect();
        let mut columns = vec![Column::path("one node")];
        columns.extend(["before", "after"].map(Column::number).into_iter().take(sides.len()));
        if sides.len() == 1 {
            columns = vec![Column::path("one node"), Column::number("")];
        }
        let mut table = Table::new(columns);
        let mut row = |name: String, cell: &dyn Fn(&Projection) -> String| {
            table.row([name].into_iter().chain(sides.iter().map(|side| cell(side))));
        };
        row("RPCs of its first rank".into(), &|side| count(side.rpcs.total));
        row("  once a node".into(), &|side| count(side.rpcs.once_a_node));
        row("  of every rank".into(), &|side| count(side.rpcs.every_rank));
        row("  failed lookups".into(), &|side| count(side.rpcs.enoent));
        row("RPCs of a second start on it".into(), &|side| count(side.rpcs_again.total));
        row("one rank alone waits".into(), &|side| span(side.predicted_wait.one_rank));
        let how = match self.before.compute {
            ComputeSource::Recorded => "recorded",
            ComputeSource::Given => "given",
        };
        row(format!("  and computes ({how})"), &|side| span(side.compute_seconds));
        let all = counted(self.job.ranks, "rank", "ranks");
        row(format!("{all} with a negative dentry cache"), &|side| {
            span(side.job_if_negatives_cached.predicted_wait)
        });
        row("  without".into(), &|side| span(side.job_if_negatives_not_cached.predicted_wait));
        table
    }
}

fn cells(row: &JobProjection, after: Option<&JobProjection>) -> Vec<String> {
    let mut cells = vec![count(row.ranks), count(row.nodes), count(row.rpcs)];
    cells.extend([span(row.predicted_wait), span(row.queued_seconds)]);
    if let Some(after) = after {
        cells.extend([count(after.rpcs), span(after.predicted_wait)]);
        cells.push(format!("{:.1}x", row.predicted_wait / after.predicted_wait));
    }
    cells
}

fn is_decade(ranks: u64) -> bool {
    ranks > 0 && 10u64.pow(ranks.ilog10()) == ranks
}

pub(super) fn span(seconds: f64) -> String {
    time(Nanos((seconds * 1e9).round() as u64))
}
