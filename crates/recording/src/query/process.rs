//! Calls by the program that made them.

use std::collections::{BTreeSet, HashMap};

use super::sum::{Groups, Keys, RowOfCall};
use super::{CallFilter, Programs};
use crate::{Attributor, Exec, Process, Recording, Role, shown};

/// Programs of one process that are named.
const MOST_NAMES: usize = 3;
/// What a process is before it has executed anything.
const BEFORE: &[u8] = b"(before exec)";

pub(super) fn group(recording: &Recording, attributor: &Attributor, filter: &CallFilter) -> Groups {
    let mut keys = Keys::default();
    let mut known = HashMap::new();
    let mut row = |keys: &mut Keys, program: Option<usize>| {
        *known.entry(program).or_insert_with(|| match program {
            Some(at) => keys.row(&program_name(recording, attributor.exec(at))),
            None => keys.row(BEFORE),
        })
    };
    let mut places = Vec::with_capacity(recording.events.len());
    for event in &recording.events {
        let program = attributor.at(event.process, event.start);
        places.push(RowOfCall::observed(row(&mut keys, program)));
    }
    let wanted = |process: &&Process| filter.process.is_none_or(|only| process.id == only);
    for process in recording.processes.iter().filter(wanted) {
        let ran = attributor.programs_of(process.id);
        let rows: Vec<u32> = ran.map(|program| row(&mut keys, program)).collect();
        count(&mut keys, process, &rows);
    }
    Groups { rows: keys.rows, places }
}

/// Counts a process in each row that it was a program of, and what it used in the last.
fn count(keys: &mut Keys, process: &Process, ran: &[u32]) {
    for row in ran.iter().collect::<BTreeSet<_>>() {
        keys.rows[*row as usize].programs.get_or_insert_default().processes += 1;
    }
    let (Some(last), Some(end)) = (ran.last(), process.end) else { return };
    let programs: &mut Programs = keys.rows[*last as usize].programs.get_or_insert_default();
    programs.user.0 = programs.user.0.saturating_add(end.usage.user.0);
    programs.system.0 = programs.system.0.saturating_add(end.usage.system.0);
    programs.max_rss = programs.max_rss.max(end.usage.max_rss);
}

/// What runs, as a person would say it: the file's base name, and for an interpreter its
/// script's after it: `bash configure`.
pub fn program_name(recording: &Recording, exec: &Exec) -> Vec<u8> {
    let image = base_name(recording.path(exec.image));
    match script_name(recording, exec) {
        Some(script) => [image, script].join(&b' '),
        None => image.to_vec(),
    }
}

/// What a process ran, one after the other, the last few: `bash → python3`; without an exec, what it
/// was forked as.
pub fn process_name(recording: &Recording, process: &Process) -> String {
    let name = |exec| shown(&program_name(recording, exec));
    let mut names: Vec<String> = process.execs.iter().map(name).collect();
    names.dedup();
    let last = names.split_off(names.len().saturating_sub(MOST_NAMES));
    match (last.is_empty(), recording.program(process.id, process.started)) {
        (false, _) => last.join(" → "),
        (true, Some(exec)) => name(exec),
        (true, None) => shown(BEFORE),
    }
}

/// The base name of the script that an interpreter was started for.
///
/// For `#!interpreter argument` the kernel puts the interpreter and its argument before the
/// script's path in argv (binfmt_script), which a symbolic link to a program does not. Shells
/// and Python are given scripts as their first argument, too.
fn script_name<'a>(recording: &'a Recording, exec: &'a Exec) -> Option<&'a [u8]> {
    let given = base_name(recording.path(exec.path));
    // Arguments are kept lossily decoded.
    let decoded = String::from_utf8_lossy(given);
    let mut arguments = exec.argv.iter().skip(1).take(2).map(|word| base_name(word.as_bytes()));
    if exec.path != exec.image && arguments.any(|argument| argument == decoded.as_bytes()) {
        return Some(given);
    }
    let first = exec.argv.get(1).filter(|word| !word.starts_with('-') && !word.is_empty())?;
    let interprets = matches!(Role::of(recording, exec), Role::Shell | Role::Python);
    interprets.then(|| base_name(first.as_bytes()))
}

pub(super) fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}
