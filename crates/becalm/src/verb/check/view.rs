//! `becalm check`: what was found, on one screen.

use std::path::Path;

use cost::PredictedWait;
use cure::{CloserLook, Cure, CurePlan, RefusedCure, StormCures};
use explain::{Finding, Findings};
use recording::{Nanos, Recording, shown_name};
use serde::Serialize;

use crate::again;
use crate::predicted_wait::{seconds, wait_sentence};
use term::number::{count, counted, percent, time};
use term::{Column, Table, plain, shell_line, style, width};

/// What `becalm check` answers: as JSON, docs/schema/becalm.check.md; as text,
/// [`CheckAnswer::render`].
#[derive(Clone, Debug, Serialize)]
pub struct CheckAnswer {
    /// `becalm.check/1`.
    pub schema: &'static str,
    /// The recording's file, as text; none where it was not kept.
    pub recording: Option<String>,
    /// Which of many ranks it is about; none where there is one.
    pub rank: Option<u32>,
    /// The machine.
    pub host: String,
    /// Its kernel's release.
    pub kernel: String,
    /// What the run did on a rehearsed filesystem; none where it was not run on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rehearsed: Option<RehearsedRun>,
    /// What was found.
    #[serde(flatten)]
    pub findings: Findings,
    /// What would calm the storms, in their order.
    pub cures: Vec<Cure>,
    /// What shows more of them.
    pub looks: Vec<CloserLook>,
    /// What a reader may think of, and why it is no cure here.
    pub not_chosen: Vec<RefusedCure>,
}

/// A run on a rehearsed filesystem.
#[derive(Clone, Debug, Serialize)]
pub struct RehearsedRun {
    /// The profile's name.
    pub profile: String,
    /// Whether its server was cold.
    pub cold_server: bool,
    /// The directories that were on it.
    pub directories: Vec<String>,
    /// Metadata operations that reached its server.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
    /// How long at least one of them, or a transfer of data, was waited for.
    pub waiting_ns: Nanos,
    /// How long they were waited for, added up.
    pub waited_ns: Nanos,
    /// Of that, how long the server worked on others' operations.
    pub queued_ns: Nanos,
}

impl RehearsedRun {
    fn sentence(&self, wall: Nanos) -> String {
        format!(
            "On a cold node of a rehearsed {} ({}): of {}, traced, it waited {} for the {} to \
             serve {}.",
            self.profile,
            self.directories.join(", "),
            time(wall),
            time(self.waiting_ns),
            if self.cold_server { "cold server" } else { "server" },
            counted(self.metadata_ops, "metadata operation", "metadata operations"),
        )
    }
}

/// A word that is longer is cut in the middle: paths in sentences.
const WORD: usize = 44;

/// How much of each storm is shown: with more of them, less of each.
struct StormRoom {
    sources: usize,
    steps: usize,
}

impl CheckAnswer {
    /// Findings of a recording that is kept in a file, or not.
    pub fn of(
        recording: &Recording,
        file: Option<&Path>,
        findings: Findings,
        plan: &CurePlan,
    ) -> CheckAnswer {
        let header = &recording.header;
        let all = || plan.storms.iter().map(|(_, all)| all);
        CheckAnswer {
            schema: "becalm.check/1",
            recording: file.map(shown_name),
            rank: None,
            host: header.host.clone(),
            kernel: header.kernel.clone(),
            rehearsed: None,
            findings,
            cures: all().flat_map(|all| all.cures.clone()).collect(),
            looks: all().flat_map(|all| all.looks.clone()).collect(),
            not_chosen: all().flat_map(|all| all.not_chosen.clone()).collect(),
        }
    }

    /// What can be done about one of the storms.
    fn cures_of(&self, storm: &Finding) -> StormCures {
        StormCures {
            cures: self.cures.iter().filter(|cure| cure.storm == storm.storm).cloned().collect(),
            looks: self.looks.iter().filter(|look| look.storm == storm.storm).cloned().collect(),
            not_chosen: Vec::new(),
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide save for commands to
    /// paste: the headline, what must be known first, the storms, their sources and what to do.
    pub fn render(&self, columns: usize) -> String {
        let findings = &self.findings;
        let mut text = style::headline(&shorten_words(&findings.headline), columns);
        if let Some(rehearsed) = &self.rehearsed {
            let wall = findings.totals.wall_ns;
            text.push_str(&width::wrap(&rehearsed.sentence(wall), columns));
        }
        for warning in &findings.warnings {
            let line = indented(&format!("! {}", warning.text), 0, 2, columns);
            text.push_str(&style::paint(style::WARNING, line.trim_end()));
            text.push('\n');
        }
        if findings.storms.is_empty() {
            text.push_str(&self.calm(columns));
            return text;
        }
        text.push('\n');
        text.push_str(&self.table().render(columns));
        let rest: u64 = findings.rest.iter().map(|part| part.count.metadata_ops).sum();
        if rest * 2 > findings.totals.metadata_ops {
            text.push_str(&width::wrap(&format!("Other: {}.", self.rest()), columns));
        }
        text.push('\n');
        for (at, storm) in findings.storms.iter().enumerate() {
            let room = match (findings.storms.len(), at) {
                (1, _) => StormRoom { sources: 3, steps: 2 },
                (2, _) | (_, 0) => StormRoom { sources: 2, steps: 1 },
                _ => StormRoom { sources: 1, steps: 1 },
            };
            text.push_str(&block(storm, &self.cures_of(storm), &room, columns));
        }
        text.push_str(&self.about_wait(columns));
        text.push_str(&style::next(&self.evidence(&findings.storms[0].evidence)));
        text
    }

    /// Where there is no storm: what there is, from when on it would be one, and what leads forward.
    fn calm(&self, columns: usize) -> String {
        let mut text = String::new();
        if !self.findings.rest.is_empty() {
            text.push_str(&width::wrap(&format!("By cause: {}.", self.rest()), columns));
        }
        text.push_str(&width::wrap(&self.findings.threshold.words, columns));
        text.push_str(&self.about_wait(columns));
        if let Some(next) = self.next_without_storm() {
            text.push_str(&style::next(&next));
        }
        text
    }

    /// Where no storm explains what there is: the same with what was left out, or what it was asked
    /// for.
    fn next_without_storm(&self) -> Option<String> {
        match &self.findings.left_out {
            Some(directory) => {
                let directory = std::str::from_utf8(directory.bytes()).ok()?;
                Some(again::with(1, &["--below", directory]))
            }
            None if self.findings.is_calm => None,
            None => Some(self.evidence(&self.findings.evidence)),
        }
    }

    /// What belongs to no storm, by cause.
    fn rest(&self) -> String {
        let causes = self.findings.rest.iter();
        let causes = causes
            .map(|part| format!("{} {}", part.count.cause.name(), count(part.count.metadata_ops)));
        causes.collect::<Vec<_>>().join(", ")
    }

    /// The storms, what belongs to none, and all of it.
    fn table(&self) -> Table {
        let findings = &self.findings;
        let totals = &findings.totals;
        let mut table = Table::new([
            Column::text("storm"),
            Column::number("ops"),
            Column::number("failed"),
            Column::number("share"),
            Column::number("1 rank").spare(),
            Column::number(&counted(findings.model.ranks, "rank", "ranks")).spare(),
            Column::number("time").spare(),
        ]);
        let of = |wait: &PredictedWait| match findings.predicted_wait {
            Some(_) => [seconds(wait.one_rank), seconds(wait.all_ranks)],
            None => ["-", "-"].map(str::to_owned),
        };
        for storm in &findings.storms {
            let [one, all] = of(&storm.predicted_wait);
            table.row([
                storm.storm.name().to_owned(),
                count(storm.metadata_ops),
                count(storm.enoent),
                percent(storm.metadata_ops, totals.metadata_ops),
                one,
                all,
                time(storm.time_ns),
            ]);
        }
        let rest: u64 = findings.rest.iter().map(|part| part.count.metadata_ops).sum();
        if rest > 0 {
            let enoent = findings.rest.iter().map(|part| part.count.enoent).sum();
            let share = percent(rest, totals.metadata_ops);
            table.row(["other".to_owned(), count(rest), count(enoent), share]);
        }
        let [one, all] = of(&findings.predicted_wait.unwrap_or_default());
        table.total([
            "total".to_owned(),
            count(totals.metadata_ops),
            count(totals.enoent),
            "100 %".to_owned(),
            one,
            all,
        ]);
        table
    }

    /// The command that shows this evidence: it needs a recording that is kept.
    fn evidence(&self, shown_by: &str) -> String {
        if self.recording.is_some() {
            return shown_by.to_owned();
        }
        let words = shell_line(&self.findings.command);
        format!("becalm record -o start.becalm -- {words}; {shown_by}")
    }

    /// What the predicted wait is of.
    fn about_wait(&self, columns: usize) -> String {
        let Findings { model, predicted_wait, .. } = &self.findings;
        let Some(predicted_wait) = predicted_wait else { return String::new() };
        let text = format!("{}; --profile names another.", wait_sentence(model, predicted_wait));
        let text = width::wrap(&text, columns);
        style::paint(style::HEADER, text.trim_end()) + "\n"
    }
}

/// One storm: its sources, and what to do.
fn block(storm: &Finding, cures: &StormCures, room: &StormRoom, columns: usize) -> String {
    let inferred = if storm.inferred * 2 > storm.metadata_ops { " (inferred)" } else { "" };
    let title = format!("{}{inferred}: {}", storm.storm.name(), storm.title);
    let title = width::wrap(&shorten_words(&title), columns);
    let mut text = style::paint(style::HEADLINE, title.trim_end()) + "\n";
    for source in storm.sources.iter().take(room.sources) {
        let sentence = source.sentence(storm.metadata_ops);
        text.push_str(&indented(&shorten_words(&sentence), 2, 4, columns));
    }
    for (step, command) in cures.steps().take(room.steps) {
        text.push_str(&indented(&format!("→ {}", plain(step)), 2, 4, columns));
        if let Some(command) = command {
            text.push_str(&format!("    {}\n", style::paint(style::COMMAND, &plain(command))));
        }
    }
    text
}

/// Text wrapped to `columns`, its first line indented by `first`, the others by `rest`.
fn indented(text: &str, first: usize, rest: usize, columns: usize) -> String {
    let lines = width::wrap(text, columns.saturating_sub(rest).max(20));
    let mut indented = String::new();
    for (at, line) in lines.lines().enumerate() {
        let by = if at == 0 { first } else { rest };
        indented.extend(std::iter::repeat_n(' ', by));
        indented.push_str(line);
        indented.push('\n');
    }
    indented
}

fn shorten_words(text: &str) -> String {
    let words = text.split(' ').map(|word| width::shorten(&plain(word), WORD));
    words.collect::<Vec<_>>().join(" ")
}
