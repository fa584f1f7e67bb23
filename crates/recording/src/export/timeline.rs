//! All that happened, in the order of time.

use crate::{Event, Exec, FileRange, Nanos, Process, ProcessEnd, Recording, Signal, Touch};

/// One thing that happened.
#[derive(Clone, Copy)]
pub(super) enum TimelineMoment<'a> {
    Start(&'a Process),
    Exec(&'a Process, &'a Exec),
    /// With the part of its file that it is about, where it says so itself.
    Call(&'a Event, Option<&'a FileRange>),
    Signal(&'a Signal),
    Touch(&'a Touch),
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
    moments.extend(recording.events.iter().enumerate().map(|(number, event)| {
        (event.start, TimelineMoment::Call(event, recording.ranges.get(&number)))
    }));
    moments.extend(
        recording.delivered.iter().map(|signal| (signal.at, TimelineMoment::Signal(signal))),
    );
    moments.extend(recording.touches.iter().map(|touch| (touch.at, TimelineMoment::Touch(touch))));
    for process in &recording.processes {
        moments.extend(process.end.iter().map(|end| (end.at, TimelineMoment::End(process, end))));
    }
    moments.sort_by_key(|(at, _)| *at);
    moments
}
