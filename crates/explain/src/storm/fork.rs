//! The same program started over and over by the same parent.
//!
//! The parent is a program, not a process: a subshell that forks is the script that forks.
//! Only starts that ended within a second count: a program that runs longer was worth its
//! start, and 64 workers are no storm.

use std::collections::BTreeMap;

use recording::{Bytes, Cause, Micros, Nanos, Process, ProcessId, Recording};

use fork::builtins;
use fork::lines::{Line, Lines, Program, advice};

use super::{Case, advice as step, command, culprit};
use crate::findings::{Culprit, Step, Storm};
use crate::survey::{AskId, Survey};
use crate::threshold::STARTS;
use crate::who;
use crate::words::{count, listed, percent, questions};

/// A shell of this size takes longer to copy than a small program to run: a huge page of its heap
/// costs its fork one entry instead of 512.
const LARGE: Bytes = Bytes(64 << 20);

/// A start that lived longer was no tiny one.
const TINY: Nanos = Nanos(1_000_000_000);

pub(super) fn detect(survey: &Survey) -> Option<Case> {
    let family = Family::of(survey.recording);
    let claim: Vec<_> = survey
        .free()
        .filter(|(_, ask)| family.storm_of(ask.process()).is_some())
        .map(|(id, _)| id)
        .collect();
    let parent = &family.storms.first()?.pair.parent;
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
        next: next(survey, parent, &family.storms, &claim, &lines),
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

fn next(
    survey: &Survey,
    parent: &str,
    storms: &[Starts],
    claim: &[AskId],
    lines: &[Line],
) -> Vec<Step> {
    let mut steps: Vec<_> =
        without_an_edit(survey, lines).into_iter().chain(edits(lines)).collect();
    for Starts { pair, .. } in storms.iter().take(5) {
        let cure = pair.child.as_deref().map_or(advice::SUBSHELL, cure);
        if !steps.iter().any(|step| step.text.ends_with(cure)) {
            steps.push(step(format!("In {}, for {}: {cure}", pair.parent, pair.child())));
        }
    }
    let locale = survey
        .causes(claim.iter().copied())
        .into_iter()
        .find(|part| part.cause == Cause::Locale)
        .map_or(0, |part| part.operations);
    if locale * 5 >= claim.len() as u64 && locale > 0 {
        steps.push(command(
            format!(
                "Where the language of messages does not matter, set the C locale at the top of \
                 {parent}: {} of the questions are for the locale",
                percent(locale, claim.len() as u64)
            ),
            "export LC_ALL=C",
        ));
    }
    steps
}

/// The script stays as it is, where bash starts what `becalm run --builtins` knows.
fn without_an_edit(survey: &Survey, lines: &[Line]) -> Option<Step> {
    let is_known = |program: &Program| program.name.as_deref().is_some_and(builtins::knows);
    let mut of_bash = lines.iter().filter(|line| line.runs == "bash");
    if !of_bash.any(|line| line.programs.iter().any(is_known)) {
        return None;
    }
    let is_large = lines.iter().any(|line| line.parent_rss >= LARGE);
    let hugepages = if is_large { "--hugepages " } else { "" };
    Some(command(
        "Have bash do in its own process what it can, and start the others without copying itself; \
         the script stays as it is",
        format!("becalm run --builtins {hugepages}-- {}", survey.command_line()?),
    ))
}

/// What does the same without a process.
fn cure(program: &str) -> &'static str {
    advice::instead(program, true)
        .unwrap_or("start it once for all its inputs, or do its work in the script itself")
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
    let edit = |line: &Line, one: &advice::Advice| {
        let (of, write) = (one.instead_of.as_ref()?, one.write.as_ref()?);
        Some(step(format!("In {}: write `{write}` instead of `{of}`", place(line))))
    };
    let all = lines.iter().flat_map(|line| line.advice.iter().map(move |one| (line, one)));
    all.filter_map(|(line, one)| edit(line, one)).take(5).collect()
}
