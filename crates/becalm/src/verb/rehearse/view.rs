//! `becalm rehearse`: what a run waited for on an emulated filesystem, on one screen.

use cost::{FilesystemProfile, JobSize, PredictedWait, RpcKind};
use launch::Ended;
use recording::{Nanos, shown_name};
use rehearse::RehearsedDirectory;
use rehearse::report::{RehearsalReport, RpcSum};
use schemars::JsonSchema;
use serde::Serialize;

use term::number::{bytes, count, counted, percent, time};
use term::{Column, Table, plain, style, width};

/// What `becalm rehearse` answers: as JSON, docs/schema/becalm.rehearse.md; as text,
/// [`RehearsalAnswer::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RehearsalAnswer {
    /// `becalm.rehearse/1`.
    pub schema: &'static str,
    /// What the filesystem was like.
    pub profile: FilesystemProfile,
    /// Whether its server was cold.
    pub cold_server: bool,
    /// How it was done.
    pub by: EmulatedBy,
    /// What that does not show.
    pub difference: Option<String>,
    /// The directories.
    pub paths: Vec<RehearsedPath>,
    /// Whether they could be changed.
    pub writable: bool,
    /// The command.
    pub command: Vec<String>,
    /// How it ended.
    pub ended: Ended,
    /// The recording's file, where it was kept.
    pub recording: Option<String>,
    /// Which of many ranks it is about; none where there is one.
    pub rank: Option<u32>,
    /// What the cost model says of the same run, where it was recorded.
    #[serde(flatten)]
    pub prediction: Option<WaitPrediction>,
    /// What reached the server.
    #[serde(flatten)]
    pub report: RehearsalReport,
}

/// What a recorded run waits by the cost model.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct WaitPrediction {
    /// The ranks in question.
    pub job: JobSize,
    /// How many nodes they are on.
    pub nodes: u64,
    /// What they wait.
    pub predicted_wait: PredictedWait,
}

/// How a command is made to see a slow filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmulatedBy {
    /// Through a FUSE filesystem in a mount namespace.
    Fuse,
    /// The same, in a user namespace.
    FuseInUserNamespace,
    /// EmulatedBy delays in a tracer.
    Tracer,
}

/// A directory that was rehearsed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RehearsedPath {
    /// Its real path.
    pub path: String,
    /// The path that was given, where that is a symbolic link to it.
    pub given: Option<String>,
}

/// How many directories have rows.
const DIRECTORIES: usize = 6;
/// How many causes and programs have rows.
const CAUSES: usize = 6;

impl RehearsalAnswer {
    /// All that is known but how it was done.
    pub fn of(
        profile: &FilesystemProfile,
        by: EmulatedBy,
        places: &[RehearsedDirectory],
        command: &[std::ffi::OsString],
        ended: Ended,
        report: RehearsalReport,
    ) -> RehearsalAnswer {
        let text = |path: &std::path::Path| shown_name(path);
        let path = |place: &RehearsedDirectory| RehearsedPath {
            path: text(&place.path),
            given: place.given.as_deref().map(text),
        };
        RehearsalAnswer {
            schema: "becalm.rehearse/1",
            profile: profile.clone(),
            cold_server: profile.cold_server,
            by,
            difference: None,
            paths: places.iter().map(path).collect(),
            writable: false,
            command: command.iter().map(shown_name).collect(),
            ended,
            recording: None,
            rank: None,
            prediction: None,
            report,
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide; `next` is what to do next,
    /// as a command to paste.
    pub fn render(&self, columns: usize, next: &str) -> String {
        let mut text = style::headline(&self.headline(), columns);
        if let Some(difference) = &self.difference {
            let line = width::wrap(&format!("! {}", plain(difference)), columns);
            text.push_str(&style::paint(style::WARNING, line.trim_end()));
            text.push('\n');
        }
        if self.report.rpcs > 0 {
            let (kinds, directories) = (Some(self.kinds()), Some(self.directories()));
            for table in [kinds, directories, self.causes(), self.programs()] {
                let Some(table) = table else { continue };
                text.push('\n');
                text.push_str(&table.render(columns));
            }
            text.push('\n');
            text.push_str(&width::wrap(&self.second_start(), columns));
            if let Some(prediction) = &self.prediction {
                text.push_str(&width::wrap(&predicted(prediction), columns));
            }
        }
        text.push_str(&style::next(next));
        text
    }

    fn headline(&self) -> String {
        let report = &self.report;
        let program = self.command.first().map_or("", String::as_str);
        let program = plain(program.rsplit('/').next().unwrap_or(program));
        let profile = self.profile.title();
        let wall = time(Nanos(report.wall_ns));
        if report.rpcs == 0 {
            return format!("{program} sent {profile} no RPC in its {wall}.");
        }
        let rpcs = counted(report.rpcs, "metadata RPC", "metadata RPCs");
        let waiting = time(Nanos(report.waiting_ns));
        let mut text =
            format!("{program} sent {profile} {rpcs} and waited {waiting} of its {wall}");
        // Of several that wait at once each waits.
        if report.waited_ns > report.waiting_ns + report.waiting_ns / 10 {
            let all = time(Nanos(report.waited_ns));
            text.push_str(&format!(" ({all} in all its threads and processes together)"));
        }
        text.push_str(&format!("; {} of these failed.", count(report.enoent)));
        text
    }

    fn kinds(&self) -> Table {
        let mut table = table("RPC", Column::text);
        for row in &self.report.kinds {
            let share = match row.kind.is_metadata() {
                true => percent(row.sum.rpcs, self.report.rpcs),
                false => String::new(),
            };
            self.row(&mut table, name(row.kind), share, &row.sum);
        }
        let report = &self.report;
        let queued =
            if report.queued_ns > 0 { time(Nanos(report.queued_ns)) } else { String::new() };
        table.total([
            "all metadata".to_owned(),
            count(report.rpcs),
            count(report.enoent),
            "100 %".to_owned(),
            time(Nanos(report.waited_ns)),
            queued,
        ]);
        table
    }

    fn directories(&self) -> Table {
        let mut table = table("below", Column::path);
        for row in self.report.directories.iter().take(DIRECTORIES) {
            self.row(&mut table, &row.directory, self.share(&row.sum), &row.sum);
        }
        table
    }

    fn causes(&self) -> Option<Table> {
        let causes = self.report.causes.as_ref()?;
        let mut table = table("because of", Column::path);
        for row in causes.causes.iter().take(CAUSES) {
            self.row(&mut table, row.cause.name(), self.share(&row.sum), &row.sum);
        }
        if causes.no_call.rpcs > 0 {
            let share = self.share(&causes.no_call);
            self.row(&mut table, "(no recorded call)", share, &causes.no_call);
        }
        Some(table)
    }

    fn programs(&self) -> Option<Table> {
        let causes = self.report.causes.as_ref().filter(|causes| causes.programs.len() > 1)?;
        let mut table = table("by", Column::path);
        for row in causes.programs.iter().take(CAUSES) {
            self.row(&mut table, &row.program, self.share(&row.sum), &row.sum);
        }
        Some(table)
    }

    fn share(&self, part: &RpcSum) -> String {
        percent(part.rpcs, self.report.rpcs)
    }

    fn row(&self, table: &mut Table, name: &str, share: String, part: &RpcSum) {
        let queued = if part.queued_ns > 0 { time(Nanos(part.queued_ns)) } else { String::new() };
        let data =
            if part.bytes > 0 { bytes(recording::ByteUnits(part.bytes)) } else { String::new() };
        table.row([
            plain(name),
            count(part.rpcs),
            count(part.enoent),
            share,
            time(Nanos(part.waited_ns)),
            queued,
            data,
        ]);
    }

    /// What a warm client would have sent.
    fn second_start(&self) -> String {
        let warm = &self.report.warm;
        let (again, not_kept) = (warm.rpcs, warm.enoent);
        if again == 0 {
            return "A second start on this node would send no RPC: all is cached.".to_owned();
        }
        let no = match not_kept {
            0 => String::new(),
            number => format!(", {} of them without a negative dentry cache", count(number)),
        };
        format!(
            "A second start right after, on the same node, would send {} ({}){no}.",
            counted(again, "RPC", "RPCs"),
            time(Nanos(warm.waited_ns)),
        )
    }
}

/// What the cost model says.
fn predicted(prediction: &WaitPrediction) -> String {
    let seconds = |seconds: f64| time(Nanos((seconds * 1e9).round() as u64));
    let WaitPrediction { job, nodes, predicted_wait } = prediction;
    format!(
        "Predicted from the recording: {} for 1 rank, {} for {} on {}.",
        seconds(predicted_wait.one_rank),
        seconds(predicted_wait.all_ranks),
        counted(job.ranks, "rank", "ranks"),
        counted(*nodes, "node", "nodes"),
    )
}

fn table(first: &str, column: fn(&str) -> Column) -> Table {
    Table::new([
        column(first),
        Column::number("RPCs"),
        Column::number("failed"),
        Column::number("share").spare(),
        Column::number("waited"),
        Column::number("queued").spare(),
        Column::number("data").spare(),
    ])
}

/// What a kind of RPC is for.
fn name(kind: RpcKind) -> &'static str {
    match kind {
        RpcKind::Lookup => "names (lookup)",
        RpcKind::Attributes => "attributes",
        RpcKind::Open => "opens",
        RpcKind::List => "listings",
        RpcKind::Readlink => "links (readlink)",
        RpcKind::Xattr => "extended attributes",
        RpcKind::Access => "permissions (access)",
        RpcKind::Change => "changes",
        RpcKind::Lock => "locks",
        RpcKind::Statfs => "free space (statfs)",
        RpcKind::Read => "data read",
        RpcKind::Write => "data written",
    }
}
