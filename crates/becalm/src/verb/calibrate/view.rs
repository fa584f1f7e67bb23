//! What `becalm calibrate` says.

use std::path::{Path, PathBuf};

use cost::{FilesystemProfile, Revalidation, TimeSpan};
use recording::{Nanos, shown_name};
use rehearse::measure::{FilesystemFigures, LoadFigures, MeasuredProfile, TimedSeries};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{count, counted, time};
use term::{Column, Table, plain, style, width};

use super::{CalibrateArgs, SCHEMA};

/// What `becalm calibrate` answers: as JSON, docs/schema/becalm.calibrate.md; as text,
/// [`CalibrationOutcome::render`].
#[derive(Serialize, JsonSchema)]
pub struct CalibrationOutcome {
    /// `becalm.calibrate/1`.
    pub schema: &'static str,
    /// The directory, as it was given.
    pub directory: String,
    /// The file that the profile was written to.
    pub file: String,
    /// The profile.
    pub profile: FilesystemProfile,
    /// The most metadata operations a second that were seen; none where nothing was.
    pub ops_per_second: Option<u64>,
    /// Whether so many asked that no more could be done: else it may be more.
    pub is_saturated: bool,
    /// Whether data came from the server, not from the memory of the node that wrote it.
    pub is_data_cold: bool,
    /// Whether names that are there were still cached when watching ended, before it could be told that
    /// they are for ever: what the profile says is a lower bound.
    pub is_entries_least: bool,
    /// The same of negative dentries.
    pub is_negatives_least: bool,
    /// What was measured.
    pub measured: FilesystemFigures,
    /// How long all of it took, in seconds.
    pub seconds: f64,
    /// The directory that could not be removed; null where it was.
    pub left: Option<String>,
    #[serde(skip)]
    next: String,
}

impl CalibrationOutcome {
    /// What was measured and written, in so many seconds, and what could not be removed.
    pub fn of(
        directory: &Path,
        file: &Path,
        args: &CalibrateArgs,
        measured: FilesystemFigures,
        profile: MeasuredProfile,
        (seconds, left): (f64, Option<PathBuf>),
    ) -> CalibrationOutcome {
        let MeasuredProfile {
            profile,
            is_saturated,
            is_data_cold,
            is_entries_least,
            is_negatives_least,
            ..
        } = profile;
        let named = match &args.output {
            // With a slash it is a path; without one, a name.
            Some(file) if file.parent() == Some(Path::new("")) => {
                term::quoted_path(Path::new(".").join(file))
            }
            Some(file) => term::quoted_path(file),
            None => args.name.clone(),
        };
        CalibrationOutcome {
            schema: SCHEMA,
            directory: shown_name(directory),
            file: shown_name(file),
            ops_per_second: profile.ops_per_second(),
            profile,
            is_saturated,
            is_data_cold,
            is_entries_least,
            is_negatives_least,
            measured,
            seconds,
            left: left.as_deref().map(shown_name),
            next: format!("becalm check --profile {named} -- CMD"),
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let mut text = style::headline(&plain(&self.headline()), columns);
        text.push_str(&self.alone().render(columns));
        text.push('\n');
        text.push_str(&self.loads().render(columns));
        text.push('\n');
        for line in [self.caches(), self.data()].iter().chain(&self.unseen()) {
            text.push_str(&width::wrap(&plain(line), columns));
        }
        let written = format!("Profile: {} ({:.0} s).", self.file, self.seconds);
        text.push_str(&width::wrap(&plain(&written), columns));
        text.push_str(&style::next(&self.next));
        text
    }

    fn headline(&self) -> String {
        let FilesystemFigures { kind, is_network, nodes, .. } = &self.measured;
        let least = if self.is_saturated { "" } else { "at least " };
        let rate = self.ops_per_second.map(count).unwrap_or_else(|| "any number of".to_owned());
        let what = match is_network {
            true => kind.clone(),
            false => format!("{kind}, which is local: no server is asked"),
        };
        format!(
            "{} ({what}): metadata latency {}, {least}{rate} metadata operations/s from {}.",
            self.directory,
            time(Nanos(self.measured.latency_ns())),
            counted(*nodes, "node", "nodes"),
        )
    }

    fn alone(&self) -> Table {
        let mut table = Table::new([
            Column::path("one client"),
            Column::number("half within"),
            Column::number("95 % within"),
            Column::number("samples").spare(),
        ]);
        for (what, series) in series(&self.measured) {
            table.row([
                what.to_owned(),
                time(Nanos(series.p50_ns)),
                time(Nanos(series.p95_ns)),
                count(series.samples),
            ]);
        }
        table
    }

    fn loads(&self) -> Table {
        let mut table = Table::new([
            Column::number("clients at once"),
            Column::number("lookups"),
            Column::number("lookups/s"),
        ]);
        for load in &self.measured.loads {
            table.row([count(load.clients), count(load.lookups), count(load.rate() as u64)]);
        }
        table
    }

    fn caches(&self) -> String {
        let cache = &self.profile.cache;
        if !self.measured.is_network {
            return "Nobody else changes it: the node trusts what it has in memory.".to_owned();
        }
        let watched = self.measured.lifetimes.checks.last().map_or(0, |last| last.after_seconds);
        let kept = |span: TimeSpan, is_least: bool| match span {
            TimeSpan::ZERO => "are not cached".to_owned(),
            span if is_least || span == TimeSpan::FOREVER => {
                format!("are cached, for {watched} s at least")
            }
            span => format!("are cached for {span}"),
        };
        let sent = |rule: Revalidation| match rule {
            Revalidation::EachTime => "an RPC each time",
            Revalidation::Cached => "cached",
        };
        format!(
            "Names that are there {}; negative dentries {}; an open is {}, a listing {}.",
            kept(cache.entries, self.is_entries_least),
            kept(cache.negatives, self.is_negatives_least),
            sent(cache.open),
            sent(cache.list)
        )
    }

    fn data(&self) -> String {
        let transfers = &self.measured.transfers;
        let rate = |seconds: f64| match seconds > 0.0 {
            true => format!("{:.0} MB/s", transfers.bytes as f64 / seconds / 1e6),
            false => "nothing".to_owned(),
        };
        let readers = counted(transfers.readers, "node", "nodes at once");
        match self.is_data_cold {
            true => format!(
                "Data, read by {readers}: {} cold, {} warm.",
                rate(transfers.seconds),
                rate(transfers.seconds_again)
            ),
            false => "Data came from the memory of the node that wrote it, which did not drop it: \
                 the profile has none."
                .to_owned(),
        }
    }

    /// What this measurement could not see.
    fn unseen(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.measured.is_network {
            return lines;
        }
        if !self.is_saturated {
            lines.push(
                "The server had no more to do than it can: more ranks (-- srun …) would show \
                 what it does at most."
                    .to_owned(),
            );
        }
        if !self.measured.is_made_elsewhere {
            lines.push(
                "One node cannot forget the files that it has made: those of another node, and \
                 what many nodes get, are seen with -- srun -N4 …."
                    .to_owned(),
            );
        }
        lines
    }
}

/// What one client measured, in words.
fn series(figures: &FilesystemFigures) -> [(&'static str, TimedSeries); 8] {
    let alone = &figures.alone;
    let there = match figures.is_made_elsewhere {
        true => "stat, another node's file",
        false => "stat, a file of its own",
    };
    [
        ("stat, no such name", alone.absent),
        ("the same names again", alone.absent_again),
        (there, alone.there),
        ("the same files again", alone.there_again),
        ("open, a known file", alone.open),
        ("listing, a known directory", alone.list_again),
        ("first 4 KiB of a file", alone.first_bytes),
        ("the same again", alone.first_bytes_again),
    ]
}

/// What was measured, as comments of the profile's file.
pub fn comment(figures: &FilesystemFigures, measured: &MeasuredProfile) -> String {
    let mut text = String::new();
    for (what, series) in series(figures) {
        let half = time(Nanos(series.p50_ns));
        text.push_str(&format!("# {what}: {half} ({} samples)\n", series.samples));
    }
    for LoadFigures { clients, lookups, seconds } in &figures.loads {
        text.push_str(&format!(
            "# {clients} clients at once: {lookups} lookups in {seconds:.2} s\n"
        ));
    }
    let ends = [
        ("entries", measured.entries, measured.is_entries_least),
        ("negatives", measured.negatives, measured.is_negatives_least),
    ];
    for (what, span, is_least) in ends {
        if is_least {
            text.push_str(&format!(
                "# {what}: still cached after {span}, when watching ended: at least so long\n"
            ));
        }
    }
    text
}
