//! The same program run over and over by a script: builtins, or an edit of the line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use explain::{Finding, ForkSource, STARTS, SourcePath, Storm, StormSource};
use recording::{Name, Recording};
use script::lines::advice::Advice;
use script::lines::{ScriptLine, ScriptLines};
use term::number::count;

use crate::cure::{CloserLook, Cure, CureActor, CureChange, StormCures};
use crate::inside;
use crate::machine::Machine;

/// The most lines, and the most edits.
const LINES: usize = 5;

pub(crate) fn cures(recording: &Recording, finding: &Finding, machine: &Machine) -> StormCures {
    let has_lines =
        |source: &StormSource| matches!(source, StormSource::Fork(ForkSource::Line { .. }));
    let has_lines = finding.sources.iter().any(has_lines);
    let mut cures: Vec<_> = builtins(recording, machine).into_iter().collect();
    if has_lines {
        cures.extend(edits(recording));
    }
    let look = recording.header.command_line().filter(|_| has_lines).map(|line| CloserLook {
        storm: Storm::Fork,
        text: "See which line forks what, at which cost".to_owned(),
        command: Some(format!("becalm fork lines -- {line}")),
    });
    StormCures { cures, looks: look.into_iter().collect() }
}

/// The script stays as it is, where bash does in its own process what makes the storm.
fn builtins(recording: &Recording, machine: &Machine) -> Option<Cure> {
    let line = recording.header.command_line()?;
    let processes = inside::processes(recording, machine);
    (processes >= STARTS).then(|| Cure {
        storm: Storm::Fork,
        text: format!(
            "Have bash do itself what it runs {} programs for; the script stays as it is",
            count(processes)
        ),
        command: Some(format!("becalm run --builtins -- {line}")),
        actor: CureActor::Launcher,
        change: CureChange::RunBuiltins { processes },
        predicted: None,
    })
}

/// What to write in the lines, where that is known to the letter.
fn edits(recording: &Recording) -> Vec<Cure> {
    let mut lines = ScriptLines::of(recording).lines;
    lines.retain(|line| line.processes >= STARTS);
    lines.truncate(LINES);
    let all = lines.iter().flat_map(|line| line.advice.iter().map(move |one| (line, one)));
    all.filter_map(|(line, one)| edit(line, one)).take(LINES).collect()
}

fn edit(line: &ScriptLine, advice: &Advice) -> Option<Cure> {
    let (instead_of, write) = (advice.instead_of.clone()?, advice.write.clone()?);
    let file = line.file.as_deref().unwrap_or(&line.runs);
    let file = file.rsplit('/').next().unwrap_or(file);
    let path = line.raw_file.as_deref();
    Some(Cure {
        storm: Storm::Fork,
        text: format!("In {file}:{}: write `{write}` instead of `{instead_of}`", line.line),
        command: None,
        actor: CureActor::Author,
        change: CureChange::EditLine {
            file: path.map(|path| SourcePath { id: None, name: Name::of(OsStr::from_bytes(path)) }),
            line: line.line,
            instead_of,
            write,
        },
        predicted: None,
    })
}
