//! Folded stacks: process tree, cause, directory, file; then a number.
//!
//! `bash configure;dirname;loader (start);/usr/lib;libc.so.6 12`: a line for each distinct stack,
//! stacks of programs in the order in which they first appear. The number is [`super::Weight`]:
//! calls, or microseconds. All lines add up to the recording's. Where a frame holds `;` it is written
//! `\x3b`.

use std::io::{self, Write};

use super::stacks::StackedCalls;
use super::{ExportOptions, Weight};
use crate::{Event, Recording};

/// Writes a recording as folded stacks.
///
/// # Errors
/// Those of `out`.
pub fn write(
    recording: &Recording,
    out: &mut dyn Write,
    options: &ExportOptions,
) -> io::Result<()> {
    let add = |sum: &mut u64, event: &Event| {
        let weight = match options.weight {
            Weight::Count => 1,
            Weight::Time => event.took.0,
        };
        *sum = sum.saturating_add(weight);
    };
    for (frames, weight) in StackedCalls::of(recording, add).iter() {
        let number = match options.weight {
            Weight::Count => *weight,
            Weight::Time => weight.saturating_add(500) / 1000,
        };
        let frames: Vec<_> = frames.iter().map(|frame| frame.replace(';', "\\x3b")).collect();
        writeln!(out, "{} {number}", frames.join(";"))?;
    }
    Ok(())
}
