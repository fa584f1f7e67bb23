//! The same program started over and over by the same parent.
//!
//! The parent is a program, not a process: a subshell that forks is the script that forks.
//! Only starts that ended within a second count: a program that runs longer was worth its
//! start, and 64 workers are no storm.

use std::collections::BTreeMap;

use recording::{Micros, Nanos, Process, ProcessId, Recording};

use script::lines::advice::Advice;
use script::lines::{Line, Lines, Program};

use super::{Case, advice, command, culprit};
use crate::findings::{Culprit, Step, Storm};
use crate::survey::{AskId, Survey};
use crate::threshold::STARTS;
use crate::who;
use crate::words::{count, listed, percent, questions};

/// A start that lived longer was no tiny one.
const TINY: Nanos = Nanos(1_000_000_000);

pub(super) fn detect(survey: &Survey) -> Option<Case> {
    let family = Family::of(survey.recording);
    let claim: Vec<_> = survey
        .free()
        .filter(|(_, ask)| family.storm_of(ask.process()).is_some())
        .map(|(id, _)| id)
        .collect();
    family.storms.first()?;
    let lines = lines(survey.recording);
    Some(Case {
        storm: Storm::Fork,
        title: title(&family.storms),
        cause: "each start costs a fork, an execve, the loader and the locale, before the \
                program does its work"
            .to_owned(),
        observed: "every start is observed; all that a started program asked is counted here, \
                   because it would not ask it if it were not started"
            .to_owned(),
        avoidable: claim.len() as u64,
        guessed: Some(0),
        time: Some(family.lived),
        culprits: culprits(survey, &family, &claim, &lines),
        next: next(survey, &lines),
        evidence: "process".to_owned(),
        claim,
    })
}

/// Who started what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    parent: String,
    /// None where the child executed nothing: a subshell.
    child: Option<String>,
}

impl Pair {
    fn child(&self) -> &str {
        self.child.as_deref().unwrap_or("a subshell")
    }
}

/// All starts of a pair.
struct Starts {
    pair: Pair,
    count: u64,
    cpu: Micros,
}

/// Which processes belong to which storm.
struct Family {
    /// The pairs with enough starts, most first.
    storms: Vec<Starts>,
    /// Of each process, the innermost storm that it belongs to: an index of `storms`.
    innermost: Vec<Option<usize>>,
    /// How long the outermost starts lived, summed.
    lived: Nanos,
}

impl Family {
    fn of(recording: &Recording) -> Family {
        let own: Vec<_> =
            recording.processes.iter().map(|process| start(recording, process)).collect();
        let mut counts: BTreeMap<&Pair, u64> = BTreeMap::new();
        for pair in own.iter().flatten() {
            *counts.entry(pair).or_default() += 1;
        }
        let mut storms: Vec<_> = counts
            .into_iter()
            .filter(|(_, count)| *count >= STARTS)
            .map(|(pair, count)| Starts { pair: pair.clone(), count, cpu: Micros(0) })
            .collect();
        storms.sort_by_key(|starts| std::cmp::Reverse(starts.count));
        let numbers: BTreeMap<Pair, usize> =
            storms.iter().enumerate().map(|(at, starts)| (starts.pair.clone(), at)).collect();
        let mut family = Family { storms, innermost: Vec::new(), lived: Nanos(0) };
        for (process, pair) in recording.processes.iter().zip(&own) {
            family.join(process, pair.as_ref().and_then(|pair| numbers.get(pair).copied()));
        }
        family
    }

    /// Puts a process into its storm: its own, else its parent's.
    fn join(&mut self, process: &Process, own: Option<usize>) {
        let above = process.parent.and_then(|parent| self.storm_of(parent));
        let innermost = own.or(above);
        self.innermost.push(innermost);
        if above.is_none() && own.is_some() {
            self.lived += lived(process);
        }
        if let (Some(storm), Some(end)) = (innermost, process.end) {
            self.storms[storm].cpu.0 += end.usage.user.0 + end.usage.system.0;
        }
    }

    fn storm_of(&self, process: ProcessId) -> Option<usize> {
        self.innermost.get(process.0 as usize).copied().flatten()
    }
}

/// Who started a process as what, if it was a tiny start.
fn start(recording: &Recording, process: &Process) -> Option<Pair> {
    process.end?;
    if lived(process) > TINY {
        return None;
    }
    let parent = recording.program(process.parent?, process.started)?;
    Some(Pair {
        parent: who::full_name(recording, parent),
        child: process.execs.first().map(|exec| who::name(recording, exec)),
    })
}

fn lived(process: &Process) -> Nanos {
    let end = process.end.map_or(process.started, |end| end.at);
    Nanos(end.0.saturating_sub(process.started.0))
}

fn title(storms: &[Starts]) -> String {
    let starts = count(storms.iter().map(|storm| storm.count).sum());
    let mut names: Vec<String> = Vec::new();
    for storm in storms {
        if !names.iter().any(|name| name == storm.pair.child()) {
            names.push(storm.pair.child().to_owned());
        }
    }
    if let ([storm], [name]) = (storms, &names[..]) {
        return format!("{name} was started {starts} times by {}", storm.pair.parent);
    }
    if names.len() > 3 {
        let more = names.len() - 2;
        names.truncate(2);
        names.push(format!("{more} other programs"));
    }
    format!("{} were started {starts} times", listed(&names))
}

fn culprits(survey: &Survey, family: &Family, claim: &[AskId], lines: &[Line]) -> Vec<Culprit> {
    let mut operations = vec![0u64; family.storms.len()];
    for id in claim {
        if let Some(storm) = family.storm_of(survey.asks[*id].process()) {
            operations[storm] += 1;
        }
    }
    let most = family.storms.iter().zip(operations).take(5).map(|(storm, asked)| {
        let text = format!(
            "{} started {} {} times: {:.2} s of CPU, {} a start",
            storm.pair.parent,
            storm.pair.child(),
            count(storm.count),
            storm.cpu.seconds(),
            questions(asked / storm.count.max(1)),
        );
        let numbers = [("starts", storm.count), ("cpu_us", storm.cpu.0), ("operations", asked)];
        culprit("program", storm.pair.child(), text, &numbers)
    });
    let mut culprits: Vec<_> = most.collect();
    let second = culprits.len().min(1);
    culprits.splice(second..second, lines.iter().map(of_line));
    let causes = survey.causes(claim.iter().copied());
    if !causes.is_empty() {
        let parts: Vec<_> = causes
            .iter()
            .take(3)
            .map(|part| {
                format!("{} {}", percent(part.operations, claim.len() as u64), part.cause.name())
            })
            .collect();
        let text = format!("what the starts asked: {}", parts.join(", "));
        let numbers: Vec<_> =
            causes.iter().map(|part| (part.cause.name(), part.operations)).collect();
        culprits.push(culprit("causes", "causes", text, &numbers));
    }
    culprits
}

fn next(survey: &Survey, lines: &[Line]) -> Vec<Step> {
    without_an_edit(survey).into_iter().chain(edits(lines)).chain(by_line(survey, lines)).collect()
}

/// The script stays as it is, where bash does in its own process what makes the storm.
fn without_an_edit(survey: &Survey) -> Option<Step> {
    let line = survey.command_line()?;
    let inside = super::inside::starts(survey.recording, &survey.machine);
    (inside >= STARTS).then(|| {
        command(
            format!(
                "Have bash do itself what it starts {} programs for; the script stays as it is",
                count(inside),
            ),
            format!("becalm run --builtins -- {line}"),
        )
    })
}

/// Where the lines are, whole.
fn by_line(survey: &Survey, lines: &[Line]) -> Option<Step> {
    let line = survey.command_line().filter(|_| !lines.is_empty())?;
    let text = "See which line starts what, at which cost";
    Some(command(text, format!("becalm fork lines -- {line}")))
}

/// The lines that start enough to be a storm.
fn lines(recording: &Recording) -> Vec<Line> {
    let mut lines = Lines::of(recording).lines;
    lines.retain(|line| line.processes >= STARTS);
    lines.truncate(5);
    lines
}

/// `unpack.sh:12`.
fn place(line: &Line) -> String {
    let file = line.file.as_deref().unwrap_or(&line.runs);
    format!("{}:{}", file.rsplit('/').next().unwrap_or(file), line.line)
}

fn programs(line: &Line) -> String {
    let name = |program: &Program| program.name.clone().unwrap_or_else(|| "a subshell".to_owned());
    listed(&line.programs.iter().take(3).map(name).collect::<Vec<_>>())
}

/// What a line started, as a culprit.
fn of_line(line: &Line) -> Culprit {
    let text = format!(
        "{} started {} processes ({}): {:.2} s of CPU",
        place(line),
        count(line.processes),
        programs(line),
        Micros(line.user.0.saturating_add(line.system.0)).seconds(),
    );
    let numbers = [
        ("line", u64::from(line.line)),
        ("starts", line.processes),
        ("cpu_us", line.user.0.saturating_add(line.system.0)),
        ("parent_rss_bytes", line.parent_rss.0),
    ];
    let file = line.file.as_deref().unwrap_or(&line.runs);
    culprit("line", format!("{file}:{}", line.line), text, &numbers)
}

/// What to write in the lines, where that is known to the letter.
fn edits(lines: &[Line]) -> Vec<Step> {
    let edit = |line: &Line, one: &Advice| {
        let (of, write) = (one.instead_of.as_ref()?, one.write.as_ref()?);
        Some(advice(format!("In {}: write `{write}` instead of `{of}`", place(line))))
    };
    let all = lines.iter().flat_map(|line| line.advice.iter().map(move |one| (line, one)));
    all.filter_map(|(line, one)| edit(line, one)).take(5).collect()
}
