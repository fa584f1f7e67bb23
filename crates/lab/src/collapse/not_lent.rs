//! Where no thread of another process can be lent: the instructions for it are x86-64's.

use std::io;
use std::time::Duration;

use super::error::LendRefusal;
use super::process::TargetProcess;

/// None there is.
pub(super) enum NoLentThread {}

impl NoLentThread {
    pub(super) fn of(_: &TargetProcess) -> Result<NoLentThread, LendRefusal> {
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
