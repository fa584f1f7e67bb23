//! Text to scroll: all of one call, and the help.

use recording::query::process_name;
use recording::{Nanos, ProcessId, Recording, shown};
use term::number::time;

use crate::call_list::result;
use crate::counts::CallFacts;

/// Text in the place of the rows.
pub struct Page {
    /// What it is.
    pub title: String,
    /// Its lines: what they are about, and what is said of it; wrapped when they are drawn.
    pub lines: Vec<(String, String)>,
    /// The first that is seen.
    pub top: usize,
}

impl Page {
    /// What the keys do.
    pub fn help() -> Page {
        let line = |(keys, what): &(&str, &str)| ((*keys).to_owned(), (*what).to_owned());
        Page { title: "keys".to_owned(), lines: HELP.iter().map(line).collect(), top: 0 }
    }

    /// All that is known of a call.
    pub fn of_call(call: usize, recording: &Recording, facts: &CallFacts) -> Page {
        let event = &recording.events[call];
        let mut lines = Vec::new();
        let mut say = |what: &str, said: String| lines.push((what.to_owned(), said));
        let path = |path| shown(recording.path(path));
        event.path.into_iter().for_each(|named| say("path", path(named)));
        event.other_path.into_iter().for_each(|named| say("to", path(named)));
        say("result", result(event));
        say("took", format!("{} (the recorder's stops included)", time(event.took)));
        if facts.has_waits() {
            let wait = Nanos((facts.wait(call) * 1e9) as u64);
            say("wait", format!("{} of one rank, predicted", time(wait)));
        }
        say("began", format!("{} after the start", time(event.start)));
        say("cause", facts.cause(call).name().to_owned());
        say("process", of_process(event.process, recording));
        if let Some(exec) = recording.program(event.process, event.start) {
            say("command", term::shell_line(exec.words()));
            say("in", path(exec.cwd));
        }
        if event.thread != recording.process(event.process).pid {
            say("thread", event.thread.to_string());
        }
        event.fd.into_iter().for_each(|fd| say("descriptor", fd.to_string()));
        if event.flags != 0 {
            say("flags", format!("{:#x}", event.flags));
        }
        event.site.into_iter().for_each(|site| say("called from", path(site)));
        if let Some(frame) = recording.line_of(event.process) {
            let file = frame.file.map_or("(a string)".to_owned(), path);
            say("started by", format!("{file}:{}", frame.line));
        }
        Page { title: event.call.name(), lines, top: 0 }
    }
}

/// A process, and those above it.
fn of_process(process: ProcessId, recording: &Recording) -> String {
    const MOST: usize = 8;
    let above = |id: &ProcessId| recording.process(*id).parent;
    let chain = std::iter::successors(Some(process), above).take(MOST);
    let named = chain.map(|id| {
        let process = recording.process(id);
        format!("{} {}", process_name(recording, process), process.pid)
    });
    named.collect::<Vec<_>>().join(", of ")
}

const HELP: &[(&str, &str)] = &[
    ("↑ ↓  k j", "a row up, a row down; so does the mouse's wheel"),
    ("PgUp PgDn", "a screen up, a screen down (also Ctrl-B, Ctrl-F; half of one: Ctrl-U, Ctrl-D)"),
    ("Home End  g G", "the first row, the last row"),
    ("→  l", "open the row; of an open one: the first row below it"),
    ("←  h", "close the row, or go to the one above it; leave the calls"),
    ("Space", "open or close the row"),
    ("* -", "open all rows, close all rows"),
    ("Enter", "the calls behind the row; of a call: all that is known of it"),
    ("Esc", "back"),
    (
        "1 … 8  Tab",
        "another view: processes, storms, causes, directories, libraries, modules, script lines, system calls",
    ),
    ("s S  r", "sort by the next column, by the one before; the other way round"),
    ("/  n N", "search names and paths, whatever their case; the next that has it, the one before"),
    (
        "f",
        "count only some calls. Words, all of which must hold: cause=python, errno=ENOENT (any, none), call=stat, or part of a path",
    ),
    ("F", "count all calls again"),
    ("Ctrl-L", "draw the screen anew"),
    ("Ctrl-Z", "stop; fg goes on"),
    ("q  Ctrl-C", "quit"),
    ("", ""),
    ("ops", "metadata operations: what a metadata server would serve"),
    ("failed", "those of them that ended with ENOENT or ENOTDIR"),
    (
        "wait",
        "how long one rank is predicted to wait for them on a cold shared filesystem, as becalm check says it",
    ),
    ("time", "between entry and return here, the recorder's own stops included"),
    ("calls", "all calls that were recorded, operations or not"),
    ("cause", "why most of the operations were made"),
];
