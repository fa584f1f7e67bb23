//! Chrome's trace events: Perfetto and chrome://tracing load it.
//!
//! A call is a complete event ('X') on its thread's track, categorised by its cause; an exec
//! is an instant. Times are microseconds from the start of the recording.

use std::io::{self, Write};

use serde::Serialize;

use super::ExportOptions;
use super::timeline::{TimelineMoment, timeline};
use crate::query::program_name;
use crate::{Attributor, Event, Exec, Kind, Nanos, Outcome, Process, Recording, errno_name, shown};

/// Writes a recording in Chrome's Trace Event Format (JSON object format).
///
/// # Errors
/// Those of `out`.
pub fn write(
    recording: &Recording,
    out: &mut dyn Write,
    _options: &ExportOptions,
) -> io::Result<()> {
    let mut attributor = Attributor::new(recording);
    let about = serde_json::json!({
        "command": recording.header.command(),
        "host": recording.header.host,
        "kernel": recording.header.kernel,
        "started_unix": recording.header.started_unix,
        "cut": recording.cut,
    });
    let about = term::json::line(&about)?;
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[")?;
    let mut separator = "\n";
    let mut put = |event: TraceEvent| {
        out.write_all(separator.as_bytes())?;
        separator = ",\n";
        out.write_all(term::json::line(&event)?.as_bytes())
    };
    for process in &recording.processes {
        put(process_name(recording, process))?;
    }
    for (_, moment) in timeline(recording) {
        match moment {
            TimelineMoment::Exec(process, exec) => put(instant(recording, process, exec))?,
            TimelineMoment::Call(event, _) => put(complete(recording, &mut attributor, event))?,
            TimelineMoment::Start(_)
            | TimelineMoment::Signal(_)
            | TimelineMoment::Touch(_)
            | TimelineMoment::End(..) => {}
        }
    }
    out.write_all(b"\n]}\n")
}

#[derive(Default, Serialize)]
struct TraceEvent {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    ph: &'static str,
    /// Microseconds.
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    /// An instant's scope: its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    args: ChromeArgs,
}

#[derive(Default, Serialize)]
struct ChromeArgs {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    argv: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inferred: Option<bool>,
}

fn micros(nanos: Nanos) -> f64 {
    nanos.0 as f64 / 1e3
}

/// A process's track is named after the last program it ran.
fn process_name(recording: &Recording, process: &Process) -> TraceEvent {
    let exec = recording.program(process.id, Nanos(u64::MAX));
    let name = exec.map_or("(before exec)".into(), |exec| program(recording, exec));
    TraceEvent {
        name: "process_name".into(),
        ph: "M",
        pid: process.pid,
        tid: process.pid,
        args: ChromeArgs { name: Some(name), ..ChromeArgs::default() },
        ..TraceEvent::default()
    }
}

fn instant(recording: &Recording, process: &Process, exec: &Exec) -> TraceEvent {
    TraceEvent {
        name: format!("exec {}", program(recording, exec)),
        cat: Some("exec"),
        ph: "i",
        ts: micros(exec.at),
        pid: process.pid,
        tid: process.pid,
        s: Some("p"),
        args: ChromeArgs {
            argv: Some(exec.argv.clone()),
            path: Some(recording.shown(exec.path)),
            ..ChromeArgs::default()
        },
        ..TraceEvent::default()
    }
}

fn complete(recording: &Recording, attributor: &mut Attributor, event: &Event) -> TraceEvent {
    let attribution = attributor.attribute(event);
    let (result, error) = match event.outcome {
        Outcome::Returned(value) => (Some(value), None),
        Outcome::Failed(number) => (None, Some(errno_name(number).into_owned())),
    };
    TraceEvent {
        name: event.call.name(),
        cat: Some(attribution.cause.name()),
        ph: "X",
        ts: micros(event.start),
        dur: Some(micros(event.took)),
        pid: recording.process(event.process).pid,
        tid: event.thread,
        args: ChromeArgs {
            path: event.path.map(|path| recording.shown(path)),
            result,
            error,
            kind: Some(event.kind()),
            inferred: Some(attribution.inferred),
            ..ChromeArgs::default()
        },
        ..TraceEvent::default()
    }
}

fn program(recording: &Recording, exec: &Exec) -> String {
    shown(&program_name(recording, exec))
}
