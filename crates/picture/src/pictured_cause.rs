//! Causes as the views number them: each has one colour in all of them.

use recording::Cause;

/// The number of page faults, which no call makes.
pub(crate) const FAULTS: usize = Cause::ALL.len();
/// How many numbers there are.
pub(crate) const COUNT: usize = FAULTS + 1;

/// The number of a cause.
pub(crate) fn number(cause: Cause) -> usize {
    Cause::ALL.iter().position(|known| *known == cause).unwrap_or(FAULTS - 1)
}

/// Their names, by number.
pub(crate) fn names() -> Vec<&'static str> {
    Cause::ALL.iter().map(|cause| cause.name()).chain(["page faults"]).collect()
}
