//! Comma-separated values: one row a call, in the order in which calls began.
//!
//! Fields are quoted as RFC 4180 says; lines end in a line feed. A field that has no value is
//! empty. Paths that are no UTF-8 are shown escaped ([`crate::shown`]): for their bytes take
//! JSON lines.

use std::borrow::Cow;
use std::io::{self, Write};

use super::ExportOptions;
use super::jsonl::abi_name;
use super::timeline::{TimelineMoment, timeline};
use crate::query::program_name;
use crate::{Attributor, Event, Outcome, PathId, Phase, Recording, errno_name, shown};

/// The first line: times are in nanoseconds, `at` from the start of the recording.
pub const HEADER: &str = "at_ns,took_ns,process,pid,thread,program,call,abi,metadata_op,result,error,\
                          path,other_path,fd,flags,site,in_loader,phase,by_descriptor,cause,inferred";

/// Writes the calls of a recording as CSV.
///
/// # Errors
/// Those of `out`.
pub fn write(
    recording: &Recording,
    out: &mut dyn Write,
    _options: &ExportOptions,
) -> io::Result<()> {
    let mut attributor = Attributor::new(recording);
    let mut line = String::new();
    writeln!(out, "{HEADER}")?;
    for (_, moment) in timeline(recording) {
        let TimelineMoment::Call(event, _) = moment else { continue };
        line.clear();
        row(&mut line, recording, &mut attributor, event);
        // The last field has a separator after it, too.
        line.pop();
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn row(line: &mut String, recording: &Recording, attributor: &mut Attributor, event: &Event) {
    let attribution = attributor.attribute(event);
    let program = attributor.program(event.process, event.start);
    let (result, error) = match event.outcome {
        Outcome::Returned(value) => (Some(value), None),
        Outcome::Failed(number) => (None, Some(errno_name(number))),
    };
    number(line, event.start.0);
    number(line, event.took.0);
    number(line, event.process.0);
    number(line, recording.process(event.process).pid);
    number(line, event.thread);
    text(line, &program.map_or(String::new(), |exec| shown(&program_name(recording, exec))));
    text(line, &event.call.label());
    text(line, abi_name(event.call.abi()));
    number(line, event.is_metadata());
    optional(line, result);
    optional(line, error);
    path(line, recording, event.path);
    path(line, recording, event.other_path);
    optional(line, event.fd);
    number(line, event.flags);
    path(line, recording, event.site);
    number(line, event.in_loader);
    text(line, if event.phase == Phase::Loading { "loading" } else { "running" });
    number(line, event.by_descriptor);
    text(line, attribution.cause.name());
    number(line, attribution.inferred);
}

fn number(line: &mut String, value: impl std::fmt::Display) {
    *line += &format!("{value},");
}

fn optional(line: &mut String, value: Option<impl std::fmt::Display>) {
    match value {
        Some(value) => number(line, value),
        None => line.push(','),
    }
}

fn path(line: &mut String, recording: &Recording, path: Option<PathId>) {
    let bytes = path.map_or(&b""[..], |path| recording.path(path));
    let valid = std::str::from_utf8(bytes).map(Cow::Borrowed);
    text(line, &valid.unwrap_or_else(|_| shown(bytes).into()));
}

/// A field of text, quoted if it must be.
fn text(line: &mut String, value: &str) {
    if value.contains(['"', ',', '\n', '\r']) {
        *line += &format!("\"{}\",", value.replace('"', "\"\""));
    } else {
        line.push_str(value);
        line.push(',');
    }
}
