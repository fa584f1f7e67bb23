//! A process that stops the threads of its own address space, and looks at them: LeakSanitizer's, at
//! a program's end (compiler-rt, sanitizer_stoptheworld_linux_libcdep.cpp).
//!
//! It attaches to them as their tracer. A thread has one tracer only, which becalm is; so becalm
//! stops them for it, and answers what it asks: attach, wait, registers, detach. To all else, and to
//! whoever would trace another program, the kernel answers, and refuses.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::{Next, Tracer};
use crate::decode::CallEntry;
use crate::memory;
use crate::ptrace::{self, StopChange, StoppedThread, TraceError};

/// A thread that another asked to stop.
struct HeldThread {
    /// Who asked.
    by: i32,
    /// What it stopped at, once it has; taken in when it is let go.
    stop: Option<StoppedThreadAt>,
    /// Where its status goes, while the other waits for it.
    waited_at: Option<u64>,
}

type StoppedThreadAt = (StoppedThread, ptrace::PtraceStop);

/// The threads that are stopped for others.
#[derive(Default)]
pub(super) struct StoppedWorld {
    held: FxHashMap<i32, HeldThread>,
    /// Those that wait for one to stop, and stand still meanwhile.
    waiting: FxHashMap<i32, StoppedThread>,
}

/// Stopped by SIGSTOP, as after PTRACE_ATTACH (wait(2)).
const STOPPED: u32 = (libc::SIGSTOP as u32) << 8 | 0x7f;
/// More than all registers of any processor take.
const MOST_REGISTERS: usize = 64 << 10;
/// NT_PRSTATUS of elf.h: what PTRACE_GETREGS gets.
#[cfg(target_arch = "x86_64")]
const GENERAL: u64 = 1;

impl StoppedWorld {
    /// Keeps a thread that waits for another to stop.
    pub fn wait(&mut self, thread: StoppedThread) {
        self.waiting.insert(thread.tid(), thread);
    }
}

impl Tracer {
    /// Answers a call of ptrace(2) in the kernel's place; none where that is the kernel's.
    pub(super) fn answer_ptrace(
        &mut self,
        thread: &StoppedThread,
        entry: &CallEntry,
    ) -> Result<Option<Next>, TraceError> {
        let [request, target, address, data, ..] = entry.args;
        let (request, target) = (request as libc::c_uint, target as i32);
        let answer = match request {
            libc::PTRACE_ATTACH if self.is_beside(thread.tid(), target) => {
                self.hold(thread.tid(), target)
            }
            _ if self.world.held.get(&target).is_none_or(|held| held.by != thread.tid()) => {
                return Ok(None);
            }
            libc::PTRACE_GETREGSET => registers(thread, target, address, data),
            #[cfg(target_arch = "x86_64")]
            libc::PTRACE_GETREGS => general_registers(thread, target, data),
            libc::PTRACE_DETACH => {
                self.set_free(target);
                0
            }
            _ => return Ok(None),
        };
        thread.answer(answer).map(|()| Some(Next::GoOn(0)))
    }

    /// Answers a wait for a thread that is stopped for the one that waits; none for another wait.
    pub(super) fn answer_wait(
        &mut self,
        thread: &StoppedThread,
        entry: &CallEntry,
    ) -> Result<Option<Next>, TraceError> {
        let target = entry.args[0] as i32;
        let Some(held) = self.world.held.get_mut(&target) else { return Ok(None) };
        if held.by != thread.tid() {
            return Ok(None);
        }
        if held.stop.is_none() {
            held.waited_at = Some(entry.args[1]);
            return Ok(Some(Next::Wait));
        }
        tell_stopped(thread, target, entry.args[1]).map(|()| Some(Next::GoOn(0)))
    }

    /// Whether a thread is of another process in the same memory.
    fn is_beside(&self, tid: i32, target: i32) -> bool {
        let (Some(one), Some(other)) = (self.table.task(tid), self.table.task(target)) else {
            return false;
        };
        Rc::ptr_eq(&one.space, &other.space)
            && one.group != other.group
            && self.injector.is_none()
            && !self.world.held.contains_key(&target)
    }

    fn hold(&mut self, by: i32, target: i32) -> i64 {
        if ptrace::interrupt(target).is_err() {
            return -i64::from(libc::ESRCH);
        }
        self.world.held.insert(target, HeldThread { by, stop: None, waited_at: None });
        0
    }

    /// Keeps the stop of a thread that is to stand still; others are returned.
    pub(super) fn keep_held(&mut self, change: StopChange) -> Option<StopChange> {
        let tid = change.tid();
        let Some(held) = self.world.held.get_mut(&tid) else { return Some(change) };
        let waiting = self.world.waiting.remove(&held.by);
        let (answered, other) = match change {
            StopChange::Stopped(thread, stop) => {
                held.stop = Some((thread, stop));
                let at = held.waited_at.take().unwrap_or(0);
                (waiting.as_ref().map(|waiting| tell_stopped(waiting, tid, at)), None)
            }
            ended => {
                if let Some((thread, _)) = self.world.held.remove(&tid).and_then(|held| held.stop) {
                    thread.killed();
                }
                let gone = -i64::from(libc::ECHILD);
                (waiting.as_ref().map(|waiting| waiting.answer(gone)), Some(ended))
            }
        };
        if let Some(waiting) = waiting {
            let next = answered.unwrap_or(Ok(())).map(|()| Next::GoOn(0));
            self.carry_on(waiting, ptrace::PtraceStop::Call, next);
        }
        other
    }

    /// Lets a thread go on as if nobody had held it.
    fn set_free(&mut self, target: i32) {
        if let Some((thread, stop)) = self.world.held.remove(&target).and_then(|held| held.stop) {
            self.take_in(StopChange::Stopped(thread, stop));
        }
    }

    /// A thread is gone: whom it held go on.
    pub(super) fn set_free_all_of(&mut self, by: i32) {
        if let Some(thread) = self.world.waiting.remove(&by) {
            thread.killed();
        }
        let held: Vec<i32> =
            self.world.held.iter().filter(|(_, held)| held.by == by).map(|(tid, _)| *tid).collect();
        held.into_iter().for_each(|target| self.set_free(target));
    }

    /// Nobody stands still for another any more.
    pub(super) fn set_free_all(&mut self) {
        for (_, thread) in std::mem::take(&mut self.world.waiting) {
            self.go_on(thread, 0);
        }
        let held: Vec<i32> = self.world.held.keys().copied().collect();
        held.into_iter().for_each(|target| self.set_free(target));
    }
}

/// Tells a thread in wait4 that the one it waits for has stopped.
fn tell_stopped(thread: &StoppedThread, target: i32, at: u64) -> Result<(), TraceError> {
    if at != 0 {
        let written = memory::write(thread.tid(), at, &STOPPED.to_ne_bytes());
        written.map_err(|error| TraceError::of("process_vm_writev of a status", error))?;
    }
    thread.answer(i64::from(target))
}

/// PTRACE_GETREGSET: what a call returns that asks for registers, with where they go.
fn registers(thread: &StoppedThread, target: i32, kind: u64, data: u64) -> i64 {
    let (Ok(base), Ok(length)) = (
        memory::read_u64(thread.tid(), data),
        memory::read_u64(thread.tid(), data.wrapping_add(8)),
    ) else {
        return -i64::from(libc::EFAULT);
    };
    match copied_registers(thread, target, kind, base, length) {
        Ok(got) => match memory::write_u64(thread.tid(), data.wrapping_add(8), got) {
            Ok(()) => 0,
            Err(_) => -i64::from(libc::EFAULT),
        },
        Err(error) => error,
    }
}

#[cfg(target_arch = "x86_64")]
fn general_registers(thread: &StoppedThread, target: i32, data: u64) -> i64 {
    let size = size_of::<libc::user_regs_struct>() as u64;
    copied_registers(thread, target, GENERAL, data, size).map_or_else(|error| error, |_| 0)
}

/// Copies registers of one thread into the memory of another; how many bytes, or what the call
/// returns instead.
fn copied_registers(
    thread: &StoppedThread,
    target: i32,
    kind: u64,
    base: u64,
    length: u64,
) -> Result<u64, i64> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0).min(MOST_REGISTERS)];
    let got = ptrace::register_set(target, kind as usize, &mut bytes);
    let got = got.map_err(|_| -i64::from(libc::EINVAL))?;
    let written = memory::write(thread.tid(), base, &bytes[..got]);
    written.map_err(|_| -i64::from(libc::EFAULT))?;
    Ok(got as u64)
}
