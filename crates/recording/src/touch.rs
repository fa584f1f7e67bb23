//! Which part of which file a call or a page fault was about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Nanos, PathId, ProcessId};

/// A part of a mapped file that nobody in the run had touched before: the first page fault in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touch {
    /// Which process.
    pub process: ProcessId,
    /// Which thread: the kernel's thread id.
    pub thread: u32,
    /// Which file.
    pub path: PathId,
    /// Where the part begins, in bytes from the file's beginning: [`Touch::AROUND`] bytes, which
    /// have the page.
    pub offset: u64,
    /// When, from the recording's start.
    pub at: Nanos,
}

impl Touch {
    /// What one fault may have made usable of a file that is in the page cache: the kernel maps
    /// what it has of the 64 KiB around the fault that are aligned in memory (mm/memory.c,
    /// `do_fault_around`; `fault_around_bytes` is 65,536 unless somebody changed it in debugfs),
    /// and touches of that are not seen any more; where it has the file in larger folios, all of
    /// one, which is told of too if the start went through the file. Each part is told of once.
    pub const AROUND: u64 = 64 << 10;
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileRange {
    /// Where it begins: bytes from the file's beginning.
    pub offset: u64,
    /// How many bytes: those that were asked for, which may be more than there are.
    pub bytes: u64,
}

impl FileRange {
    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}
