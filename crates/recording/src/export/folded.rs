//! Folded stacks: process tree, cause, directory, file; then a number.
//!
//! `bash configure;dirname;loader (start);/usr/lib;libc.so.6 12`: a line for each distinct stack,
//! stacks of programs in the order in which they first appear. Frames are the programs from the
//! command down to the one that made the calls, the cause, the directory of the path and the file
//! in it; calls without a path end at the cause. The number is [`super::Weight`]: calls, or
//! microseconds. All lines add up to the recording's. Where a frame holds `;` it is written `\x3b`.

use std::collections::HashMap;
use std::io::{self, Write};

use super::{ExportOptions, Weight};
use crate::query::program_name;
use crate::{Attributor, Cause, Exec, PathId, ProcessId, Recording, shown};

/// Processes that are nested deeper than this are shown as this deep.
const DEEPEST: usize = 64;

/// Writes a recording as folded stacks.
///
/// # Errors
/// Those of `out`.
pub fn write(
    recording: &Recording,
    out: &mut dyn Write,
    options: &ExportOptions,
) -> io::Result<()> {
    let mut attributor = Attributor::new(recording);
    let mut tree =
        StackTree { recording, stacks: Vec::new(), known: HashMap::new(), ids: HashMap::new() };
    let mut weights: HashMap<(usize, Cause, Option<PathId>), u64> = HashMap::new();
    for event in &recording.events {
        let cause = attributor.attribute(event).cause;
        let program = attributor.at(event.process, event.start);
        let stack = tree.stack(&attributor, event.process, program);
        let weight = match options.weight {
            Weight::Count => 1,
            Weight::Time => event.took.0,
        };
        let sum = weights.entry((stack, cause, event.path)).or_default();
        *sum = sum.saturating_add(weight);
    }
    let path = |id: &Option<PathId>| id.map_or(&b""[..], |id| recording.path(id));
    let mut weights: Vec<_> = weights.into_iter().collect();
    weights.sort_by_key(|((stack, cause, id), _)| (*stack, *cause, path(id)));
    for ((stack, cause, id), weight) in weights {
        let number = match options.weight {
            Weight::Count => weight,
            Weight::Time => weight.saturating_add(500) / 1000,
        };
        tree.write(stack, out)?;
        writeln!(out, ";{}{} {number}", cause.name(), frames(path(&id)))?;
    }
    Ok(())
}

/// The frames of a path: its directory and its name.
fn frames(path: &[u8]) -> String {
    let split = path.iter().rposition(|byte| *byte == b'/');
    match split {
        _ if path.is_empty() => String::new(),
        Some(at) if at > 0 && at + 1 < path.len() => {
            format!(";{};{}", frame(&path[..at]), frame(&path[at + 1..]))
        }
        _ => format!(";{}", frame(path)),
    }
}

fn frame(name: &[u8]) -> String {
    shown(name).replace(';', "\\x3b")
}

/// The stacks of programs, each distinct one once.
struct StackTree<'a> {
    recording: &'a Recording,
    stacks: Vec<FoldedStack>,
    known: HashMap<(ProcessId, Option<usize>), usize>,
    ids: HashMap<(Option<usize>, String), usize>,
}

struct FoldedStack {
    above: Option<usize>,
    frame: String,
    depth: usize,
}

impl StackTree<'_> {
    /// The stack of a process while it runs a program: its ancestors as they were when they
    /// started it, and the program.
    fn stack(
        &mut self,
        attributor: &Attributor,
        process: ProcessId,
        program: Option<usize>,
    ) -> usize {
        let mut lineage = vec![(process, program)];
        let mut above = None;
        // From the process up to an ancestor that has a stack, then down again.
        while let Some((process, program)) = lineage.last() {
            if let Some(stack) = self.known.get(&(*process, *program)) {
                above = Some(*stack);
                lineage.pop();
                break;
            }
            let process = self.recording.process(*process);
            let Some(parent) = process.parent else { break };
            lineage.push((parent, attributor.at(parent, process.started)));
        }
        for (process, program) in lineage.into_iter().rev() {
            let stack = self.below(above, program.map(|at| attributor.exec(at)));
            self.known.insert((process, program), stack);
            above = Some(stack);
        }
        above.unwrap_or_default()
    }

    /// The stack of a program that was started from another stack.
    fn below(&mut self, above: Option<usize>, exec: Option<&Exec>) -> usize {
        let depth = above.map_or(1, |above| self.stacks[above].depth + 1);
        if let Some(above) = above.filter(|_| depth > DEEPEST) {
            return above;
        }
        let frame = match exec {
            Some(exec) => frame(&program_name(self.recording, exec)),
            None => "(before exec)".into(),
        };
        *self.ids.entry((above, frame.clone())).or_insert_with(|| {
            self.stacks.push(FoldedStack { above, frame, depth });
            self.stacks.len() - 1
        })
    }

    /// Writes a stack's frames, the outermost first.
    fn write(&self, stack: usize, out: &mut dyn Write) -> io::Result<()> {
        let lineage = std::iter::successors(Some(stack), |stack| self.stacks[*stack].above);
        let frames: Vec<&str> = lineage.map(|stack| self.stacks[stack].frame.as_str()).collect();
        let mut separator = "";
        for frame in frames.iter().rev() {
            write!(out, "{separator}{frame}")?;
            separator = ";";
        }
        Ok(())
    }
}
