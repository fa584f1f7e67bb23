//! `becalm fork lines`: what the command's end waited for, and what would make it end earlier.

use recording::Nanos;
use script::lines::{ScriptLine, ScriptLines};
use term::number::{bytes, time};

use super::view::place;

/// What the command's end waited for, in a sentence.
pub fn path(wall: Nanos, lines: &ScriptLines) -> String {
    if lines.critical.0 == 0 {
        return String::new();
    }
    let most = lines.lines.iter().max_by_key(|line| line.critical);
    let most = most.filter(|line| line.critical.0 > 0);
    format!(
        "On the critical path, which the command's end waited for, are these processes for {}{}, and the \
         command itself for {}. ",
        time(lines.critical),
        most.map_or(String::new(), |line| {
            format!(" (those of {} for {})", place(line), time(line.critical))
        }),
        time(Nanos(wall.0.saturating_sub(lines.critical.0))),
    )
}

/// The command's time if a line were cured.
pub fn cured(wall: Nanos, lines: &ScriptLines, line: &ScriptLine) -> String {
    let saved = line.saved.filter(|_| lines.critical.0 > 0);
    saved.map_or(String::new(), |saved| time(Nanos(wall.0.saturating_sub(saved.0))))
}

/// Where forks cost most since the parent is large.
pub fn large_parent(lines: &ScriptLines) -> Option<String> {
    let large = lines.lines.iter().filter(|line| is_large(line));
    let line = large.max_by_key(|line| line.phases.fork)?;
    Some(format!(
        "At {}, {} holds {}: each fork copies its page tables, {}. becalm run --hugepages makes them \
         smaller (where bash uses glibc's malloc); or hold less, `while read` instead of `$(<file)`.",
        place(line),
        line.runs,
        bytes(line.parent_rss),
        time(Nanos(line.phases.fork.0 / line.processes.max(1))),
    ))
}

fn is_large(line: &ScriptLine) -> bool {
    const LARGE: u64 = 64 << 20;
    const MUCH: u64 = 1_000_000;
    line.runs == "bash"
        && line.parent_rss.0 >= LARGE
        && line.phases.fork.0 / line.processes.max(1) >= MUCH
}
