//! Which program the time was taken of: the one that was started, or another that it started.
//!
//! A wrapper (`sh -c`, env, numactl) executes the program in its own process, or has a child do so.
//! Addresses are told of the program that took the time, and none where that is not known; and
//! where a layout was moved, it was moved for the one exec of what was started.

use std::collections::BTreeMap;
use std::time::Duration;

use launch::Timed;
use watch::AtEnd;

use super::log::Address;
use super::verify::beginnings;

/// A process whose share of all time is smaller than one in so many has its children do the work.
/// What a script starts beside its own work is no wrapper's.
const OWN_SHARE: u32 = 4;

/// What a wrapper executes in its own process is measured, unless the wrapper took so many times its
/// time: then it is a script that ends with a program.
const WRAPPER_SHARE: u32 = 8;

/// Who took the time of a process that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeasuredProgram {
    /// The program that was started.
    Started,
    /// Another one, that it has executed in its process: where that had what, before its first
    /// instruction.
    Executed(BTreeMap<String, Address>),
    /// Children: most of the processor time is theirs.
    Children,
}

impl MeasuredProgram {
    /// Of a process that has ended.
    pub fn of(end: &AtEnd, timed: &Timed) -> MeasuredProgram {
        let Some(own) = end.own_cpu else { return MeasuredProgram::Started };
        if own < (timed.user + timed.system) / OWN_SHARE {
            return MeasuredProgram::Children;
        }
        // Of each program until when it ran; the last one, until the end.
        let began = end.executed.iter().map(|program| program.own_cpu);
        let mut until: Vec<Duration> = began.chain([own]).collect();
        for later in (1..until.len()).rev() {
            until[later] = until[later].saturating_sub(until[later - 1]);
        }
        let longest = until.iter().copied().max().unwrap_or_default();
        let is_wrapped = |time: &Duration| *time * WRAPPER_SHARE >= longest;
        match until.iter().rposition(is_wrapped).and_then(|program| program.checked_sub(1)) {
            None => MeasuredProgram::Started,
            Some(program) => MeasuredProgram::Executed(beginnings(&end.executed[program].maps)),
        }
    }
}
