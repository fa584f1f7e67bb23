//! `becalm check`: what was found, on one screen.

mod pictured_cures;
mod rehearsed_run;
#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test: what fails, fails it.
mod screen_tests;
mod waits;

use std::path::Path;

use cure::{CloserLook, Cure, CurePlan, CurePrediction, RefusedCure};
use explain::{Finding, Findings, StartVerdict};
use recording::{Name, Recording, shown_name};
use schemars::JsonSchema;
use script::builtins::CountedStarts;
use serde::Serialize;

use super::budget::{BudgetAnswer, StartCounts};
use crate::predicted_wait::{model_sentence, seconds};
use crate::{again, counted_starts};
use term::number::count;
use term::{plain, shell_line, style, width};

pub use rehearsed_run::RehearsedRun;

/// What `becalm check` answers: as JSON, docs/schema/becalm.check.md; as text,
/// [`CheckAnswer::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckAnswer {
    /// `becalm.check/1`.
    pub schema: &'static str,
    /// The recording's file, as text; none where it was not kept.
    pub recording: Option<String>,
    /// Whether the recording is nowhere, not even the last one.
    #[serde(skip)]
    pub is_lost: bool,
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
    /// How it stands to its budget; none where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetAnswer>,
    /// What another start can be compared with it by; none where nobody reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<StartCounts>,
    /// Which starts of programs were avoided; none where it was no `becalm run --builtins`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builtins: Option<CountedStarts>,
    /// Those of the cures that `becalm fix` applies.
    #[serde(skip)]
    chosen: Vec<Cure>,
    /// The start before and after these.
    #[serde(skip)]
    predicted: Option<CurePrediction>,
}

/// A word that is longer is cut in the middle: paths in sentences.
const WORD: usize = 44;

/// How much of each storm is shown: with more of them, less of each.
struct StormRoom {
    sources: usize,
    cures: usize,
}

impl StormRoom {
    fn of(storms: usize, at: usize) -> StormRoom {
        match (storms, at) {
            (1, _) => StormRoom { sources: 3, cures: 2 },
            (2, _) | (_, 0) => StormRoom { sources: 2, cures: 1 },
            _ => StormRoom { sources: 1, cures: 1 },
        }
    }
}

impl CheckAnswer {
    /// Findings of a recording that is kept in a file, or not.
    pub fn of(
        recording: &Recording,
        file: Option<&Path>,
        findings: Findings,
        plan: CurePlan,
    ) -> CheckAnswer {
        let header = &recording.header;
        let all = || plan.storms.iter().map(|(_, all)| all);
        CheckAnswer {
            schema: "becalm.check/1",
            recording: file.map(shown_name),
            is_lost: false,
            rank: None,
            host: header.host.clone(),
            kernel: header.kernel.clone(),
            rehearsed: None,
            findings,
            cures: all().flat_map(|all| all.cures.clone()).collect(),
            looks: all().flat_map(|all| all.looks.clone()).collect(),
            not_chosen: all().flat_map(|all| all.not_chosen.clone()).collect(),
            budget: None,
            counts: None,
            builtins: None,
            chosen: plan.chosen,
            predicted: plan.predicted,
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide save for commands to
    /// paste: the verdict, what must be known first, the wait, why, and what to do.
    pub fn render(&self, columns: usize) -> String {
        let findings = &self.findings;
        let mut text = self.headline(columns);
        if let Some(rehearsed) = &self.rehearsed {
            let wall = findings.totals.wall_ns;
            text.push_str(&width::wrap(&rehearsed.sentence(wall), columns));
        }
        for warning in &findings.warnings {
            let line = indented(&format!("! {}", warning.text), 0, 2, columns);
            text.push_str(&style::paint(style::WARNING, line.trim_end()));
            text.push('\n');
        }
        match findings.verdict {
            StartVerdict::SlowStart => text.push_str(&self.storms(columns)),
            StartVerdict::Calm => text.push_str(&self.calm(columns)),
            StartVerdict::NoStorm | StartVerdict::NotKnown => {
                text.push_str(&self.without_storm(columns));
            }
        }
        if let Some(budget) = &self.budget {
            text.push_str(&budget.render(columns));
        }
        if let Some(builtins) = &self.builtins {
            let sentence = format!("With --builtins, {}.", counted_starts::words(builtins));
            text.push('\n');
            text.push_str(&width::wrap(&sentence, columns));
        }
        text
    }

    /// The verdict, and what was counted.
    fn headline(&self, columns: usize) -> String {
        let verdict = self.findings.verdict;
        let paint = match verdict {
            StartVerdict::SlowStart => style::SLOW,
            StartVerdict::Calm => style::CALM,
            StartVerdict::NoStorm | StartVerdict::NotKnown => style::UNDECIDED,
        };
        let text = format!("{}  {}", verdict.name(), shorten_words(&self.findings.headline));
        let text = width::wrap(&text, columns);
        let rest = text.strip_prefix(verdict.name()).unwrap_or_default();
        let rest = style::paint(style::HEADLINE, rest.trim_end());
        format!("{}{rest}\n", style::paint(paint, verdict.name()))
    }

    /// The storms: how long each is waited for, why, what to do, and where to look.
    fn storms(&self, columns: usize) -> String {
        let storms = &self.findings.storms;
        let mut text = format!("\n{}", waits::table(&self.findings, columns));
        let rest: u64 = self.findings.rest.iter().map(|part| part.count.metadata_ops).sum();
        if rest * 2 > self.findings.totals.metadata_ops {
            text.push_str(&indented(&format!("other is {}", self.rest()), 2, 4, columns));
        }
        text.push('\n');
        let room = |at| StormRoom::of(storms.len(), at);
        let each = || storms.iter().enumerate();
        let why = each().map(|(at, storm)| why(storm, &room(at), columns)).collect::<String>();
        text.push_str(&labelled("Why", &why));
        let others = each().map(|(at, storm)| self.other_cures(storm, &room(at), columns));
        let fix = self.fix(columns) + &others.collect::<String>();
        text.push_str(&labelled("Fix", &fix));
        text.push_str(&labelled("More", &self.more(columns)));
        text + &self.about_wait(columns)
    }

    /// What `becalm fix` does, and what the start then is.
    fn fix(&self, columns: usize) -> String {
        let Some(predicted) = &self.predicted else { return String::new() };
        let line = format!("becalm fix -- {}", shell_line(&self.findings.command));
        let profile = &self.findings.model.profile;
        let after = format!("{}; can be undone", gain(predicted, profile));
        let mut text = command(&line) + &indented(&after, LABEL + 2, LABEL + 2, columns);
        for cure in &self.chosen {
            text.push_str(&indented(&plain(&cure.text), LABEL + 2, LABEL + 4, columns));
            text.push_str(&risk(cure, columns));
        }
        text
    }

    /// What calms a storm that `becalm fix` does not; where nothing does, why not what one may think
    /// of.
    fn other_cures(&self, storm: &Finding, room: &StormRoom, columns: usize) -> String {
        let own = |cure: &&Cure| cure.storm == storm.storm;
        let is_chosen = |cure: &Cure| self.chosen.iter().any(|known| known.change == cure.change);
        let told = |cure: &Cure| {
            let profile = &self.findings.model.profile;
            let told = format!("{}: {}", plain(&cure.text), gain(&cure.predicted, profile));
            step(&told, cure.command.as_deref(), columns) + &risk(cure, columns)
        };
        if self.cures.iter().filter(own).any(is_chosen) {
            let further = self.cures.iter().filter(own).filter(|cure| cure.goes_further());
            return further.map(told).collect();
        }
        let cures = self.cures.iter().filter(own).take(room.cures);
        let cures: String = cures.map(told).collect();
        let refused = self.not_chosen.iter().filter(|refused| refused.storm == storm.storm);
        let name = if self.findings.storms.len() > 1 { storm.storm.name() } else { "" };
        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
        let refused = refused.take(room.cures).map(|refused| {
            let told = format!("{name}not: {} ({})", plain(&refused.text), plain(&refused.why));
            indented(&told, LABEL, LABEL + 2, columns)
        });
        let refused: String = refused.collect();
        match (cures.is_empty(), refused.is_empty()) {
            (false, _) => cures,
            (true, false) => refused,
            (true, true) => {
                let told = format!("{name}nothing is known that is certain to help");
                indented(&told, LABEL, LABEL + 2, columns)
            }
        }
    }

    /// Where there is more to see: the recording, and what shows more of a storm without a cure, or
    /// of the only one.
    fn more(&self, columns: usize) -> String {
        let storms = &self.findings.storms;
        let mut text = command(&self.evidence(&storms[0].evidence));
        let has_cure = |look: &CloserLook| self.cures.iter().any(|cure| cure.storm == look.storm);
        let looks = self.looks.iter().filter(|look| storms.len() == 1 || !has_cure(look));
        for look in looks.take(2) {
            text.push_str(&step(&look.text, look.command.as_deref(), columns));
        }
        text
    }

    /// A calm start: what is waited for all the same.
    fn calm(&self, columns: usize) -> String {
        let totals = &self.findings.totals;
        let mut text = waits::sentence(&self.findings);
        if totals.in_memory * 4 > totals.metadata_ops {
            text.push_str(&format!(
                "; {} of the operations are answered on the node: by an image, or from memory",
                count(totals.in_memory)
            ));
        }
        let mut text = width::wrap(&text, columns);
        let waits = self.findings.predicted_wait.map_or(0.0, |wait| wait.one_rank);
        if waits - self.findings.own_wait >= self.findings.threshold.avoidable_wait {
            text.push_str(&width::wrap(&format!("By cause: {}.", self.rest()), columns));
        }
        if let Some(directory) = &self.findings.left_out {
            text.push_str(&self.next_below(directory));
        }
        text
    }

    /// Where no storm explains what there is: the same with what was left out, or what it was asked
    /// for.
    fn without_storm(&self, columns: usize) -> String {
        let mut text = String::new();
        if !self.findings.rest.is_empty() {
            text.push_str(&width::wrap(&format!("By cause: {}.", self.rest()), columns));
        }
        text.push_str(&width::wrap(&self.findings.threshold.words, columns));
        text.push_str(&self.about_wait(columns));
        match &self.findings.left_out {
            Some(directory) => text.push_str(&self.next_below(directory)),
            None => text.push_str(&style::next(&self.evidence(&self.findings.evidence))),
        }
        text
    }

    /// The same, with what was left out.
    fn next_below(&self, directory: &Name) -> String {
        std::str::from_utf8(directory.bytes()).map_or_else(
            |_| String::new(),
            |directory| style::next(&again::with(1, &["--below", directory])),
        )
    }

    /// What belongs to no storm, by cause.
    fn rest(&self) -> String {
        let causes = self.findings.rest.iter();
        let causes = causes
            .map(|part| format!("{} {}", part.count.cause.name(), count(part.count.metadata_ops)));
        causes.collect::<Vec<_>>().join(", ")
    }

    /// The command that shows this evidence: it needs a recording that is kept.
    fn evidence(&self, shown_by: &str) -> String {
        if !self.is_lost {
            return shown_by.to_owned();
        }
        let words = shell_line(&self.findings.command);
        format!("becalm record -o start.becalm -- {words}; {shown_by}")
    }

    /// What the predicted wait is of.
    fn about_wait(&self, columns: usize) -> String {
        if self.findings.predicted_wait.is_none() {
            return String::new();
        }
        let text = format!("{}; --profile names another.", model_sentence(&self.findings.model));
        style::paint(style::HEADER, width::wrap(&text, columns).trim_end()) + "\n"
    }
}

/// What happened in one storm, and its sources.
fn why(storm: &Finding, room: &StormRoom, columns: usize) -> String {
    let inferred = if storm.inferred * 2 > storm.metadata_ops { " (inferred)" } else { "" };
    let name = if room.sources < 3 { format!("{}: ", storm.storm.name()) } else { String::new() };
    let title = shorten_words(&format!("{name}{}{inferred}", storm.title));
    let mut text = painted(style::HEADLINE, &indented(&title, LABEL, LABEL, columns));
    for source in storm.sources.iter().take(room.sources) {
        let sentence = source.sentence(storm.metadata_ops);
        text.push_str(&indented(&shorten_words(&sentence), LABEL + 2, LABEL + 4, columns));
    }
    text
}

/// A command to paste, and below it what it does; where there is none, that alone.
fn step(text: &str, command: Option<&str>, columns: usize) -> String {
    let text = plain(text);
    match command {
        Some(line) => self::command(line) + &indented(&text, LABEL + 2, LABEL + 2, columns),
        None => indented(&text, LABEL, LABEL + 2, columns),
    }
}

/// `5,737 → 153 operations, 1 rank on nfs 1.3 s → 30 ms`.
fn gain(predicted: &CurePrediction, profile: &str) -> String {
    let CurePrediction { before, after } = predicted;
    let operations =
        format!("{} → {} operations", count(before.metadata_ops), count(after.metadata_ops));
    match (before.wait, after.wait) {
        (Some(before), Some(after)) => format!(
            "{operations}, 1 rank on {} {} → {}",
            plain(profile),
            seconds(before.one_rank),
            seconds(after.one_rank)
        ),
        _ => operations,
    }
}

/// What could go wrong with a cure.
fn risk(cure: &Cure, columns: usize) -> String {
    let risk = cure.risk.as_ref().map(|risk| format!("risk: {}", plain(risk)));
    risk.map(|risk| indented(&risk, LABEL + 4, LABEL + 6, columns)).unwrap_or_default()
}

/// A command to paste: never wrapped or cut.
fn command(line: &str) -> String {
    format!("{}{}\n", " ".repeat(LABEL), style::paint(style::COMMAND, &plain(line)))
}

/// The column that what follows a label begins in.
const LABEL: usize = 6;

/// Lines that are indented by [`LABEL`], with a word before the first.
fn labelled(label: &str, lines: &str) -> String {
    match lines.strip_prefix(&" ".repeat(LABEL)) {
        Some(first) => format!("{}{first}", style::paint(style::LABEL, &format!("{label:LABEL$}"))),
        None => String::new(),
    }
}

/// Each line in a style, the spaces before it in none.
fn painted(style: anstyle::Style, lines: &str) -> String {
    let paint = |line: &str| {
        let text = line.trim_start();
        format!("{}{}\n", &line[..line.len() - text.len()], style::paint(style, text))
    };
    lines.lines().map(paint).collect()
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
