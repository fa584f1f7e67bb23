//! strace's text, as `strace -f -ttt -T -o FILE` writes it.
//!
//! A line is a thread, the time since 1970, the call, its result and how long it took. What a
//! recording does not hold (structures, buffers, modes) is `...`; paths are full. Lines are in
//! the order in which calls began, each whole: strace's `<unfinished ...>` is not needed.

use std::io::{self, Write};

use super::ExportOptions;
use super::symbols::{self, quote};
use super::timeline::{TimelineMoment, timeline};
use crate::{Event, ExitStatus, Nanos, Outcome, PathId, ProcessId, Recording, errno_name};

/// strace puts results in this column, where the call is shorter.
const RESULT_COLUMN: usize = 40;

/// Writes a recording as strace's text.
///
/// # Errors
/// Those of `out`.
pub fn write(
    recording: &Recording,
    out: &mut dyn Write,
    _options: &ExportOptions,
) -> io::Result<()> {
    let mut line = String::new();
    for (at, moment) in timeline(recording) {
        line.clear();
        match moment {
            TimelineMoment::Start(_) | TimelineMoment::Exec(..) | TimelineMoment::Touch(_) => {
                continue;
            }
            TimelineMoment::Call(event, _) => {
                begin(&mut line, recording, event.thread, at);
                call(&mut line, recording, event);
            }
            TimelineMoment::Signal(signal) => {
                begin(&mut line, recording, signal.thread, at);
                let name = symbols::signal(signal.signal);
                line += &format!("--- {name} {{si_signo={name}, ...}} ---");
            }
            TimelineMoment::End(process, end) => {
                begin(&mut line, recording, process.pid, at);
                line += &match end.status {
                    ExitStatus::Exited(code) => format!("+++ exited with {code} +++"),
                    ExitStatus::Signaled(number) => {
                        format!("+++ killed by {} +++", symbols::signal(number))
                    }
                };
            }
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// The thread, padded as strace pads it, and the time of day.
fn begin(line: &mut String, recording: &Recording, thread: u32, at: Nanos) {
    let header = &recording.header;
    let nanos = at.0.saturating_add(u64::from(header.started_nanos));
    let seconds = header.started_unix.saturating_add(nanos / 1_000_000_000);
    *line += &format!("{thread:<5} {seconds}.{:06} ", nanos % 1_000_000_000 / 1000);
}

fn call(line: &mut String, recording: &Recording, event: &Event) {
    line.push_str(&event.call.label());
    line.push('(');
    arguments(line, recording, event);
    line.push_str(") ");
    while line.len() < RESULT_COLUMN {
        line.push(' ');
    }
    line.push_str("= ");
    match event.outcome {
        Outcome::Returned(value) if symbols::returns_address(&event.call.label()) => {
            *line += &format!("{value:#x}");
        }
        Outcome::Returned(value) => *line += &value.to_string(),
        // What the kernel tells itself to restart a call is no result.
        Outcome::Failed(number) if number >= 512 => {
            *line += &format!("? {} ({})", errno_name(number), symbols::message(number));
        }
        Outcome::Failed(number) => {
            *line += &format!("-1 {} ({})", errno_name(number), symbols::message(number));
        }
    }
    let micros = event.took.0 / 1000;
    *line += &format!(" <{}.{:06}>", micros / 1_000_000, micros % 1_000_000);
}

fn arguments(line: &mut String, recording: &Recording, event: &Event) {
    let name = event.call.label();
    let path = |id: Option<PathId>| match id {
        Some(id) => quote(recording.path(id)),
        None => "...".into(),
    };
    for (at, argument) in symbols::arguments(&name).iter().enumerate() {
        if at > 0 {
            line.push_str(", ");
        }
        *line += &match argument {
            b'd' => event.fd.map_or("AT_FDCWD".into(), |fd| fd.to_string()),
            b'f' => event.fd.map_or("...".into(), |fd| fd.to_string()),
            b'p' if event.by_descriptor => "\"\"".into(),
            b'p' => path(event.path),
            b'q' => path(event.other_path),
            b'D' => "AT_FDCWD".into(),
            b'o' => symbols::open_flags(event.flags),
            b'O' => format!("{{flags={}, ...}}", symbols::open_flags(event.flags)),
            b'm' => symbols::access_mode(event.flags),
            b'a' => symbols::at_flags(event.flags),
            b'u' => symbols::unlink_flags(event.flags),
            b'r' => symbols::protection(event.flags),
            b'c' => format!("flags={}", symbols::clone_flags(event.flags)),
            b'v' => argv(recording, event),
            _ => "...".into(),
        };
    }
}

/// The arguments that a successful execve gave, as the new program found them: in place of a script, its
/// interpreter. Those of the command are known as they were given.
fn argv(recording: &Recording, event: &Event) -> String {
    let execs = &recording.process(event.process).execs;
    let at = execs.partition_point(|exec| exec.at < event.start);
    let is_start = at == 0 && event.process == ProcessId(0) && recording.header.joined.is_none();
    match execs.get(at).filter(|_| !event.outcome.failed()) {
        Some(exec) => {
            let words = match is_start && exec.path != exec.image {
                true => recording.header.command(),
                false => exec.words(),
            };
            let quoted: Vec<_> = words.iter().map(|word| quote(word.bytes())).collect();
            format!("[{}]", quoted.join(", "))
        }
        None => "...".into(),
    }
}
