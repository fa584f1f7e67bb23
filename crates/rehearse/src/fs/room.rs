//! Where answers wait until their time has come.
//!
//! A thread that reads the kernel's questions must not wait itself: others ask meanwhile. One
//! thread gives out all answers, each at its time, to the microsecond.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use proc::ProcessStatus;
use recording::Nanos;

use crate::clock;

/// Gives an answer to the kernel.
type ReplyWork = Box<dyn FnOnce() + Send>;

/// Answers whose time has not come.
pub(super) struct WaitingRoom {
    shared: Arc<RoomState>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct RoomState {
    waiting: Mutex<DelayedReplies>,
    first_changed: Condvar,
    long_wait: Condvar,
}

#[derive(Default)]
struct DelayedReplies {
    answers: BinaryHeap<Reverse<DelayedReply>>,
    number: u64,
    closed: bool,
}

struct DelayedReply {
    due: Nanos,
    number: u64,
    thread: u32,
    answer: ReplyWork,
}

/// Shorter waits are spent by whoever has the answer: handing it over takes about as long.
const SHORT: Nanos = Nanos(60_000);
/// After so long a wait somebody looks whether the one who asked was killed meanwhile.
const LONG: Duration = Duration::from_millis(20);

impl WaitingRoom {
    pub fn open() -> std::io::Result<WaitingRoom> {
        let shared = Arc::new(RoomState::default());
        let mut room = WaitingRoom { shared: shared.clone(), threads: Vec::new() };
        let start = |name: &str, run: fn(&RoomState)| {
            let shared = shared.clone();
            std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared))
        };
        room.threads.push(start("answers", RoomState::give_out)?);
        room.threads.push(start("killed", RoomState::look_for_killed)?);
        Ok(room)
    }

    /// Gives the answer at its time. `thread` is the one that waits for it.
    pub fn hold(&self, due: Nanos, thread: u32, answer: impl FnOnce() + Send + 'static) {
        let left = due.0.saturating_sub(clock::now().0);
        if left < SHORT.0 {
            clock::spin_until(due);
            return answer();
        }
        let mut waiting = self.shared.waiting();
        waiting.number += 1;
        let number = waiting.number;
        waiting.answers.push(Reverse(DelayedReply {
            due,
            number,
            thread,
            answer: Box::new(answer),
        }));
        let is_first = waiting.answers.peek().is_some_and(|Reverse(held)| held.number == number);
        drop(waiting);
        if is_first {
            self.shared.first_changed.notify_one();
        }
        if u128::from(left) > LONG.as_nanos() {
            self.shared.long_wait.notify_one();
        }
    }
}

impl Drop for WaitingRoom {
    fn drop(&mut self) {
        self.shared.waiting().closed = true;
        self.shared.first_changed.notify_one();
        self.shared.long_wait.notify_one();
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

impl RoomState {
    fn give_out(&self) {
        clock::wake_on_time();
        let mut waiting = self.waiting();
        while !waiting.closed {
            let Some(due) = waiting.answers.peek().map(|Reverse(held)| held.due) else {
                waiting = wait(&self.first_changed, waiting, None);
                continue;
            };
            if let Some(sleep) = clock::sleep_before(due, clock::now()) {
                waiting = wait(&self.first_changed, waiting, Some(sleep));
                continue;
            }
            let next = waiting.answers.pop();
            drop(waiting);
            if let Some(Reverse(held)) = next {
                clock::spin_until(held.due);
                held.give();
            }
            waiting = self.waiting();
        }
    }

    /// A process in a question cannot end before the answer is there, so who was killed gets it
    /// at once.
    fn look_for_killed(&self) {
        let mut waiting = self.waiting();
        while !waiting.closed {
            let long = clock::now().0 + LONG.as_nanos() as u64;
            let late =
                |Reverse(held): &&Reverse<DelayedReply>| held.due.0 > long && held.thread != 0;
            let asking: Vec<u32> =
                waiting.answers.iter().filter(late).map(|Reverse(held)| held.thread).collect();
            if asking.is_empty() {
                waiting = wait(&self.long_wait, waiting, None);
                continue;
            }
            drop(waiting);
            std::thread::sleep(LONG);
            let killed: Vec<u32> = asking.into_iter().filter(|thread| is_killed(*thread)).collect();
            waiting = self.waiting();
            if killed.is_empty() {
                continue;
            }
            let (now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut waiting.answers)
                .into_iter()
                .partition(|Reverse(held)| killed.contains(&held.thread));
            waiting.answers = later.into();
            drop(waiting);
            now.into_iter().for_each(|Reverse(held)| held.give());
            waiting = self.waiting();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, DelayedReplies> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait<'a>(
    condition: &Condvar,
    guard: MutexGuard<'a, DelayedReplies>,
    time: Option<Duration>,
) -> MutexGuard<'a, DelayedReplies> {
    match time {
        Some(time) => condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0,
        None => condition.wait(guard).unwrap_or_else(PoisonError::into_inner),
    }
}

/// Whether SIGKILL waits for a thread. Any signal that ends a process is turned into it
/// (kernel/signal.c, `complete_signal`).
fn is_killed(thread: u32) -> bool {
    let Some(status) = i32::try_from(thread).ok().and_then(ProcessStatus::of) else { return false };
    let pending = ["SigPnd", "ShdPnd"].map(|set| status.mask(set).unwrap_or(0));
    (pending[0] | pending[1]) & (1 << (libc::SIGKILL - 1)) != 0
}

impl DelayedReply {
    fn give(self) {
        // A panic ends with the answer dropped, which the kernel gets as EIO.
        catch_unwind(AssertUnwindSafe(self.answer)).ok();
    }
}

impl PartialEq for DelayedReply {
    fn eq(&self, other: &DelayedReply) -> bool {
        self.number == other.number
    }
}
impl Eq for DelayedReply {}
impl PartialOrd for DelayedReply {
    fn partial_cmp(&self, other: &DelayedReply) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for DelayedReply {
    fn cmp(&self, other: &DelayedReply) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}
