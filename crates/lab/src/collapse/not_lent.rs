//! Where no thread of another process can be lent: the instructions for it are x86-64's.

use std::io;
use std::time::Duration;

use super::process::TargetProcess;

/// Why no thread of a process was lent.
#[derive(Debug, thiserror::Error)]
pub enum LendRefusal {
    /// This processor.
    #[error("on this processor becalm has no instructions for it")]
    Processor,
}

/// None there is.
pub(super) enum LentThread {}

impl LentThread {
    pub(super) fn of(_: &TargetProcess) -> Result<LentThread, LendRefusal> {
        Err(LendRefusal::Processor)
    }

    pub(super) fn call(&mut self, _: i64, _: [u64; 3]) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn lent(&self) -> Duration {
        match *self {}
    }
}
