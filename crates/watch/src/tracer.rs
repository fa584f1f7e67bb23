//! The tracer: waits for what happens to any traced thread, takes it in, lets the thread go on.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::rc::Rc;

use recording::{Call, Nanos, Outcome, Phase, Record, Usage};

use crate::bind::Binder;
use crate::brake::Braking;
use crate::calls::{self, Entry};
use crate::log::Log;
use crate::message::{Message, Messages};
use crate::observer::Observer;
use crate::ptrace::{self, Resume, Source, SyscallInfo};
use crate::shape::{Shapes, Special};
use crate::tapped::Tapped;
use crate::task::{Process, Task};
use crate::{arch, filter, signals};

/// Threads further down the kernel's list must get their turn when the first one stops
/// thousands of times a second: after so many stops, all that wait are served once.
const FAIR: u32 = 64;

/// How often it is looked which threads sleep, and among how many at most.
const LOOK: Nanos = Nanos(10_000_000);
const CROWD: usize = 64;

/// How calls are seen.
pub(crate) struct Seeing {
    pub shapes: Rc<Shapes>,
    /// Whether a seccomp filter chooses the calls, or every call stops.
    pub filtered: bool,
    pub source: Source,
    pub tapped: Option<Tapped>,
    pub braking: Option<Braking>,
    pub observer: Option<Box<dyn Observer>>,
}

/// One answer of `wait4`.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    pub tid: i32,
    pub status: i32,
    pub usage: libc::rusage,
}

/// Everything that the tracer knows.
pub(crate) struct Tracer {
    pub log: Log,
    pub shapes: Rc<Shapes>,
    pub tasks: HashMap<i32, Task>,
    pub processes: HashMap<i32, Process>,
    /// Ended, and not yet waited for by their parents: what they used.
    pub zombies: HashMap<i32, Usage>,
    /// Children that stopped before their parent's event told of them.
    pub early: HashMap<i32, VecDeque<Change>>,
    /// Threads that are in a call that the tracer will see the end of.
    pub in_call: usize,
    /// Threads that were found asleep, and when it was looked last.
    pub asleep: usize,
    looked: Nanos,
    pub binder: Binder,
    pub main: i32,
    pub messages: Messages,
    /// Whether a seccomp filter chooses the calls, or every call stops.
    pub filtered: bool,
    pub privileged: bool,
    pub source: Source,
    pub tapped: Option<Tapped>,
    pub braking: Option<Braking>,
    pub observer: Option<Box<dyn Observer>>,
}

/// What came of waiting.
pub(crate) enum Waited {
    Change(Change),
    /// Nothing has changed (with WNOHANG).
    Nothing,
    /// There is no child left.
    Nobody,
}

/// Waits for a change of a child, or of any (-1).
pub(crate) fn wait(tid: i32, flags: i32) -> io::Result<Waited> {
    // SAFETY: rusage is plain numbers, for which zero is a valid value.
    let mut change = Change { tid: 0, status: 0, usage: unsafe { std::mem::zeroed() } };
    // SAFETY: the kernel fills the two values, which outlive the call.
    change.tid =
        unsafe { libc::wait4(tid, &mut change.status, libc::__WALL | flags, &mut change.usage) };
    match change.tid {
        0 => Ok(Waited::Nothing),
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EINTR) => Ok(Waited::Nothing),
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(Waited::Nobody),
            error => Err(error),
        },
        _ => Ok(Waited::Change(change)),
    }
}

impl Tracer {
    pub fn new(main: i32, log: Log, binder: Binder, messages: Messages, seeing: Seeing) -> Tracer {
        let Seeing { shapes, filtered, source, tapped, braking, observer } = seeing;
        Tracer {
            log,
            shapes,
            tasks: HashMap::new(),
            processes: HashMap::new(),
            zombies: HashMap::new(),
            early: HashMap::new(),
            in_call: 0,
            asleep: 0,
            looked: Nanos(0),
            binder,
            main,
            messages,
            filtered,
            // SAFETY: a system call without arguments.
            privileged: unsafe { libc::geteuid() } == 0,
            source,
            tapped,
            braking,
            observer,
        }
    }

    /// Follows the command and all it starts, until the last has ended.
    pub fn follow(&mut self) -> io::Result<()> {
        let mut served = 0;
        loop {
            let waited = if self.braking.is_some() { self.wait_among_held() } else { wait(-1, 0) };
            match waited? {
                Waited::Change(change) => self.take_in(change),
                Waited::Nothing => {}
                Waited::Nobody => return Ok(()),
            }
            served += 1;
            if served % FAIR == 0 && self.tasks.len() > 1 {
                let mut ready = Vec::new();
                while let Waited::Change(change) = wait(-1, libc::WNOHANG)? {
                    ready.push(change);
                }
                ready.into_iter().for_each(|change| self.take_in(change));
            }
        }
    }

    pub fn take_in(&mut self, change: Change) {
        let Change { tid, status, .. } = change;
        self.drain();
        self.broke_off(tid, status);
        if let Some(task) = self.tasks.get_mut(&tid) {
            self.asleep -= usize::from(std::mem::take(&mut task.asleep));
        }
        if !self.tasks.contains_key(&tid) {
            self.early.entry(tid).or_default().push_back(change);
            self.adopt_orphans();
            return;
        }
        if !libc::WIFSTOPPED(status) {
            return self.ended(change);
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        // Any of these can fail with ESRCH: the thread was killed, and its end comes next.
        let done = match event {
            0 if signal == libc::SIGTRAP | 0x80 => {
                let entry = !self.filtered && self.turn(tid);
                self.at_call(tid, entry)
            }
            libc::PTRACE_EVENT_SECCOMP => self.at_call(tid, true),
            0 => self.at_signal(tid, signal),
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                self.at_fork(tid)
            }
            libc::PTRACE_EVENT_EXEC => self.at_exec(tid),
            libc::PTRACE_EVENT_EXIT => self.at_exit(tid),
            libc::PTRACE_EVENT_STOP => self.at_stop(tid, signal),
            _ => self.go_on(tid, 0),
        };
        let _ = done;
    }

    /// Lets a stopped thread go on, to the exit of the call that it is in, if it is in one.
    pub fn go_on(&mut self, tid: i32, signal: i32) -> io::Result<()> {
        let in_call = self.tasks.get(&tid).is_some_and(|task| task.pending.is_some());
        let how = if in_call || !self.filtered { Resume::Syscall } else { Resume::Cont };
        // A thread in a call of its own may be asleep; all others can run.
        let others_quiet = self.in_call - usize::from(in_call) + self.asleep;
        if others_quiet + 1 == self.tasks.len() {
            self.binder.alone(tid);
        } else {
            let now = self.log.now();
            self.binder.among_others(now);
            self.look_who_sleeps(tid, now);
        }
        ptrace::resume(tid, how, signal)
    }

    /// Threads also sleep in calls that do not stop, as a pool's do in futex. Until it stops, a
    /// thread that the kernel shows asleep is taken for one that cannot run; should it run all
    /// the same, it has all its CPUs.
    fn look_who_sleeps(&mut self, awake: i32, now: Nanos) {
        if now.0.saturating_sub(self.looked.0) < LOOK.0 || self.tasks.len() > CROWD {
            return;
        }
        self.looked = now;
        for task in self.tasks.values_mut() {
            if task.tid != awake
                && task.pending.is_none()
                && !task.asleep
                && proc::ProcessStat::of(task.tid).is_some_and(|stat| stat.is_asleep())
            {
                task.asleep = true;
                self.asleep += 1;
            }
        }
    }

    /// Where every call stops, a thread's stops are entries and exits by turns; whether this
    /// one is an entry.
    fn turn(&mut self, tid: i32) -> bool {
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        task.inside = !task.inside;
        task.inside
    }

    fn at_call(&mut self, tid: i32, entry: bool) -> io::Result<()> {
        match self.syscall_info(tid, entry)? {
            SyscallInfo::Entry { arch, ip, number, args, filter } => {
                if filter.is_some_and(|mark| mark != filter::MARK) {
                    self.refuse_foreign_stop(tid)?;
                } else {
                    let (abi, number) = arch::table(arch, number);
                    let call = Call::new(abi, number);
                    let shape = self.shapes.of(call);
                    if shape.recorded || shape.special != Special::None {
                        self.enter(tid, &Entry { call, shape, args, ip })?;
                    }
                }
            }
            SyscallInfo::Exit { value, failed } => {
                self.leave(tid, value, failed);
                if self.braking.as_ref().is_some_and(|braking| braking.has(tid)) {
                    return Ok(());
                }
            }
            SyscallInfo::None { .. } => {}
        }
        self.go_on(tid, 0)?;
        if let Some(braking) = &mut self.braking {
            braking.went_on(tid);
        }
        Ok(())
    }

    fn syscall_info(&self, tid: i32, entry: bool) -> io::Result<SyscallInfo> {
        let info = ptrace::syscall_info(tid, self.source, entry)?;
        match info {
            // Registers do not hold the filter's mark; the event's message does.
            SyscallInfo::Entry { arch, ip, number, args, filter: None } if self.filtered => {
                let filter = Some(ptrace::event_message(tid)? as u32);
                Ok(SyscallInfo::Entry { arch, ip, number, args, filter })
            }
            info => Ok(info),
        }
    }

    /// A filter of the command's own asked for a tracer. Without becalm there would be none,
    /// and the call would fail with ENOSYS (seccomp(2)).
    fn refuse_foreign_stop(&mut self, tid: i32) -> io::Result<()> {
        let mut registers = ptrace::registers(tid)?;
        arch::refuse_call(&mut registers, libc::ENOSYS);
        ptrace::set_registers(tid, &registers)
    }

    fn enter(&mut self, tid: i32, entry: &Entry) -> io::Result<()> {
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        match entry.shape.special {
            Special::Affinity => self.binder.stop(),
            Special::StackLimit => {
                // The C library asks for its stack's limit once everything is loaded, before
                // any constructor: where that call comes from ends the loader's phase.
                let mut space = task.space.borrow_mut();
                if !space.site(entry.ip).in_loader {
                    // Where mappings are not followed, the C library's is not known.
                    space.phase = Phase::Running;
                }
            }
            Special::Locale if !opens_locale(tid, entry) => return Ok(()),
            Special::Told => {
                self.hear(tid, entry.args[0]);
                return Ok(());
            }
            _ => {}
        }
        if !entry.shape.recorded && only_entry_matters(entry.shape.special) {
            return Ok(());
        }
        self.look_at_exec(tid, entry.shape.special);
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        calls::enter(task, &mut self.log, entry);
        self.in_call += 1;
        let Some(pending) = &task.pending else { return Ok(()) };
        if pending.path.as_ref().is_some_and(|path| tells_affinity(&path.bytes)) {
            self.binder.stop();
        }
        self.forbid_untraced_clone(tid)
    }

    fn leave(&mut self, tid: i32, value: i64, failed: bool) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        if task.pending.is_some() {
            self.in_call -= 1;
        }
        let outcome = if failed {
            Outcome::Failed(value.unsigned_abs().min(4095) as u16)
        } else {
            Outcome::Returned(value)
        };
        let left = calls::leave(task, &mut self.log, self.braking.as_mut(), outcome);
        let Some(pending) = left else { return };
        if let Some((abi, flags)) = task.put_back.take() {
            put_back_argument(tid, abi, flags);
        }
        if pending.shape.special == Special::Clone3 && pending.clone_flags != 0 {
            // Without the flag this writes what is there.
            if pending.clone_flags & libc::CLONE_UNTRACED as u64 != 0 {
                let _ = crate::memory::write_u64(tid, pending.args[0], pending.clone_flags);
            }
        }
        let group = task.group;
        match (pending.shape.special, outcome) {
            (Special::Rename, Outcome::Returned(_)) => {
                if let Some(path) = &pending.path {
                    self.renamed(&path.bytes);
                }
            }
            (Special::Wait, Outcome::Returned(child)) => self.reaped(group, child as i32),
            (Special::Waitid, Outcome::Returned(_)) => {
                // siginfo_t: the process id is its fifth number. WNOWAIT leaves the zombie.
                if pending.args[3] & libc::WNOWAIT as u64 == 0
                    && let Ok(id) = crate::memory::read_u64(tid, pending.args[2].wrapping_add(16))
                {
                    self.reaped(group, id as i32);
                }
            }
            _ => {}
        }
    }

    /// What was below a renamed directory has another path now, which the kernel must be asked.
    fn renamed(&mut self, old: &[u8]) {
        for task in self.tasks.values() {
            let mut directories = task.directories.borrow_mut();
            if directories.cwd.as_ref().is_some_and(|cwd| cwd.starts_with(old)) {
                directories.cwd = None;
            }
            drop(directories);
            task.files.borrow_mut().forget_below(old);
        }
    }

    pub fn options(&self) -> i32 {
        let by_filter = if self.filtered { libc::PTRACE_O_TRACESECCOMP } else { 0 };
        ptrace::OPTIONS | by_filter
    }

    fn at_signal(&mut self, tid: i32, signal: i32) -> io::Result<()> {
        if signal == libc::SIGSTOP && self.tapped.is_some() && signals::is_kernels(tid) {
            // The tap's brake: its ring was filling, and has been drained by now.
            return self.go_on(tid, 0);
        }
        let at = self.log.now();
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let process = task.process;
        let deliver = signals::deliver(tid, &mut task.waiting, signal, at)?;
        self.log.record(&Record::Signal {
            process,
            thread: tid.unsigned_abs(),
            signal: signal.unsigned_abs() as u8,
            at,
        });
        if tid == self.main {
            let from = signals::sender(tid);
            self.messages.send(&Message::Delivered { signal, from });
        }
        self.go_on(tid, if deliver { signal } else { 0 })
    }

    /// PTRACE_EVENT_STOP: a new child's first stop, the stop of a whole group, or its end.
    fn at_stop(&mut self, tid: i32, signal: i32) -> io::Result<()> {
        let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        if stops.contains(&signal) {
            if tid == self.main {
                self.messages.signal_front(libc::SIGSTOP);
            }
            return ptrace::resume(tid, Resume::Listen, 0);
        }
        if tid == self.main {
            self.messages.signal_front(libc::SIGCONT);
        }
        self.go_on(tid, 0)
    }
}

/// Calls that matter to the tracer only before they are made.
fn only_entry_matters(special: Special) -> bool {
    matches!(special, Special::Affinity | Special::StackLimit | Special::Told)
}

/// Whether an open is of a locale's file or of what converts its characters (gconv).
fn opens_locale(tid: i32, entry: &Entry) -> bool {
    let mut path = Vec::new();
    let address = entry.args[usize::from(entry.shape.path.unwrap_or(0))];
    let has = |path: &[u8], part: &[u8]| path.windows(part.len()).any(|here| here == part);
    crate::memory::read_string(tid, address, &mut path).is_ok()
        && (has(&path, b"/locale") || has(&path, b"/gconv"))
}

/// Files of /proc that show a thread's CPUs.
fn tells_affinity(path: &[u8]) -> bool {
    path.starts_with(b"/proc/") && path.ends_with(b"/status")
}

pub(crate) fn put_back_argument(tid: i32, abi: recording::Abi, value: u64) {
    if let Ok(mut registers) = ptrace::registers(tid) {
        arch::set_first_argument(&mut registers, abi, value);
        let _ = ptrace::set_registers(tid, &registers);
    }
}
