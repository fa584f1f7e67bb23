//! Where in its parent's script a process was started.

use serde::{Deserialize, Serialize};

use crate::{ByteUnits, PathId, ProcessId, Recording};

/// Where a process was started, read from its parent while that stood at the fork.
///
/// Only recorders that look into scripts write it, and only of parents that they can read: the
/// frames are empty where a parent tells none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The parent's resident set at that moment, which the fork had to copy the page tables of.
    pub rss: ByteUnits,
    /// The call stack, the innermost first.
    pub frames: Vec<Frame>,
}

/// One frame of a script's call stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The file; none for text that came from no file (`bash -c`, standard input).
    pub file: Option<PathId>,
    /// The line in it, from 1; 0 where it is not known.
    pub line: u32,
    /// The function, lossily decoded; empty outside of any.
    pub function: String,
}

impl Recording {
    /// The line that a process was started by: its own origin's innermost frame, else that of
    /// the nearest process above it that has one. `xargs` has no lines: what it starts, the line
    /// started that started `xargs`.
    pub fn line_of(&self, process: ProcessId) -> Option<&Frame> {
        self.told(process)?.origin.as_ref()?.frames.first()
    }

    /// A frame as text to show: `/path/file:12`; `line 12` where it is of no file.
    pub fn shown_line(&self, frame: &Frame) -> String {
        match frame.file {
            Some(file) => format!("{}:{}", self.shown(file), frame.line),
            None => format!("line {}", frame.line),
        }
    }
}
