//! The detectors, one file a storm.
//!
//! A detector looks at the operations that are still free, claims those that are its storm's,
//! and says whom to blame and what to do. One that finds less than
//! [a storm](crate::threshold) returns nothing, and its operations stay free.

mod dlopen;
mod fork;
mod inside;
mod loader;
mod locale;
mod modules;
mod path;
mod python;
mod repeat;
mod walk;

use recording::Nanos;

use crate::findings::{Culprit, Step, Storm};
use crate::survey::{AskId, Survey};

/// What a detector found.
pub(crate) struct Case {
    /// Which storm.
    pub storm: Storm,
    /// What happened, as a person would say it, without a full stop.
    pub title: String,
    /// Why it happens.
    pub cause: String,
    /// How it was seen.
    pub observed: String,
    /// The operations that are its.
    pub claim: Vec<AskId>,
    /// How many of them a known cure would take away at most.
    pub avoidable: u64,
    /// How many of them are a guess, where that is not what their causes say.
    pub guessed: Option<u64>,
    /// How long they took, where that is not their calls' time.
    pub time: Option<Nanos>,
    /// Whom to blame, the worst first.
    pub culprits: Vec<Culprit>,
    /// What to do, the best first.
    pub next: Vec<Step>,
    /// What `becalm report --by` shows the evidence.
    pub evidence: String,
}

pub(crate) type Detector = fn(&Survey) -> Option<Case>;

/// The detectors, in the order in which they may claim:
///
/// 1. PATH searches, because they are made before the program is there that they look for.
/// 2. Fork storms: what a child of one asks, for whatever reason, is asked because it was
///    started; not starting it is the cure of all of it.
/// 3. What the caller's identity tells: the module tool, the loader.
/// 4. What the path tells of a Python process.
/// 5. Walks, before what only the path tells: a walk comes by locale directories too.
/// 6. What is left: locales, by their paths, and repeats.
pub(crate) const DETECTORS: &[Detector] = &[
    path::detect,
    fork::detect,
    modules::detect,
    loader::detect,
    dlopen::detect,
    python::detect,
    walk::detect,
    locale::detect,
    repeat::detect,
];

/// A culprit, with its numbers by name.
pub(crate) fn culprit(
    kind: &str,
    name: impl Into<String>,
    text: String,
    numbers: &[(&str, u64)],
) -> Culprit {
    Culprit {
        kind: kind.to_owned(),
        name: name.into(),
        text,
        numbers: numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect(),
    }
}

/// A step without a command.
pub(crate) fn advice(text: impl Into<String>) -> Step {
    Step { text: text.into(), command: None }
}

/// A step with the command that takes it.
pub(crate) fn command(text: impl Into<String>, command: impl Into<String>) -> Step {
    Step { text: text.into(), command: Some(command.into()) }
}
