//! Delays after calls, so that a call takes as long as it would elsewhere.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use recording::{Event, Nanos};
use rustc_hash::FxHashMap;

use crate::ptrace::StoppedThread;
use crate::task::PendingCall;
use crate::{clock, signals};

/// The moments, by CLOCK_MONOTONIC, until which a thread is delayed: the next is asked for when
/// the one before has come, and after the last the thread goes on. Whoever simulates a queue can
/// so join it when it is time to. Dropped unfinished if the thread ends.
pub type Deadlines = Box<dyn Iterator<Item = Nanos>>;

/// A call that a filesystem has served, when it returns.
#[derive(Clone, Copy, Debug)]
pub struct ReturnedCall<'a> {
    /// The call. Its time is that of the call itself, counted from the recording's start.
    pub event: &'a Event,
    /// When it was made, by CLOCK_MONOTONIC.
    pub made: Nanos,
    /// The full path that it was about.
    pub path: Option<&'a [u8]>,
    /// The second one of `rename` and `link`.
    pub other_path: Option<&'a [u8]>,
}

/// Decides how long calls take. It lives in the recorder's process, not in the caller's.
pub trait DelayPolicy {
    /// A call that is metadata ([`Event::is_metadata`]) returns: until when its thread is
    /// delayed, or none.
    fn delay(&mut self, call: &ReturnedCall<'_>) -> Option<Deadlines>;

    /// The command has ended, and the front is about to hear of it; called once more when all
    /// that it left running has ended, too.
    fn command_ended(&mut self) {}
}

/// The last stretch of a wait is spent awake: a sleep may end this much too late.
const AWAKE: Nanos = Nanos(60_000);

/// How often threads that are delayed for long are looked at, if they are no more than a crowd: a
/// signal that ends their process is not kept waiting longer than this.
const LOOK: Nanos = Nanos(50_000_000);
const CROWD: usize = 64;

/// Keeps threads stopped at the end of their calls for as long as a policy says.
pub(crate) struct DelayInjector {
    policy: Box<dyn DelayPolicy>,
    delayed: FxHashMap<i32, DelayedThread>,
    /// When a delayed thread's deadline comes. What no longer agrees with `delayed` is void.
    due: BinaryHeap<Reverse<(Nanos, i32)>>,
    /// CLOCK_MONOTONIC at the recording's start.
    origin: Nanos,
    switching: SwitchTime,
    looked: Nanos,
}

/// A delay that was decided on, of a thread that still stands at the end of its call.
pub(crate) struct Delay {
    until: Nanos,
    deadlines: Deadlines,
    /// The call, which is recorded when the thread goes on.
    event: Event,
}

struct DelayedThread {
    thread: StoppedThread,
    delay: Delay,
}

impl DelayInjector {
    /// `since_start` is what the recording's clock shows at this moment.
    pub fn new(policy: Box<dyn DelayPolicy>, since_start: Nanos) -> DelayInjector {
        let now = clock::now();
        clock::sleep_exactly();
        clock::hear_of_children();
        DelayInjector::beginning(policy, Nanos(now.0.saturating_sub(since_start.0)), now)
    }

    fn beginning(policy: Box<dyn DelayPolicy>, origin: Nanos, now: Nanos) -> DelayInjector {
        DelayInjector {
            policy,
            delayed: FxHashMap::default(),
            due: BinaryHeap::new(),
            origin,
            switching: SwitchTime::default(),
            looked: now,
        }
    }

    /// Whether the thread of this call, which stands at its end, is to be delayed. The event is
    /// then recorded once it goes on.
    pub fn decide(&mut self, event: &Event, pending: &PendingCall, now: Nanos) -> Option<Delay> {
        self.switching.call_ended(event.thread as i32, now);
        if !event.is_metadata() {
            return None;
        }
        let call = ReturnedCall {
            event,
            made: self.origin + event.start,
            path: pending.path.as_ref().map(|path| &*path.bytes),
            other_path: pending.other_path.as_ref().map(|path| &*path.bytes),
        };
        let mut deadlines = self.policy.delay(&call)?;
        let until = deadlines.find(|until| *until > self.switching.ahead(now))?;
        Some(Delay { until, deadlines, event: *event })
    }

    /// Keeps a thread stopped.
    pub fn inject(&mut self, thread: StoppedThread, delay: Delay) {
        self.due.push(Reverse((delay.until, thread.tid())));
        self.delayed.insert(thread.tid(), DelayedThread { thread, delay });
    }

    /// A thread went on a moment ago, into its call if it was at the start of one.
    pub fn went_on(&mut self, tid: i32, now: Nanos) {
        self.switching.last = Some((tid, now));
    }

    /// For how long nothing has to be done, if anybody is delayed; none where nobody is.
    pub fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let (until, _) = self.next()?;
        let awake_from = until.0.saturating_sub(AWAKE.0);
        Some(Nanos(awake_from.saturating_sub(now.0)).min(LOOK))
    }

    /// When the next delayed thread's deadline comes.
    fn next(&mut self) -> Option<(Nanos, i32)> {
        loop {
            let Reverse((until, tid)) = *self.due.peek()?;
            if self.delayed.get(&tid).is_some_and(|delayed| delayed.delay.until == until) {
                return Some((until, tid));
            }
            self.due.pop();
        }
    }

    /// The next thread whose delay is over, and its call.
    pub fn expired(&mut self, now: Nanos) -> Option<(StoppedThread, Event)> {
        let ahead = self.switching.ahead(now);
        while let Some((until, tid)) = self.next() {
            if until > ahead {
                return None;
            }
            self.due.pop();
            let delay = &mut self.delayed.get_mut(&tid)?.delay;
            match delay.deadlines.find(|until| *until > ahead) {
                None => return self.take(tid),
                Some(until) => {
                    delay.until = until;
                    self.due.push(Reverse((until, tid)));
                }
            }
        }
        None
    }

    /// Delayed threads whose process a signal is about to end. A filesystem's wait can be killed
    /// (the kernel's TASK_KILLABLE); a signal with a handler waits for the call's end there, too.
    pub fn doomed(&mut self, now: Nanos) -> Vec<(StoppedThread, Event)> {
        let pause = LOOK.0 * (1 + self.delayed.len() / CROWD) as u64;
        if now.0.saturating_sub(self.looked.0) < pause {
            return Vec::new();
        }
        self.looked = now;
        let doomed = self.delayed.keys().copied().filter(|tid| signals::is_doomed(*tid));
        doomed.collect::<Vec<i32>>().into_iter().filter_map(|tid| self.take(tid)).collect()
    }

    /// Everybody who is delayed.
    pub fn all(&mut self) -> Vec<(StoppedThread, Event)> {
        let all: Vec<i32> = self.delayed.keys().copied().collect();
        all.into_iter().filter_map(|tid| self.take(tid)).collect()
    }

    /// A thread is gone. If it was delayed, its call ends now.
    pub fn vanished(&mut self, tid: i32) -> Option<Event> {
        let (thread, event) = self.take(tid)?;
        thread.killed();
        Some(event)
    }

    fn take(&mut self, tid: i32) -> Option<(StoppedThread, Event)> {
        let DelayedThread { thread, delay } = self.delayed.remove(&tid)?;
        Some((thread, delay.event))
    }

    /// The command has ended, or all of it.
    pub fn command_ended(&mut self) {
        self.policy.command_ended();
    }
}

/// What it takes to get from a thread to the tracer and back, which a call's delay includes.
///
/// It is seen at every call that stops twice: from where the tracer lets the thread into its
/// call to where it sees the end of it. The least of the last hundred or so is what no call
/// gets around.
#[derive(Default)]
struct SwitchTime {
    last: Option<(i32, Nanos)>,
    seen: u32,
    least: Option<Nanos>,
    least_before: Option<Nanos>,
}

impl SwitchTime {
    const WINDOW: u32 = 64;

    fn call_ended(&mut self, tid: i32, now: Nanos) {
        // Only of a thread that nothing came between.
        let Some((_, began)) = self.last.take().filter(|(last, _)| *last == tid) else { return };
        let took = Nanos(now.0.saturating_sub(began.0));
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        self.seen += 1;
        if self.seen == SwitchTime::WINDOW {
            self.seen = 0;
            self.least_before = self.least.take();
        }
    }

    /// When a thread that is let go on now will be back in its program.
    fn ahead(&self, now: Nanos) -> Nanos {
        now + self.least.into_iter().chain(self.least_before).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
