//! Why the server was asked: its operations, joined with a recording of the same run.
//!
//! The kernel tells the server which thread asks. That thread's calls are in the recording, so an
//! operation belongs to the call that its thread was in at that moment; of several calls near it
//! (two clocks never agree quite), to the one whose path the operation's path leads to.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recording::{Attributor, Cause, Event, Nanos, Recording};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::RpcSum;
use crate::{Account, Served};

/// Operations by who asked, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Causes {
    /// By cause, the most frequent first.
    pub causes: Vec<ByCause>,
    /// By program, the most frequent first.
    pub programs: Vec<ByProgram>,
    /// Operations that belong to no recorded call: data that a mapped file needed, and what
    /// becalm or the kernel itself asked.
    pub no_call: RpcSum,
}

/// All operations of one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByCause {
    /// Why.
    pub cause: Cause,
    /// What they have in common.
    #[serde(flatten)]
    pub sum: RpcSum,
}

/// All operations of one program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByProgram {
    /// The file that ran.
    pub program: String,
    /// What they have in common.
    #[serde(flatten)]
    pub sum: RpcSum,
}

/// Two clocks that were read one after the other, on a machine that was busy in between, agree
/// within this time.
const APART: u64 = 20_000_000;

impl Causes {
    /// Joins both.
    pub fn of(account: &Account, recording: &Recording) -> Causes {
        let calls = RecordedCalls::of(account, recording);
        let mut attributor = Attributor::new(recording);
        let mut causes: BTreeMap<Cause, RpcSum> = BTreeMap::new();
        let mut programs: BTreeMap<&[u8], RpcSum> = BTreeMap::new();
        let mut no_call = RpcSum::default();
        for one in &account.served {
            let part = RpcSum::of(one);
            let Some(event) = calls.of_operation(one) else {
                no_call += part;
                continue;
            };
            *causes.entry(attributor.attribute(event).cause).or_default() += part;
            let program = attributor.program(event.process, event.start);
            let program = program.map_or(b"?".as_slice(), |exec| recording.path(exec.image));
            *programs.entry(program).or_default() += part;
        }
        let mut causes: Vec<_> =
            causes.into_iter().map(|(cause, sum)| ByCause { cause, sum }).collect();
        causes.sort_by_key(|row| std::cmp::Reverse(row.sum.rpcs));
        let program =
            |(program, sum): (&[u8], _)| ByProgram { program: recording::shown(program), sum };
        let mut programs: Vec<_> = programs.into_iter().map(program).collect();
        programs.sort_by_key(|row| std::cmp::Reverse(row.sum.rpcs));
        Causes { causes, programs, no_call }
    }
}

/// The account without what the recorder itself asked: it reads the libraries that the command
/// has mapped. What was asked before the first recorded call, by becalm in looking for the command
/// as a shell would, is the command's.
pub(super) fn commands_own(account: &Account, recording: &Recording) -> Account {
    let calls = RecordedCalls::of(account, recording);
    let first = recording.events.iter().map(|event| event.start).min().unwrap_or_default();
    let is_own = |one: &Served| {
        one.thread == 0
            || calls.of_thread.contains_key(&one.thread)
            || calls.in_recording(one.at) <= first
    };
    let mut own = account.clone();
    own.served.retain(is_own);
    for one in account.served.iter().filter(|one| !is_own(one)) {
        let sum = &mut own.sums[one.kind as usize];
        sum.rpcs -= 1;
        sum.enoent -= u64::from(one.enoent);
        sum.queued.0 -= one.queued.0;
        sum.waited.0 -= one.waited.0;
        sum.bytes -= one.bytes;
    }
    own
}

/// A recording's calls, to be found by thread and time.
struct RecordedCalls<'a> {
    account: &'a Account,
    recording: &'a Recording,
    /// Of each thread, in the order of their starts.
    of_thread: FxHashMap<u32, Vec<&'a Event>>,
    /// What is to be added to the account's times to get the recording's.
    ahead: i128,
}

impl<'a> RecordedCalls<'a> {
    fn of(account: &'a Account, recording: &'a Recording) -> RecordedCalls<'a> {
        let mut of_thread: FxHashMap<u32, Vec<&Event>> = FxHashMap::default();
        for event in &recording.events {
            of_thread.entry(event.thread).or_default().push(event);
        }
        for events in of_thread.values_mut() {
            events.sort_by_key(|event| event.start);
        }
        let header = &recording.header;
        let started =
            i128::from(header.started_unix) * 1_000_000_000 + i128::from(header.started_nanos);
        let ahead = i128::from(account.started_unix.0) - started;
        RecordedCalls { account, recording, of_thread, ahead }
    }

    /// A moment of the account, by the recording's clock.
    fn in_recording(&self, at: Nanos) -> Nanos {
        Nanos((i128::from(at.0) + self.ahead).clamp(0, u64::MAX.into()) as u64)
    }

    /// The call in which an operation was asked for.
    fn of_operation(&self, one: &Served) -> Option<&'a Event> {
        let at = self.in_recording(one.at);
        let events = self.of_thread.get(&one.thread)?;
        let before = events.partition_point(|event| event.start.0 <= at.0 + APART);
        let path = self.account.paths[one.path as usize].as_slice();
        // A call ends where the thread's next one starts, or before.
        let mut near = events[..before].iter().rev();
        let mut best: Option<(bool, u64, &Event)> = None;
        let mut ends_too_early = 0;
        for event in near.by_ref() {
            let end = event.start.0 + event.took.0;
            if end + APART < at.0 {
                // Calls of a thread do not overlap, save for one that began another's life.
                ends_too_early += 1;
                if ends_too_early > 2 {
                    break;
                }
                continue;
            }
            let away = event.start.0.saturating_sub(at.0).max(at.0.saturating_sub(end));
            let other = !self.leads_to(event, path);
            if other && away > 0 {
                continue;
            }
            if best.is_none_or(|best| (other, away) < (best.0, best.1)) {
                best = Some((other, away, event));
            }
        }
        best.map(|(_, _, event)| event)
    }

    /// Whether a call's path goes through this one, or is it.
    fn leads_to(&self, event: &Event, path: &[u8]) -> bool {
        [event.path, event.other_path].into_iter().flatten().any(|whole| {
            let whole = self.recording.path(whole);
            let as_path = |bytes| Path::new(std::ffi::OsStr::from_bytes(bytes));
            as_path(whole).starts_with(as_path(path))
        })
    }
}
