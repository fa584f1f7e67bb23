//! The same path asked for again and again by one process.

use std::collections::{HashMap, HashSet};

use recording::{Cause, Kind, PathId, ProcessId};

use super::{Case, command, culprit};
use crate::findings::{Culprit, Step, Storm};
use crate::survey::{Ask, AskId, ProgramId, Survey, split};
use crate::tally::Tally;
use crate::threshold::is_storm;
use crate::words::{count, counted};

/// Fewer are a program that looks twice.
const TIMES: usize = 10;

pub(super) fn detect(survey: &Survey) -> Option<Case> {
    let repeats = Repeats::find(survey);
    if !is_storm(repeats.avoidable, survey.total()) {
        return None;
    }
    let asked = repeats.claim.len() as u64;
    let (worst, most) = repeats.paths.top()?;
    let title = if most.asks * 2 > asked {
        format!("{} was asked for {} times", survey.shown_path(worst), count(most.asks))
    } else {
        let paths = counted(repeats.paths.len(), "path", "paths");
        format!("the same {paths} were asked for {} times", count(asked))
    };
    Some(Case {
        storm: Storm::Repeat,
        title,
        cause: "a process asks again what it was told before; a client answers from its cache, \
                until the cache expires or the file is shared for writing"
            .to_owned(),
        observed: format!("paths that one process asked for {TIMES} times or more"),
        avoidable: repeats.avoidable,
        guessed: Some(0),
        time: None,
        culprits: repeats.culprits(survey),
        next: repeats.next(survey).into_iter().collect(),
        evidence: "prefix".to_owned(),
        claim: repeats.claim,
    })
}

#[derive(Default)]
struct Repeats {
    claim: Vec<AskId>,
    /// All but the first of each process and path.
    avoidable: u64,
    paths: Tally<PathId>,
    kinds: Tally<Kind>,
    programs: HashMap<PathId, Tally<ProgramId>>,
}

impl Repeats {
    fn find(survey: &Survey) -> Repeats {
        let mut groups: HashMap<(ProcessId, PathId), Vec<AskId>> = HashMap::new();
        for (id, ask) in survey.free().filter(|(_, ask)| can_repeat(ask)) {
            if let Some(path) = ask.path_id {
                groups.entry((ask.process(), path)).or_default().push(id);
            }
        }
        let mut repeats = Repeats::default();
        for ((_, path), asks) in groups {
            if asks.len() < TIMES {
                continue;
            }
            repeats.avoidable += asks.len() as u64 - 1;
            for ask in asks.iter().map(|id| &survey.asks[*id]) {
                let missing = ask.is_missing();
                repeats.paths.add(path, missing);
                repeats.kinds.add(ask.kind, missing);
                repeats.programs.entry(path).or_default().add(ask.program, missing);
            }
            repeats.claim.extend(asks);
        }
        repeats.claim.sort_unstable();
        repeats
    }

    fn culprits(&self, survey: &Survey) -> Vec<Culprit> {
        let kinds: HashSet<_> = self.kinds.by_asks().into_iter().map(|(kind, _)| kind).collect();
        let kind = match kinds.len() {
            1 => self.kinds.top().map_or("asked for", |(kind, _)| asked_as(kind)),
            _ => "asked for",
        };
        let worst = self.paths.by_asks().into_iter().take(4).map(|(path, asked)| {
            let name = survey.shown_path(path);
            let text = format!(
                "{name} was {kind} {} by {}",
                counted(asked.asks, "time", "times"),
                self.program_of(survey, path)
            );
            let numbers = [("operations", asked.asks), ("missing", asked.missing)];
            culprit("path", name, text, &numbers)
        });
        worst.collect()
    }

    /// Who asked for a path most.
    fn program_of<'s>(&self, survey: &'s Survey, path: PathId) -> &'s str {
        let top = self.programs.get(&path).and_then(Tally::top);
        top.map_or("a process", |(program, _)| survey.full_name(program))
    }

    /// glibc's tzset(3), which localtime(3) and strftime(3) call, asks for the file anew each time,
    /// unless TZ names one.
    fn next(&self, survey: &Survey) -> Option<Step> {
        let asked = self
            .paths
            .by_asks()
            .into_iter()
            .find(|(path, _)| survey.path(*path) == b"/etc/localtime");
        let (_, asked) = asked.filter(|(_, asked)| asked.asks * 2 > self.claim.len() as u64)?;
        // Java reads TZ by rules of its own.
        let mut execs = survey.recording.processes.iter().flat_map(|process| &process.execs);
        let java = execs.any(|exec| split(survey.path(exec.image)).1 == b"java");
        let line = survey.command_line().filter(|_| !java)?;
        Some(command(
            format!(
                "Name the time zone: the C library then reads its file once, and not {} times",
                count(asked.asks)
            ),
            format!("TZ=:/etc/localtime {line}"),
        ))
    }
}

/// What the loader, the C library's locale and Python's importer repeat is theirs to explain,
/// even where it is no storm.
fn can_repeat(ask: &Ask) -> bool {
    let is_ours = match ask.why.cause {
        Cause::LoaderStart | Cause::LoaderDlopen | Cause::Locale => false,
        Cause::PythonImport => ask.is_nofollow() || ask.kind == Kind::Readlink,
        _ => true,
    };
    is_ours
        && matches!(
            ask.kind,
            Kind::Open | Kind::Stat | Kind::Access | Kind::Readlink | Kind::Statfs
        )
}

fn asked_as(kind: Kind) -> &'static str {
    match kind {
        Kind::Open => "opened",
        Kind::Stat => "asked for its attributes (stat)",
        Kind::Access => "asked for its permissions (access)",
        Kind::Readlink => "asked for its target (readlink)",
        _ => "asked for",
    }
}
