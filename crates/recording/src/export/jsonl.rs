//! JSON lines: everything that a recording holds, losslessly. docs/schema/becalm.export.md
//! says what each field means.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::ser::CompactFormatter;
use term::json::SafeFormatter;

use super::ExportOptions;
use super::timeline::{TimelineMoment, timeline};
use crate::{
    Abi, Attributor, Event, Exec, FileRange, Frame, MappedElf, Origin, Outcome, PathId, Process,
    ProcessEnd, Recording, Signal, Touch, errno_name, shown,
};

/// The schema that the first line names.
pub const SCHEMA: &str = "becalm.export/1";

/// Writes a recording as JSON lines: a header, then one object a moment in the order of time,
/// then what the recording does not show and what mapped ELF files say.
///
/// # Errors
/// Those of `out`.
pub fn write(
    recording: &Recording,
    out: &mut dyn Write,
    _options: &ExportOptions,
) -> io::Result<()> {
    let mut attributor = Attributor::new(recording);
    let mut buffer = Vec::new();
    let mut line = |fill: &mut dyn FnMut(&mut JsonObject) -> Result| {
        buffer.clear();
        let formatter = SafeFormatter(CompactFormatter);
        let mut json = serde_json::Serializer::with_formatter(&mut buffer, formatter);
        let mut object = JsonObject { recording, map: json.serialize_map(None)? };
        fill(&mut object)?;
        object.map.end()?;
        buffer.push(b'\n');
        out.write_all(&buffer)
    };
    line(&mut |object| header(object, recording))?;
    for (_, moment) in timeline(recording) {
        line(&mut |object| match moment {
            TimelineMoment::Start(process) => start(object, process),
            TimelineMoment::Exec(process, exec) => self::exec(object, process, exec),
            TimelineMoment::Call(event, range) => call(object, &mut attributor, event, range),
            TimelineMoment::Signal(signal) => self::signal(object, signal),
            TimelineMoment::Touch(touch) => self::touch(object, touch),
            TimelineMoment::End(process, end) => self::end(object, process, end),
        })?;
    }
    for blind in &recording.blinds {
        line(&mut |object| {
            object.field("type", "blind")?;
            object.field("blind", blind)
        })?;
    }
    for process in &recording.processes {
        if let Some(origin) = &process.origin {
            line(&mut |object| self::origin(object, process, origin))?;
        }
    }
    for (path, image) in &recording.images {
        line(&mut |object| self::image(object, *path, image))?;
    }
    Ok(())
}

type Result = std::result::Result<(), serde_json::Error>;
type JsonMap<'a> = serde_json::ser::Compound<'a, &'a mut Vec<u8>, SafeFormatter<CompactFormatter>>;

/// One JSON object that is being written.
struct JsonObject<'a> {
    recording: &'a Recording,
    map: JsonMap<'a>,
}

impl JsonObject<'_> {
    fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result {
        self.map.serialize_entry(name, value)
    }

    /// A path as text; where its bytes are no UTF-8, escaped, and in hexadecimal as
    /// `<name>_hex`.
    fn path(&mut self, name: &str, path: Option<PathId>) -> Result {
        let bytes = path.map(|path| self.recording.path(path));
        match bytes.map(std::str::from_utf8) {
            None => self.field(name, &()),
            Some(Ok(text)) => self.field(name, text),
            Some(Err(_)) => {
                let bytes = bytes.unwrap_or_default();
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                self.field(name, &shown(bytes))?;
                self.field(&format!("{name}_hex"), &hex)
            }
        }
    }

    fn process(&mut self, process: &Process) -> Result {
        self.field("process", &process.id)?;
        self.field("pid", &process.pid)
    }
}

fn header(object: &mut JsonObject, recording: &Recording) -> Result {
    object.field("schema", SCHEMA)?;
    object.field("type", "header")?;
    object.field("header", &recording.header)?;
    object.field("summary", &recording.summary)?;
    object.field("cut", &recording.cut)
}

fn start(object: &mut JsonObject, process: &Process) -> Result {
    object.field("type", "start")?;
    object.field("at_ns", &process.started)?;
    object.process(process)?;
    object.field("parent", &process.parent)?;
    object.field("how", &process.how)?;
    object.field("threads", &process.threads)
}

fn exec(object: &mut JsonObject, process: &Process, exec: &Exec) -> Result {
    // Of a variable that is given twice the first counts (getenv(3)).
    let env: BTreeMap<_, _> = exec.env.iter().rev().map(|(name, value)| (name, value)).collect();
    object.field("type", "exec")?;
    object.field("at_ns", &exec.at)?;
    object.process(process)?;
    object.path("path", Some(exec.path))?;
    object.path("image", Some(exec.image))?;
    object.field("argv", &exec.argv)?;
    if !exec.exact_argv.is_empty() {
        object.field("exact_argv", &exec.exact_argv)?;
    }
    object.path("cwd", Some(exec.cwd))?;
    object.path("loader", exec.loader)?;
    object.field("env", &env)
}

fn call(
    object: &mut JsonObject,
    attributor: &mut Attributor,
    event: &Event,
    range: Option<&FileRange>,
) -> Result {
    let attribution = attributor.attribute(event);
    let (result, errno) = match event.outcome {
        Outcome::Returned(value) => (Some(value), None),
        Outcome::Failed(number) => (None, Some(number)),
    };
    object.field("type", "call")?;
    object.field("at_ns", &event.start)?;
    object.field("took_ns", &event.took)?;
    object.process(object.recording.process(event.process))?;
    object.field("thread", &event.thread)?;
    object.field("call", &*event.call.label())?;
    object.field("number", &event.call.number())?;
    object.field("abi", abi_name(event.call.abi()))?;
    object.field("kind", &event.kind())?;
    object.field("metadata_op", &event.is_metadata())?;
    object.field("result", &result)?;
    object.field("error", &errno.map(errno_name))?;
    object.field("errno", &errno)?;
    object.path("path", event.path)?;
    object.path("other_path", event.other_path)?;
    object.field("fd", &event.fd)?;
    object.field("flags", &event.flags)?;
    object.path("site", event.site)?;
    object.field("in_loader", &event.in_loader)?;
    object.field("phase", &event.phase)?;
    object.field("by_descriptor", &event.by_descriptor)?;
    object.field("cause", &attribution.cause)?;
    object.field("inferred", &attribution.inferred)?;
    object.field("range", &range)
}

fn touch(object: &mut JsonObject, touch: &Touch) -> Result {
    object.field("type", "touch")?;
    object.field("at_ns", &touch.at)?;
    object.process(object.recording.process(touch.process))?;
    object.field("thread", &touch.thread)?;
    object.path("path", Some(touch.path))?;
    object.field("offset", &touch.offset)
}

fn signal(object: &mut JsonObject, signal: &Signal) -> Result {
    object.field("type", "signal")?;
    object.field("at_ns", &signal.at)?;
    object.process(object.recording.process(signal.process))?;
    object.field("thread", &signal.thread)?;
    object.field("signal", &signal.signal)
}

fn end(object: &mut JsonObject, process: &Process, end: &ProcessEnd) -> Result {
    object.field("type", "end")?;
    object.field("at_ns", &end.at)?;
    object.process(process)?;
    object.field("status", &end.status)?;
    object.field("user_us", &end.usage.user)?;
    object.field("system_us", &end.usage.system)?;
    object.field("max_rss_bytes", &end.usage.max_rss)
}

fn origin(object: &mut JsonObject, process: &Process, origin: &Origin) -> Result {
    let recording = object.recording;
    let frame = |frame: &Frame| {
        let file = frame.file.map(|file| recording.shown(file));
        serde_json::json!({ "file": file, "line": frame.line, "function": frame.function })
    };
    let frames: Vec<_> = origin.frames.iter().map(frame).collect();
    object.field("type", "origin")?;
    object.process(process)?;
    object.field("rss_bytes", &origin.rss)?;
    object.field("frames", &frames)
}

fn image(object: &mut JsonObject, path: PathId, image: &MappedElf) -> Result {
    object.field("type", "image")?;
    object.path("path", Some(path))?;
    object.field("image", image)
}

/// The table that a call's number is of.
pub(super) fn abi_name(abi: Abi) -> &'static str {
    match abi {
        Abi::X86_64 => "x86_64",
        Abi::I386 => "i386",
        Abi::X32 => "x32",
        Abi::Aarch64 => "aarch64",
        Abi::Arm => "arm",
    }
}
