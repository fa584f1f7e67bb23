//! speedscope's own file format: stacks of process tree, cause, directory and file, as profiles of
//! what they cost.
//!
//! <https://www.speedscope.app/file-format-schema.json>: profiles of the type `sampled`, in which a
//! sample is a distinct stack and its weight all that was done in it.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::json;

use super::ExportOptions;
use super::stacks::StackedCalls;
use crate::{Event, Recording};

/// What is added up of each stack.
#[derive(Default)]
struct StackCosts {
    /// As [`PROFILES`] has them.
    costs: [u64; 4],
}

/// The profiles: their names, and the unit of their weights.
const PROFILES: [(&str, &str); 4] = [
    ("metadata operations", "none"),
    ("failed lookups", "none"),
    ("time in calls", "nanoseconds"),
    ("system calls", "none"),
];

/// Writes a recording as a file of speedscope.
///
/// # Errors
/// Those of `out`.
pub fn write(
    recording: &Recording,
    out: &mut dyn Write,
    _options: &ExportOptions,
) -> io::Result<()> {
    let stacked = StackedCalls::of(recording, |sum: &mut StackCosts, event: &Event| {
        let metadata = event.is_metadata();
        let more =
            [u64::from(metadata), u64::from(metadata && event.is_missing()), event.took.0, 1];
        for (sum, more) in sum.costs.iter_mut().zip(more) {
            *sum = sum.saturating_add(more);
        }
    });
    let (mut frames, mut numbers): (Vec<String>, HashMap<String, u32>) = Default::default();
    let mut number = |frame: String| {
        *numbers.entry(frame).or_insert_with_key(|frame| {
            frames.push(frame.clone());
            frames.len() as u32 - 1
        })
    };
    let stacks: Vec<(Box<[u32]>, [u64; 4])> = (stacked.iter())
        .map(|(stack, sum)| (stack.into_iter().map(&mut number).collect(), sum.costs))
        .collect();
    let name = term::json::line(&term::shell_line(recording.header.command()))?;
    write!(
        out,
        "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\
         \"exporter\":\"becalm\",\"name\":{name},\"activeProfileIndex\":0,\
         \"shared\":{{\"frames\":["
    )?;
    for (at, frame) in frames.iter().enumerate() {
        let separator = if at == 0 { "" } else { "," };
        write!(out, "{separator}\n{}", term::json::line(&json!({ "name": frame }))?)?;
    }
    write!(out, "]}},\n\"profiles\":[")?;
    let mut separator = "";
    for (at, (name, unit)) in PROFILES.into_iter().enumerate() {
        let weighed = || stacks.iter().filter(|(_, costs)| costs[at] > 0);
        let end: u64 = weighed().map(|(_, costs)| costs[at]).fold(0, u64::saturating_add);
        // One of nothing shows nothing; but one there must be.
        if end == 0 && at + 1 < PROFILES.len() {
            continue;
        }
        write!(
            out,
            "{separator}{{\"type\":\"sampled\",\"name\":\"{name}\",\"unit\":\"{unit}\",\
             \"startValue\":0,\"endValue\":{end},\"samples\":["
        )?;
        list(out, weighed().map(|(stack, _)| format!("{stack:?}")))?;
        write!(out, "],\"weights\":[")?;
        list(out, weighed().map(|(_, costs)| costs[at].to_string()))?;
        write!(out, "]}}")?;
        separator = ",\n";
    }
    writeln!(out, "]}}")
}

fn list(out: &mut dyn Write, items: impl Iterator<Item = String>) -> io::Result<()> {
    let mut separator = "";
    for item in items {
        write!(out, "{separator}{item}")?;
        separator = ",";
    }
    Ok(())
}
