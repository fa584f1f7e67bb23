//! All that happened, in the order of time.

use crate::{End, Event, Exec, Nanos, Process, Recording, Signal};

/// One thing that happened.
#[derive(Clone, Copy)]
pub(super) enum Moment<'a> {
    Start(&'a Process),
    Exec(&'a Process, &'a Exec),
    Call(&'a Event),
    Signal(&'a Signal),
    End(&'a Process, &'a End),
}

/// All moments by when they began. Of those that began at once, the order above.
pub(super) fn timeline(recording: &Recording) -> Vec<(Nanos, Moment<'_>)> {
    let mut moments = Vec::with_capacity(recording.events.len() + 3 * recording.processes.len());
    for process in &recording.processes {
        moments.push((process.started, Moment::Start(process)));
        moments.extend(process.execs.iter().map(|exec| (exec.at, Moment::Exec(process, exec))));
    }
    moments.extend(recording.events.iter().map(|event| (event.start, Moment::Call(event))));
    moments.extend(recording.delivered.iter().map(|signal| (signal.at, Moment::Signal(signal))));
    for process in &recording.processes {
        moments.extend(process.end.iter().map(|end| (end.at, Moment::End(process, end))));
    }
    moments.sort_by_key(|(at, _)| *at);
    moments
}
