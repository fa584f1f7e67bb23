//! Perfetto's own trace: what its user interface and its trace processor read without conversion.
//!
//! A stream of `TracePacket`s of one sequence (protos/perfetto/trace/trace_packet.proto of
//! Perfetto v52; the numbers of fields below are those files'). There is
//!
//! - the tree of processes (`process_tree`), and a track for each, on which a slice is a program
//!   from its exec to its end,
//! - a track for each thread: on it a slice for each stretch of calls of one cause, and in it the
//!   calls, with what was asked for and what came back,
//! - counters of metadata operations and of failed lookups.
//!
//! Times are nanoseconds from the start of the recording; what that is by the clock on the wall is
//! said once. Names are interned: each is written once.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::ExportOptions;
use super::perfetto_packets::{Annotation, PacketWriter, SliceKind, TrackUuid};
use super::timeline::{TimelineMoment, timeline};
use crate::query::program_name;
use crate::{
    Attributor, Cause, Event, Exec, Nanos, Outcome, Process, ProcessId, Recording, Signal,
    errno_name, shown,
};

/// Samples that a counter has at most, beside its last.
const MOST_SAMPLES: u64 = 4000;

/// Writes a recording as a trace of Perfetto.
///
/// # Errors
/// Those of `out`.
pub fn write(
    recording: &Recording,
    out: &mut dyn Write,
    _options: &ExportOptions,
) -> io::Result<()> {
    let mut trace = PerfettoTrace::begin(recording, out)?;
    for (at, moment) in timeline(recording) {
        match moment {
            TimelineMoment::Start(process) => trace.inherited(process)?,
            TimelineMoment::Exec(process, exec) => trace.exec(process, exec)?,
            TimelineMoment::Call(event, _) => trace.call(event)?,
            TimelineMoment::Signal(signal) => trace.signal(signal)?,
            TimelineMoment::End(process, _) => trace.end_of(process.id, at)?,
            TimelineMoment::Touch(_) => {}
        }
    }
    trace.end()
}

struct PerfettoTrace<'a, 'o> {
    recording: &'a Recording,
    attributor: Attributor<'a>,
    packets: PacketWriter<'o>,
    threads: BTreeMap<(ProcessId, u32), ThreadTrack>,
    /// Whether a program's slice is open on each process's track.
    runs: Vec<bool>,
    counts: [u64; 2],
    /// When the next sample of the counters is due.
    next_sample: Nanos,
    ended: Nanos,
}

/// What is open on a thread's track.
struct ThreadTrack {
    uuid: TrackUuid,
    cause: Cause,
    /// When its last call ended: slices of one track must not cross.
    until: Nanos,
}

impl<'a, 'o> PerfettoTrace<'a, 'o> {
    fn begin(
        recording: &'a Recording,
        out: &'o mut dyn Write,
    ) -> io::Result<PerfettoTrace<'a, 'o>> {
        let mut packets = PacketWriter::begin(out, recording.header.started_unix)?;
        packets.process_tree(&recording.processes, |process| {
            let exec = recording.program(process.id, Nanos(u64::MAX));
            // Its first word becomes the process's name.
            let name = exec.map(|exec| program(recording, exec)).into_iter();
            name.chain(exec.iter().flat_map(|exec| exec.argv.iter().skip(1).cloned())).collect()
        })?;
        for process in &recording.processes {
            let exec = recording.program(process.id, Nanos(u64::MAX));
            let name = exec.map_or("(before exec)".into(), |exec| program(recording, exec));
            packets.process_track(process, &name)?;
        }
        packets.counter_tracks(&COUNTERS)?;
        Ok(PerfettoTrace {
            recording,
            attributor: Attributor::new(recording),
            packets,
            threads: BTreeMap::new(),
            runs: vec![false; recording.processes.len()],
            counts: [0; 2],
            next_sample: Nanos(0),
            ended: Nanos(0),
        })
    }

    /// A process that was forked runs its parent's program until it executes another.
    fn inherited(&mut self, process: &Process) -> io::Result<()> {
        let Some(parent) = process.parent else { return Ok(()) };
        let Some(exec) = self.attributor.program(parent, process.started) else { return Ok(()) };
        let name = format!("{} (forked)", program(self.recording, exec));
        self.runs(process.id, process.started, &name, &[])
    }

    fn exec(&mut self, process: &Process, exec: &Exec) -> io::Result<()> {
        let path = self.recording.shown(exec.path);
        let argv = term::shell_line(exec.words());
        let cwd = self.recording.shown(exec.cwd);
        let about = [
            ("path", Annotation::Text(&path)),
            ("argv", Annotation::Text(&argv)),
            ("cwd", Annotation::Text(&cwd)),
        ];
        self.runs(process.id, exec.at, &program(self.recording, exec), &about)
    }

    /// From now on a process runs this program.
    fn runs(
        &mut self,
        process: ProcessId,
        at: Nanos,
        name: &str,
        about: &[(&'static str, Annotation)],
    ) -> io::Result<()> {
        self.stops(process, at)?;
        self.runs[process.0 as usize] = true;
        self.packets.slice(
            SliceKind::Begin,
            TrackUuid::process(process),
            at,
            name,
            "process",
            about,
        )
    }

    fn stops(&mut self, process: ProcessId, at: Nanos) -> io::Result<()> {
        self.ended = self.ended.max(at);
        match std::mem::take(&mut self.runs[process.0 as usize]) {
            true => self.packets.end_of_slice(TrackUuid::process(process), at),
            false => Ok(()),
        }
    }

    fn call(&mut self, event: &Event) -> io::Result<()> {
        let attribution = self.attributor.attribute(event);
        let (begin, track) = self.thread(event, attribution.cause)?;
        let error = match event.outcome {
            Outcome::Returned(_) => None,
            Outcome::Failed(number) => Some(errno_name(number)),
        };
        let paths = [event.path, event.other_path];
        let [path, other] = paths.map(|path| path.map(|path| self.recording.shown(path)));
        let mut about = Vec::with_capacity(5);
        about.extend(path.iter().map(|path| ("path", Annotation::Text(path))));
        about.extend(other.iter().map(|path| ("other_path", Annotation::Text(path))));
        match (&error, event.outcome) {
            (Some(error), _) => about.push(("error", Annotation::Text(error))),
            (None, Outcome::Returned(value)) => about.push(("result", Annotation::Number(value))),
            (None, Outcome::Failed(_)) => {}
        }
        about.push(("metadata_op", Annotation::Flag(event.is_metadata())));
        if attribution.inferred {
            about.push(("inferred", Annotation::Flag(true)));
        }
        let cause = attribution.cause.name();
        self.packets.slice(SliceKind::Begin, track, begin, &event.call.name(), cause, &about)?;
        let end = Nanos(event.start.0.saturating_add(event.took.0)).max(begin);
        self.packets.end_of_slice(track, end)?;
        if let Some(thread) = self.threads.get_mut(&(event.process, event.thread)) {
            thread.until = end;
        }
        self.ended = self.ended.max(end);
        self.count(event, begin)
    }

    /// When a call's slice begins, on which track; that of its cause is open there.
    fn thread(&mut self, event: &Event, cause: Cause) -> io::Result<(Nanos, TrackUuid)> {
        let key = (event.process, event.thread);
        let next = TrackUuid::thread(self.threads.len() as u64);
        let (begin, uuid) = match self.threads.get(&key) {
            Some(thread) if thread.cause == cause => {
                return Ok((event.start.max(thread.until), thread.uuid));
            }
            Some(thread) => {
                self.packets.end_of_slice(thread.uuid, thread.until)?;
                (event.start.max(thread.until), thread.uuid)
            }
            None => {
                let process = self.recording.process(event.process);
                self.packets.thread_track(next, process, event.thread)?;
                (event.start, next)
            }
        };
        self.packets.slice(SliceKind::Begin, uuid, begin, cause.name(), "cause", &[])?;
        self.threads.insert(key, ThreadTrack { uuid, cause, until: begin });
        Ok((begin, uuid))
    }

    fn count(&mut self, event: &Event, at: Nanos) -> io::Result<()> {
        if !event.is_metadata() {
            return Ok(());
        }
        self.counts[0] += 1;
        self.counts[1] += u64::from(event.is_missing());
        if at < self.next_sample {
            return Ok(());
        }
        let summary = self.recording.summary.as_ref();
        let last = self.recording.events.last().map_or(Nanos(0), |event| event.start);
        let whole = summary.map_or(last, |summary| summary.ended);
        self.next_sample = Nanos(at.0.saturating_add(whole.0 / MOST_SAMPLES));
        self.packets.counters(at, self.counts)
    }

    fn signal(&mut self, signal: &Signal) -> io::Result<()> {
        let name = format!("signal {}", super::symbols::signal(signal.signal));
        let track = TrackUuid::process(signal.process);
        self.packets.slice(SliceKind::Instant, track, signal.at, &name, "signal", &[])
    }

    fn end_of(&mut self, process: ProcessId, at: Nanos) -> io::Result<()> {
        self.stops(process, at)
    }

    /// Closes all that is open.
    fn end(mut self) -> io::Result<()> {
        for thread in self.threads.values() {
            self.packets.end_of_slice(thread.uuid, thread.until)?;
        }
        for process in 0..self.runs.len() {
            self.stops(ProcessId(process as u32), self.ended)?;
        }
        self.packets.counters(self.ended, self.counts)
    }
}

/// The counters: their names and units.
const COUNTERS: [(&str, &str); 2] =
    [("metadata operations", "operations"), ("failed lookups", "operations")];

fn program(recording: &Recording, exec: &Exec) -> String {
    shown(&program_name(recording, exec))
}
