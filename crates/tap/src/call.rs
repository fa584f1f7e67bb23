//! What is watched, and what is reported of it.

use crate::arch::KernelRegisters;
use crate::program::{
    EMPTY, MOST_STRING, NO_STRING, OngoingCall, STOPS_IN_PROC, STRINGS, TapRecord, UNREADABLE,
    WATCHED,
};

/// A system call that is to be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedCall {
    /// Its number in the machine's own table.
    pub number: u16,
    /// Its arguments, from 0, that point to strings, which are read when it returns.
    pub strings: [Option<u8>; 2],
    /// Whether its thread is stopped where it has succeeded on a path of /proc (the first string):
    /// as by [`Tap::brake`].
    pub stops_in_proc: bool,
}

impl WatchedCall {
    /// A call without strings.
    pub fn plain(number: u16) -> WatchedCall {
        WatchedCall { number, strings: [None; 2], stops_in_proc: false }
    }

    /// The same, as the programs read it.
    pub(crate) fn rules(&self) -> u32 {
        let place = |argument: Option<u8>| argument.map_or(NO_STRING, KernelRegisters::argument_at);
        let [first, second] = self.strings.map(|argument| u32::from(place(argument)));
        let stops = if self.stops_in_proc { STOPS_IN_PROC } else { 0 };
        WATCHED | stops | first << STRINGS | second << (STRINGS + 8)
    }
}

/// A system call that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapEvent {
    /// The thread that made it, by the id that it had then: an execve by a thread that is not
    /// the leader gives it the leader's.
    pub tid: i32,
    /// Its process.
    pub tgid: i32,
    /// Its number in the machine's own table.
    pub number: u16,
    /// Its arguments, as they were at its entry.
    pub args: [u64; 6],
    /// What it returned; an error is negative. -512 to -516 say that a signal broke it off, and
    /// that this is not yet what the program sees: the call is made again (and reported again),
    /// or fails with EINTR, or the thread is killed.
    pub value: i64,
    /// When it was entered: CLOCK_MONOTONIC, as [`std::time::Instant`], in ns.
    pub start: u64,
    /// How long it took, in ns.
    pub took: u64,
    /// The instruction after the call's.
    pub ip: u64,
}

/// A string that a call was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallString<'a> {
    /// None was asked for.
    None,
    /// Without the zero byte at its end.
    Bytes(&'a [u8]),
    /// Its memory cannot be read, or it does not end within 4096 bytes.
    Unreadable,
}

impl TapEvent {
    /// The call of a record.
    pub(crate) fn of(record: &TapRecord) -> TapEvent {
        let TapRecord { call, value, end, .. } = record;
        let OngoingCall { registers, tid, tgid, start } = call;
        TapEvent {
            tid: *tid as i32,
            tgid: *tgid as i32,
            number: registers.number(),
            args: registers.args(),
            value: *value,
            start: *start,
            took: end.saturating_sub(*start),
            ip: registers.ip(),
        }
    }
}

/// The strings of a record, which lie after it.
pub(crate) fn strings<'a>(record: &TapRecord, after: &'a [u8]) -> [CallString<'a>; 2] {
    let mut rest = after;
    record.lengths.map(|length| match length {
        0 => CallString::None,
        UNREADABLE => CallString::Unreadable,
        EMPTY => CallString::Bytes(&[]),
        _ => {
            let (here, next) = rest.split_at((length as usize).min(rest.len()));
            rest = next;
            match here.split_last() {
                Some((_, text)) if here.len() < MOST_STRING => CallString::Bytes(text),
                _ => CallString::Unreadable,
            }
        }
    })
}
