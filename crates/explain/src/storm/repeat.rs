//! The same path looked up again and again: by one process, or by a hundred.

use std::collections::{HashMap, HashSet};

use recording::{Cause, Kind, PathId, ProcessId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::repeat_reason::RepeatReason;
use super::{DetectedStorm, Storm, StormSource};
use crate::source_path::SourcePath;
use crate::survey::{MetadataOp, OpId, OpSurvey, ProgramId};
use crate::tally::OpTally;
use crate::words::{count, counted};

/// Fewer are a program that looks twice.
const TIMES: usize = 10;
/// So many processes that look once each repeat it, too.
const PROCESSES: usize = 100;

/// What is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RepeatSource {
    /// One path.
    RepeatedPath {
        /// The path, without `..`.
        path: SourcePath,
        /// Which operations: `stat`, `open`…; none where they are of several kinds.
        operation: Option<Kind>,
        /// The program that repeats them most.
        program: String,
        /// How many processes.
        #[serde(default)]
        processes: u64,
        /// Why, where the recording tells.
        #[serde(default)]
        reason: Option<RepeatReason>,
        /// The line of a script that started most of the processes: `/a/run.sh:12`.
        #[serde(default)]
        line: Option<String>,
        /// Metadata operations on it.
        metadata_ops: u64,
        /// Of those, failed lookups.
        enoent: u64,
    },
}

impl RepeatSource {
    pub(super) fn sentence(&self) -> String {
        let RepeatSource::RepeatedPath {
            path,
            operation,
            program,
            processes,
            reason,
            line,
            metadata_ops,
            ..
        } = self;
        let processes = match processes {
            0 | 1 => String::new(),
            processes => format!(", in {} processes", count(*processes)),
        };
        let line = line.as_ref().map(|line| format!(", started by {line}"));
        let reason = reason.as_ref().map(|reason| format!(": {}", reason.sentence()));
        format!(
            "{path} was {} {} by {program}{processes}{}{}",
            operation.map_or("looked up", past_tense),
            counted(*metadata_ops, "time", "times"),
            line.unwrap_or_default(),
            reason.unwrap_or_default(),
        )
    }
}

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let repeats = Repeats::find(survey);
    if repeats.avoidable == 0 {
        return None;
    }
    let all = repeats.claim.len() as u64;
    let (worst, most) = repeats.paths.top()?;
    let title = if most.ops * 2 > all {
        format!("{} was looked up {} times", survey.shown_path(worst), count(most.ops))
    } else {
        let paths = counted(repeats.paths.len(), "path", "paths");
        format!("the same {paths} were looked up {} times", count(all))
    };
    Some(DetectedStorm {
        storm: Storm::Repeat,
        title,
        cause:
            "a process looks up again what it or another has looked up before; a client serves it \
                from its cache, until the cache expires or the file is shared for writing"
                .to_owned(),
        observed: format!(
            "paths that one process looked up {TIMES} times or more, or {PROCESSES} processes"
        ),
        avoidable: repeats.avoidable,
        inferred: Some(0),
        time: None,
        sources: repeats.sources(survey).into_iter().map(StormSource::Repeat).collect(),
        evidence: "prefix",
        claim: repeats.claim,
    })
}

#[derive(Default)]
struct Repeats {
    claim: Vec<OpId>,
    /// All but the first of each process and path.
    avoidable: u64,
    paths: OpTally<PathId>,
    kinds: OpTally<Kind>,
    programs: HashMap<PathId, OpTally<ProgramId>>,
    /// The operations on each path, and the processes that made them.
    ops: HashMap<PathId, Vec<OpId>>,
    processes: HashMap<PathId, HashSet<ProcessId>>,
}

impl Repeats {
    fn find(survey: &OpSurvey) -> Repeats {
        let mut groups: HashMap<(ProcessId, PathId), Vec<OpId>> = HashMap::new();
        for (id, op) in survey.free().filter(|(_, op)| can_repeat(op)) {
            if let Some(path) = op.path_id {
                groups.entry((op.process(), path)).or_default().push(id);
            }
        }
        let mut repeats = Repeats::default();
        let mut of_path: HashMap<PathId, usize> = HashMap::new();
        groups.keys().for_each(|(_, path)| *of_path.entry(*path).or_default() += 1);
        for ((process, path), ops) in groups {
            let is_of_many = of_path[&path] >= PROCESSES;
            if ops.len() < TIMES && !is_of_many {
                continue;
            }
            repeats.avoidable += ops.len() as u64;
            // The first one is needed: of each process, or of all.
            repeats.avoidable -= u64::from(!is_of_many || !repeats.ops.contains_key(&path));
            repeats.processes.entry(path).or_default().insert(process);
            repeats.ops.entry(path).or_default().extend(&ops);
            for op in ops.iter().map(|id| survey.op(*id)) {
                let failed = op.is_enoent();
                repeats.paths.add(path, failed);
                repeats.kinds.add(op.kind, failed);
                repeats.programs.entry(path).or_default().add(op.program, failed);
            }
            repeats.claim.extend(ops);
        }
        repeats.claim.sort_unstable();
        repeats
    }

    fn sources(&self, survey: &OpSurvey) -> Vec<RepeatSource> {
        let kinds: HashSet<_> = self.kinds.by_ops().into_iter().map(|(kind, _)| kind).collect();
        let operation = kinds.iter().next().copied().filter(|_| kinds.len() == 1);
        let worst = self.paths.by_ops().into_iter().take(4);
        worst
            .map(|(path, counted)| RepeatSource::RepeatedPath {
                path: survey.source_clean_path(path),
                operation,
                program: self.program_of(survey, path).to_owned(),
                processes: self.processes[&path].len() as u64,
                reason: RepeatReason::of(survey, &self.ops[&path]),
                line: self.line_of(survey, path),
                metadata_ops: counted.ops,
                enoent: counted.failed,
            })
            .collect()
    }

    /// What line started most of those that looked a path up.
    fn line_of(&self, survey: &OpSurvey, path: PathId) -> Option<String> {
        let recording = survey.recording;
        let mut lines: OpTally<Option<String>> = OpTally::default();
        for process in &self.processes[&path] {
            let line = recording.line_of(*process).map(|frame| recording.shown_line(frame));
            lines.add(line, false);
        }
        lines.top()?.0
    }

    /// Who looked a path up most.
    fn program_of<'s>(&self, survey: &'s OpSurvey, path: PathId) -> &'s str {
        let top = self.programs.get(&path).and_then(OpTally::top);
        top.map_or("a process", |(program, _)| survey.full_name(program))
    }
}

/// What the loader, the C library's locale and Python's importer repeat is theirs to explain,
/// even where it is no storm.
fn can_repeat(op: &MetadataOp) -> bool {
    let is_theirs = matches!(
        op.why.cause,
        Cause::LoaderStart | Cause::LoaderDlopen | Cause::Locale | Cause::PythonImport
    );
    !is_theirs
        && matches!(op.kind, Kind::Open | Kind::Stat | Kind::Access | Kind::Readlink | Kind::Statfs)
}

fn past_tense(kind: Kind) -> &'static str {
    match kind {
        Kind::Open => "opened",
        Kind::Stat => "looked up for its attributes (stat)",
        Kind::Access => "looked up for its permissions (access)",
        Kind::Readlink => "looked up for its target (readlink)",
        _ => "looked up",
    }
}
