//! All that happened, in the order of time.

use crate::{Event, Exec, Nanos, Process, ProcessEnd, Recording, Signal};

/// One thing that happened.
#[derive(Clone, Copy)]
pub(super) enum TimelineMoment<'a> {
    Start(&'a Process),
    Exec(&'a Process, &'a Exec),
    Call(&'a Event),
    Signal(&'a Signal),
    End(&'a Process, &'a ProcessEnd),
}

/// All moments by when they began. Of those that began at once, the order above.
pub(super) fn timeline(recording: &Recording) -> Vec<(Nanos, TimelineMoment<'_>)> {
    let mut moments = Vec::with_capacity(recording.events.len() + 3 * recording.processes.len());
    for process in &recording.processes {
        moments.push((process.started, TimelineMoment::Start(process)));
        moments.extend(
            process.execs.iter().map(|exec| (exec.at, TimelineMoment::Exec(process, exec))),
        );
    }
    moments.extend(recording.events.iter().map(|event| (event.start, TimelineMoment::Call(event))));
    moments.extend(
        recording.delivered.iter().map(|signal| (signal.at, TimelineMoment::Signal(signal))),
    );
    for process in &recording.processes {
        moments.extend(process.end.iter().map(|end| (end.at, TimelineMoment::End(process, end))));
    }
    moments.sort_by_key(|(at, _)| *at);
    moments
}
