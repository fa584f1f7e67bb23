//! Calls by the stack that they are shown under: process tree, cause, directory, file.
//!
//! Frames are the programs from the command down to the one that made the calls, the cause, the
//! directory of the path and the file in it; calls without a path end at the cause.

use std::collections::HashMap;

use crate::query::program_name;
use crate::{Attributor, Cause, Event, Exec, PathId, ProcessId, Recording, shown};

/// Processes that are nested deeper than this are shown as this deep.
const DEEPEST: usize = 64;

/// The calls of a recording by stack.
pub(super) struct StackedCalls<'a, W> {
    tree: StackTree<'a>,
    calls: Vec<(StackOfCalls, W)>,
}

/// All but the programs is told apart by number until it is shown.
type StackOfCalls = (usize, Cause, Option<PathId>);

impl<'a, W: Default> StackedCalls<'a, W> {
    /// Adds up the calls of each distinct stack, stacks of programs in the order in which they
    /// first appear, then by cause and path.
    pub(super) fn of(
        recording: &'a Recording,
        mut add: impl FnMut(&mut W, &Event),
    ) -> StackedCalls<'a, W> {
        let mut attributor = Attributor::new(recording);
        let mut tree =
            StackTree { recording, stacks: Vec::new(), known: HashMap::new(), ids: HashMap::new() };
        let mut sums: HashMap<StackOfCalls, W> = HashMap::new();
        for event in &recording.events {
            let cause = attributor.attribute(event).cause;
            let program = attributor.at(event.process, event.start);
            let stack = tree.stack(&attributor, event.process, program);
            add(sums.entry((stack, cause, event.path)).or_default(), event);
        }
        let path = |id: &Option<PathId>| id.map_or(&b""[..], |id| recording.path(id));
        let mut calls: Vec<_> = sums.into_iter().collect();
        calls.sort_by_key(|((stack, cause, id), _)| (*stack, *cause, path(id)));
        StackedCalls { tree, calls }
    }

    /// Each stack's frames, the outermost first, as text to show, and its sum.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Vec<String>, &W)> {
        self.calls.iter().map(|((stack, cause, path), sum)| {
            let programs = self.tree.frames(*stack).into_iter().map(str::to_owned);
            let path = path.map_or(&b""[..], |path| self.tree.recording.path(path));
            let rest = std::iter::once(cause.name().to_owned()).chain(frames(path));
            (programs.chain(rest).collect(), sum)
        })
    }
}

/// The frames of a path: its directory and its name.
fn frames(path: &[u8]) -> Vec<String> {
    let split = path.iter().rposition(|byte| *byte == b'/');
    match split {
        _ if path.is_empty() => Vec::new(),
        Some(at) if at > 0 && at + 1 < path.len() => {
            vec![shown(&path[..at]), shown(&path[at + 1..])]
        }
        _ => vec![shown(path)],
    }
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
            Some(exec) => shown(&program_name(self.recording, exec)),
            None => "(before exec)".into(),
        };
        *self.ids.entry((above, frame.clone())).or_insert_with(|| {
            self.stacks.push(FoldedStack { above, frame, depth });
            self.stacks.len() - 1
        })
    }

    /// A stack's frames, the outermost first.
    fn frames(&self, stack: usize) -> Vec<&str> {
        let lineage = std::iter::successors(Some(stack), |stack| self.stacks[*stack].above);
        let mut frames: Vec<&str> =
            lineage.map(|stack| self.stacks[stack].frame.as_str()).collect();
        frames.reverse();
        frames
    }
}
