//! The same program run over and over by a script: builtins, or an edit of the line.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use explain::{Finding, ForkSource, STARTS, SourcePath, Storm, StormSource};
use recording::{Name, Process, Recording};
use script::lines::advice::Advice;
use script::lines::{ScriptLine, ScriptLines};
use term::number::count;

use crate::binding::base_name;
use crate::cure::{CloserLook, Cure, CureActor, CureChange, RefusedCure, StormCures};
use crate::inside::{self, InsideProcesses};
use crate::plan::PlanInput;
use crate::prediction::CureEffect;

/// The most lines, and the most edits.
const LINES: usize = 5;

pub(crate) fn cures(input: &PlanInput, finding: &Finding) -> StormCures {
    let has_lines =
        |source: &StormSource| matches!(source, StormSource::Fork(ForkSource::Line { .. }));
    let has_lines = finding.sources.iter().any(has_lines);
    // Which bash runs for `$(…)` and ( … ): they execute nothing that it could do itself.
    let is_program = |source: &StormSource| {
        matches!(source, StormSource::Fork(ForkSource::Forks { program: Some(_), .. }))
    };
    let mut all = StormCures::default();
    match builtins(input) {
        Ok(cure) => all.cures.push(cure),
        Err(_) if !finding.sources.iter().any(is_program) => all.not_chosen.push(RefusedCure {
            storm: Storm::Fork,
            text: "becalm run --builtins".to_owned(),
            why: "subshells, as of $(…), execute no program: only their lines can be changed"
                .to_owned(),
        }),
        Err(why) => all.not_chosen.push(RefusedCure {
            storm: Storm::Fork,
            text: "becalm run --builtins".to_owned(),
            why,
        }),
    }
    if has_lines {
        all.cures.extend(edits(input));
        all.looks.push(CloserLook {
            storm: Storm::Fork,
            text: "See which line forks what, at which cost".to_owned(),
            command: Some(format!("becalm fork lines -- {}", input.line)),
        });
    }
    all
}

/// The script stays as it is, where bash does in its own process what makes the storm. Or why not.
fn builtins(input: &PlanInput) -> Result<Cure, String> {
    let inside = InsideProcesses::of(input.recording);
    if inside.of_shells == 0 {
        return Err("no bash or dash runs them, or one that takes no library of ours".to_owned());
    }
    let processes = inside.processes.len() as u64;
    if processes < STARTS {
        return Err(too_few(&inside));
    }
    if !inside.are_taken(input.machine) {
        return Err("the shells of this machine do not take them (becalm doctor)".to_owned());
    }
    let effect = inside.effect(input.recording);
    let predicted = input.predictor.predict(&effect);
    if !predicted.is_worth_it() {
        return Err(predicted.too_little());
    }
    Ok(Cure {
        storm: Storm::Fork,
        text: format!(
            "Have {} do itself what it runs {}{} programs for; the script stays as it is",
            if inside.shells.len() == 1 {
                inside.shells.first().map_or("", |name| name)
            } else {
                "each shell"
            },
            if inside.uncertain > 0 { "up to " } else { "" },
            count(processes)
        ),
        command: Some(format!("becalm run --builtins -- {}", input.line)),
        actor: CureActor::You,
        owner: None,
        change: CureChange::RunBuiltins { processes },
        risk: None,
        predicted,
        effect,
    })
}

/// Why shells would do too little themselves.
fn too_few(inside: &InsideProcesses) -> String {
    let variables = inside.variables.iter().copied().collect::<Vec<_>>();
    if !variables.is_empty() {
        return format!(
            "{} exported: a shell then starts each program",
            match &variables[..] {
                [one] => format!("{one} is"),
                several => format!("{} are", several.join(", ")),
            }
        );
    }
    if inside.of_such > 0 {
        return "the shells have the builtins; what they start all the same stays".to_owned();
    }
    match inside.otherwise {
        0 => "the shell cannot do itself what these programs are run for".to_owned(),
        one => format!(
            "{} of these processes are programs that a shell does itself, but not with these options, or not \
             what a pipe brings",
            count(one)
        ),
    }
}

/// What to write in the lines, where that is known to the letter.
fn edits(input: &PlanInput) -> Vec<Cure> {
    let mut lines = ScriptLines::of(input.recording).lines;
    lines.retain(|line| line.processes >= STARTS);
    lines.truncate(LINES);
    let all = lines.iter().flat_map(|line| line.advice.iter().map(move |one| (line, one)));
    let edits = all.filter_map(|(line, one)| edit(input, line, one));
    edits.filter(|cure| cure.predicted.is_worth_it()).take(LINES).collect()
}

fn edit(input: &PlanInput, line: &ScriptLine, advice: &Advice) -> Option<Cure> {
    let (instead_of, write) = (advice.instead_of.clone()?, advice.write.clone()?);
    let file = line.file.as_deref().unwrap_or(&line.runs);
    let file = file.rsplit('/').next().unwrap_or(file);
    let path = line.raw_file.as_deref();
    let effect = without_program(input.recording, path, line.line, &advice.program);
    Some(Cure {
        storm: Storm::Fork,
        text: match instead_of.contains('`') {
            // Between more of them nobody sees which are to go.
            true => format!("In {file}:{}: write {write} instead of {instead_of}", line.line),
            false => format!("In {file}:{}: write `{write}` instead of `{instead_of}`", line.line),
        },
        command: None,
        actor: CureActor::Author,
        owner: None,
        change: CureChange::EditLine {
            file: path.map(|path| SourcePath { id: None, name: Name::of(OsStr::from_bytes(path)) }),
            line: line.line,
            instead_of,
            write,
        },
        risk: None,
        predicted: input.predictor.predict(&effect),
        effect,
    })
}

/// What the program does that a line runs goes, from its exec on; the file that it read, the shell
/// reads.
fn without_program(
    recording: &Recording,
    file: Option<&[u8]>,
    line: u32,
    program: &str,
) -> CureEffect {
    let is_of_line = |process: &&Process| {
        let frame =
            recording.told(process.id).and_then(|told| told.origin.as_ref()?.frames.first());
        frame.is_some_and(|frame| {
            frame.line == line && frame.file.map(|file| recording.path(file)) == file
        })
    };
    let is_program = |process: &&Process| {
        let exec = process.execs.first();
        exec.is_some_and(|exec| base_name(recording.path(exec.path)) == program.as_bytes())
    };
    let processes = recording.processes.iter().filter(is_of_line).filter(is_program);
    let processes: HashSet<_> = processes.map(|process| process.id).collect();
    CureEffect::of(inside::own_calls(recording, &processes))
}
