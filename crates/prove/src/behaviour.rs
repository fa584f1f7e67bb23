//! Same output, same status.

use launch::{Captured, Ended};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::side::Side;

/// What came out of one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// How many bytes.
    pub bytes: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
    /// The beginning, to say where two differ.
    #[serde(skip)]
    pub head: Vec<u8>,
}

impl From<Captured> for Output {
    fn from(captured: Captured) -> Output {
        Output { bytes: captured.bytes, sha256: captured.sha256(), head: captured.head }
    }
}

impl Output {
    /// Whether it is the same, byte for byte.
    pub fn is(&self, other: &Output) -> bool {
        (self.bytes, &self.sha256) == (other.bytes, &other.sha256)
    }
}

/// What the two commands did that others see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Behaviour {
    /// The same output and the same status.
    Same,
    /// The same status; the output was not to be compared.
    SameStatus,
    /// Not the same.
    Differs(BehaviourDifference),
    /// A command's own output, or status, differs from run to run, so it cannot be compared.
    Varies {
        /// `before` or `after`.
        side: String,
        /// `standard output`, `standard error` or `status`.
        what: String,
    },
}

impl Behaviour {
    /// Whether it cannot be compared only because output varies.
    pub fn has_varying_output(&self) -> bool {
        matches!(self, Behaviour::Varies { what, .. } if what != STATUS)
    }
}

/// How two commands differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BehaviourDifference {
    /// `standard output`, `standard error` or `status`.
    pub what: String,
    /// Where, in words; for a status, which.
    pub first: String,
}

/// Compares what the two sides did, in all their runs.
pub(crate) fn compare(before: &Side, after: &Side, ignore_output: bool) -> Behaviour {
    for (name, side) in [("before", before), ("after", after)] {
        let varying = side.varying.iter().find(|what| !ignore_output || *what == STATUS);
        if let Some(what) = varying {
            return Behaviour::Varies { side: name.into(), what: what.clone() };
        }
    }
    if before.ended != after.ended {
        let first = format!("before {}, after {}", ending(before.ended), ending(after.ended));
        return Behaviour::Differs(BehaviourDifference { what: STATUS.into(), first });
    }
    if ignore_output {
        return Behaviour::SameStatus;
    }
    let streams =
        [(STDOUT, &before.stdout, &after.stdout), (STDERR, &before.stderr, &after.stderr)];
    for (what, before, after) in streams {
        if !before.is(after) {
            let first = first_difference(before, after);
            return Behaviour::Differs(BehaviourDifference { what: what.into(), first });
        }
    }
    Behaviour::Same
}

pub(crate) const STATUS: &str = "status";
pub(crate) const STDOUT: &str = "standard output";
pub(crate) const STDERR: &str = "standard error";

/// How a command ended, in words.
pub(crate) fn ending(ended: Ended) -> String {
    match ended {
        Ended::Exited(status) => format!("status {status}"),
        Ended::Signaled(signal) => format!("killed by signal {signal}"),
    }
}

/// Where two outputs part.
fn first_difference(before: &Output, after: &Output) -> String {
    let same = before.head.iter().zip(&after.head).take_while(|(a, b)| a == b).count();
    let one_is_short = before.bytes.min(after.bytes) == same as u64;
    if same == before.head.len().min(after.head.len()) && !one_is_short {
        return format!("after the first {same} bytes");
    }
    let line = before.head[..same].iter().filter(|byte| **byte == b'\n').count() + 1;
    let of = |output: &Output| line_at(&output.head, same);
    format!("line {line}: before {}, after {}", of(before), of(after))
}

/// The line that a byte is in, quoted and at most 60 characters of it.
fn line_at(text: &[u8], at: usize) -> String {
    let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if start == text.len() {
        return "nothing".to_owned();
    }
    let rest = &text[start..];
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or(rest);
    let shown = recording::shown(line);
    match shown.char_indices().nth(60) {
        Some((cut, _)) => format!("'{}…'", &shown[..cut]),
        None => format!("'{shown}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(text: &str) -> Output {
        Output {
            bytes: text.len() as u64,
            sha256: format!("of {text}"),
            head: text.as_bytes().to_vec(),
        }
    }

    #[test]
    fn the_first_line_that_differs_is_shown_of_both() {
        let said = first_difference(&output("one\ntwo\nthree\n"), &output("one\ntwice\nthree\n"));
        assert_eq!(said, "line 2: before 'two', after 'twice'");
        let said = first_difference(&output("one\n"), &output("one\ntwo\n"));
        assert_eq!(said, "line 2: before nothing, after 'two'");
        let said = first_difference(&output(""), &output("\u{1b}[2J"));
        assert_eq!(said, "line 1: before nothing, after '\\x1b[2J'");
    }

    #[test]
    fn a_difference_after_what_was_kept_is_said_to_be_there() {
        let long = |bytes| Output { bytes, sha256: bytes.to_string(), head: vec![b'x'; 65_536] };
        assert_eq!(first_difference(&long(70_000), &long(70_001)), "after the first 65536 bytes");
    }
}
