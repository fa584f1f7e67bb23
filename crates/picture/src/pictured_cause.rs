//! Causes as the views number them: each has one colour in all of them.

use recording::{Attributor, Cause, Recording};

/// The number of page faults, which no call makes.
pub(crate) const FAULTS: usize = Cause::ALL.len();
/// How many numbers there are.
pub(crate) const COUNT: usize = FAULTS + 1;

/// The number of a cause.
pub(crate) fn number(cause: Cause) -> usize {
    Cause::ALL.iter().position(|known| *known == cause).unwrap_or(FAULTS - 1)
}

/// The number of the cause of each call.
pub(crate) fn of_calls(recording: &Recording) -> Vec<u8> {
    let mut attributor = Attributor::new(recording);
    let events = recording.events.iter();
    events.map(|event| number(attributor.attribute(event).cause) as u8).collect()
}

/// Their names, by number.
pub(crate) fn names() -> Vec<&'static str> {
    Cause::ALL.iter().map(|cause| cause.name()).chain(["page faults"]).collect()
}
