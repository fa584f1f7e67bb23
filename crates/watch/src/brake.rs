//! Holding threads back after their calls, so that a call takes as long as it would elsewhere.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;

use recording::{Event, Nanos};

use crate::task::Pending;
use crate::tracer::{Tracer, Waited, wait};
use crate::{clock, signals};

/// The moments, by CLOCK_MONOTONIC, until which a thread is held: the next is asked for when the
/// one before has come, and after the last the thread goes on. Whoever simulates a queue can so
/// join it when it is time to. Dropped unfinished if the thread ends.
pub type Moments = Box<dyn Iterator<Item = Nanos>>;

/// A call that a filesystem has served, when it returns.
#[derive(Clone, Copy, Debug)]
pub struct Returned<'a> {
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
pub trait Brake {
    /// A call that is metadata ([`Event::is_metadata`]) returns: until when its thread is held,
    /// or none.
    fn hold(&mut self, call: &Returned<'_>) -> Option<Moments>;

    /// The command has ended, and the front is about to hear of it; called once more when all
    /// that it left running has ended, too.
    fn settle(&mut self) {}
}

/// The last stretch of a wait is spent awake: a sleep may end this much too late.
const AWAKE: Nanos = Nanos(60_000);

/// How often threads that are held for long are looked at, if they are no more than a crowd: a
/// signal that ends their process is not kept waiting longer than this.
const LOOK: Nanos = Nanos(50_000_000);
const CROWD: usize = 64;

/// The brake, and whom it holds.
pub(crate) struct Braking {
    brake: Box<dyn Brake>,
    held: HashMap<i32, Held>,
    /// When a held thread's moment comes. What no longer agrees with `held` is void.
    due: BinaryHeap<Reverse<(Nanos, i32)>>,
    /// CLOCK_MONOTONIC at the recording's start.
    origin: Nanos,
    switching: Switching,
    looked: Nanos,
}

/// A thread that is kept stopped at the end of its call.
struct Held {
    until: Nanos,
    moments: Moments,
    /// The call, which is recorded when the thread goes on.
    event: Event,
}

impl Braking {
    /// `since_start` is what the recording's clock shows at this moment.
    pub fn new(brake: Box<dyn Brake>, since_start: Nanos) -> Braking {
        let now = clock::now();
        clock::sleep_exactly();
        clock::hear_of_children();
        Braking {
            brake,
            held: HashMap::new(),
            due: BinaryHeap::new(),
            origin: Nanos(now.0.saturating_sub(since_start.0)),
            switching: Switching::default(),
            looked: now,
        }
    }

    /// Whether the thread of this call, which stands at its end, is held from now on. The event
    /// is then recorded once it goes on.
    pub fn holds(&mut self, event: &Event, pending: &Pending) -> bool {
        let (tid, now) = (event.thread as i32, clock::now());
        self.switching.call_ended(tid, now);
        if !event.is_metadata() {
            return false;
        }
        let call = Returned {
            event,
            made: self.origin + event.start,
            path: pending.path.as_ref().map(|path| &*path.bytes),
            other_path: pending.other_path.as_ref().map(|path| &*path.bytes),
        };
        let Some(mut moments) = self.brake.hold(&call) else { return false };
        let Some(until) = moments.find(|until| *until > self.switching.ahead(now)) else {
            return false;
        };
        self.due.push(Reverse((until, tid)));
        self.held.insert(tid, Held { until, moments, event: *event });
        true
    }

    /// A thread went on a moment ago, into its call if it was at the start of one.
    pub fn went_on(&mut self, tid: i32) {
        self.switching.last = Some((tid, clock::now()));
    }

    /// Whether a thread is held.
    pub fn has(&self, tid: i32) -> bool {
        self.held.contains_key(&tid)
    }

    /// When the next held thread's moment comes.
    fn next(&mut self) -> Option<(Nanos, i32)> {
        loop {
            let Reverse((until, tid)) = *self.due.peek()?;
            if self.held.get(&tid).is_some_and(|held| held.until == until) {
                return Some((until, tid));
            }
            self.due.pop();
        }
    }

    /// The next thread that may go on.
    fn free(&mut self) -> Option<i32> {
        while let Some((until, tid)) = self.next() {
            let ahead = self.switching.ahead(clock::now());
            if until > ahead {
                return None;
            }
            self.due.pop();
            let held = self.held.get_mut(&tid)?;
            match held.moments.find(|until| *until > ahead) {
                None => return Some(tid),
                Some(until) => {
                    held.until = until;
                    self.due.push(Reverse((until, tid)));
                }
            }
        }
        None
    }

    /// Held threads whose process a signal is about to end. A filesystem's wait can be killed
    /// (the kernel's TASK_KILLABLE); a signal with a handler waits for the call's end there, too.
    fn doomed(&mut self) -> Vec<i32> {
        let now = clock::now();
        let pause = LOOK.0 * (1 + self.held.len() / CROWD) as u64;
        if now.0.saturating_sub(self.looked.0) < pause {
            return Vec::new();
        }
        self.looked = now;
        self.held.keys().copied().filter(|tid| signals::is_doomed(*tid)).collect()
    }
}

/// What it takes to get from a thread to the tracer and back, which a call's delay includes.
///
/// It is seen at every call that stops twice: from where the tracer lets the thread into its
/// call to where it sees the end of it. The least of the last hundred or so is what no call
/// gets around.
#[derive(Default)]
struct Switching {
    last: Option<(i32, Nanos)>,
    seen: u32,
    least: Option<Nanos>,
    least_before: Option<Nanos>,
}

impl Switching {
    const WINDOW: u32 = 64;

    fn call_ended(&mut self, tid: i32, now: Nanos) {
        // Only of a thread that nothing came between.
        let Some((_, began)) = self.last.take().filter(|(last, _)| *last == tid) else { return };
        let took = Nanos(now.0.saturating_sub(began.0));
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        self.seen += 1;
        if self.seen == Switching::WINDOW {
            self.seen = 0;
            self.least_before = self.least.take();
        }
    }

    /// When a thread that is let go on now will be back in its program.
    fn ahead(&self, now: Nanos) -> Nanos {
        now + self.least.into_iter().chain(self.least_before).min().unwrap_or_default()
    }
}

impl Tracer {
    /// Waits for a change of a child; threads whose moment comes meanwhile go on.
    pub fn wait_among_held(&mut self) -> io::Result<Waited> {
        loop {
            self.release();
            let Some(braking) = &mut self.braking else { return wait(-1, 0) };
            let Some((until, _)) = braking.next() else { return wait(-1, 0) };
            match wait(-1, libc::WNOHANG)? {
                Waited::Nothing => {}
                other => return Ok(other),
            }
            let awake_from = until.0.saturating_sub(AWAKE.0);
            let left = Nanos(awake_from.saturating_sub(clock::now().0));
            if left > Nanos(0) {
                clock::wait_for_child(left.min(LOOK));
            }
        }
    }

    fn release(&mut self) {
        while let Some(tid) = self.braking.as_mut().and_then(Braking::free) {
            self.let_go(tid);
        }
        let doomed = self.braking.as_mut().map(Braking::doomed).unwrap_or_default();
        doomed.into_iter().for_each(|tid| self.let_go(tid));
    }

    fn let_go(&mut self, tid: i32) {
        // It can have been killed: then its end comes next.
        let _ = self.go_on(tid, 0);
        self.let_off(tid);
    }

    /// The command has ended, or all of it.
    pub fn settle_brake(&mut self) {
        if let Some(braking) = &mut self.braking {
            braking.brake.settle();
        }
    }

    /// A thread is held no longer: it goes on, or it is gone. Its call ends now.
    pub fn let_off(&mut self, tid: i32) {
        let Some(held) = self.braking.as_mut().and_then(|braking| braking.held.remove(&tid)) else {
            return;
        };
        let took = Nanos(self.log.now().0.saturating_sub(held.event.start.0));
        self.log.call(Event { took, ..held.event });
    }
}
