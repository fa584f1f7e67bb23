//! The tracer: waits for what happens to any traced thread, takes it in, lets the thread go on.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::rc::Rc;

use launch::Ended;
use recording::{Blind, Bytes, Call, Exec, How, Outcome, Record, Status, Usage};

use crate::bind::Binder;
use crate::calls::{self, Entry};
use crate::files::proc_link;
use crate::log::Log;
use crate::message::{Message, Messages};
use crate::ptrace::{self, Resume, SyscallInfo};
use crate::shape::{Shapes, Special};
use crate::space::Space;
use crate::task::{self, Process, Task};
use crate::{arch, filter, program, signals};

/// Threads further down the kernel's list must get their turn when the first one stops
/// thousands of times a second: after so many stops, all that wait are served once.
const FAIR: u32 = 64;

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
    processes: HashMap<i32, Process>,
    /// Ended, and not yet waited for by their parents: what they used.
    zombies: HashMap<i32, Usage>,
    /// Children that stopped before their parent's event told of them.
    early: HashMap<i32, VecDeque<Change>>,
    /// Threads that are in a call that the tracer will see the end of.
    in_call: usize,
    pub binder: Binder,
    pub main: i32,
    pub messages: Messages,
    /// Whether a seccomp filter chooses the calls, or every call stops.
    pub filtered: bool,
    pub privileged: bool,
}

/// Waits for a change; none if there is no child left.
pub(crate) fn wait(tid: i32, flags: i32) -> io::Result<Option<Change>> {
    // SAFETY: rusage is plain numbers, for which zero is a valid value.
    let mut change = Change { tid: 0, status: 0, usage: unsafe { std::mem::zeroed() } };
    loop {
        // SAFETY: the kernel fills the two values, which outlive the call.
        change.tid = unsafe {
            libc::wait4(tid, &mut change.status, libc::__WALL | flags, &mut change.usage)
        };
        match change.tid {
            0 => return Ok(None),
            -1 => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINTR) => {}
                error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
                error => return Err(error),
            },
            _ => return Ok(Some(change)),
        }
    }
}

impl Tracer {
    pub fn new(
        log: Log,
        shapes: Rc<Shapes>,
        binder: Binder,
        main: i32,
        messages: Messages,
        filtered: bool,
    ) -> Tracer {
        Tracer {
            log,
            shapes,
            tasks: HashMap::new(),
            processes: HashMap::new(),
            zombies: HashMap::new(),
            early: HashMap::new(),
            in_call: 0,
            binder,
            main,
            messages,
            filtered,
            // SAFETY: a system call without arguments.
            privileged: unsafe { libc::geteuid() } == 0,
        }
    }

    /// Takes in the command itself, which stands at its exec.
    pub fn adopt_main(&mut self, task: Task) {
        self.in_call = usize::from(task.pending.is_some());
        self.begin(task, None, Some(How::Command));
    }

    /// Follows the command and all it starts, until the last has ended.
    pub fn follow(&mut self) -> io::Result<()> {
        let mut served = 0;
        while let Some(change) = wait(-1, 0)? {
            self.take_in(change);
            served += 1;
            if served % FAIR == 0 && self.tasks.len() > 1 {
                let mut ready = Vec::new();
                while let Some(change) = wait(-1, libc::WNOHANG)? {
                    ready.push(change);
                }
                ready.into_iter().for_each(|change| self.take_in(change));
            }
        }
        Ok(())
    }

    fn take_in(&mut self, change: Change) {
        let Change { tid, status, .. } = change;
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
            0 if signal == libc::SIGTRAP | 0x80 => self.at_call(tid),
            libc::PTRACE_EVENT_SECCOMP => self.at_call(tid),
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
        let others_in_calls = self.in_call - usize::from(in_call);
        if others_in_calls + 1 == self.tasks.len() {
            self.binder.alone(tid);
        } else {
            self.binder.among_others(self.log.now());
        }
        ptrace::resume(tid, how, signal)
    }

    fn at_call(&mut self, tid: i32) -> io::Result<()> {
        match ptrace::syscall_info(tid)? {
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
            SyscallInfo::Exit { value, failed } => self.leave(tid, value, failed),
            SyscallInfo::None { .. } => {}
        }
        self.go_on(tid, 0)
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
                task.space.borrow_mut().site(entry.ip);
            }
            _ => {}
        }
        if !entry.shape.recorded && only_entry_matters(entry.shape.special) {
            return Ok(());
        }
        calls::enter(task, &mut self.log, entry);
        self.in_call += 1;
        let Some(pending) = &task.pending else { return Ok(()) };
        if pending.path.as_ref().is_some_and(|path| tells_affinity(&path.bytes)) {
            self.binder.stop();
        }
        self.forbid_untraced_clone(tid)
    }

    /// CLONE_UNTRACED would make a child that has the filter and no tracer: its calls would
    /// fail. The flag is taken off for the call, and what held it is put back.
    fn forbid_untraced_clone(&mut self, tid: i32) -> io::Result<()> {
        const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let Some(pending) = &task.pending else { return Ok(()) };
        if pending.clone_flags & UNTRACED == 0 {
            return Ok(());
        }
        let flags = pending.clone_flags & !UNTRACED;
        match pending.shape.special {
            Special::Clone => {
                let mut registers = ptrace::registers(tid)?;
                arch::set_first_argument(&mut registers, pending.call.abi(), flags);
                ptrace::set_registers(tid, &registers)?;
                task.put_back = Some((pending.call.abi(), pending.clone_flags));
            }
            Special::Clone3 => crate::memory::write_u64(tid, pending.args[0], flags)?,
            _ => {}
        }
        Ok(())
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
        let Some(pending) = calls::leave(task, &mut self.log, outcome) else { return };
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

    /// What was below a renamed folder has another path now, which the kernel must be asked.
    fn renamed(&mut self, old: &[u8]) {
        for task in self.tasks.values() {
            let mut folders = task.folders.borrow_mut();
            if folders.cwd.as_ref().is_some_and(|cwd| cwd.starts_with(old)) {
                folders.cwd = None;
            }
            drop(folders);
            task.files.borrow_mut().forget_below(old);
        }
    }

    fn reaped(&mut self, parent: i32, child: i32) {
        let Some(used) = self.zombies.remove(&child) else { return };
        let Some(process) = self.processes.get_mut(&parent) else { return };
        process.reaped(&used);
        if !process.watches_exit {
            // From now on the kernel's largest resident set is that of parent and children;
            // the parent's own can be read as long as it lives, at the stop before its end.
            process.watches_exit = true;
            let _ = ptrace::set_options(parent, self.options() | libc::PTRACE_O_TRACEEXIT);
        }
    }

    fn options(&self) -> i32 {
        let by_filter = if self.filtered { libc::PTRACE_O_TRACESECCOMP } else { 0 };
        ptrace::OPTIONS | by_filter
    }

    fn at_signal(&mut self, tid: i32, signal: i32) -> io::Result<()> {
        let at = self.log.now();
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let process = task.process;
        let deliver = signals::deliver(task, signal, at)?;
        self.log.record(&Record::Signal {
            process,
            thread: tid.unsigned_abs(),
            signal: signal.unsigned_abs() as u8,
            at,
        });
        if tid == self.main && signals::is_passed_on(signal) {
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
                self.messages.send(&Message::Stopped);
            }
            return ptrace::resume(tid, Resume::Listen, 0);
        }
        if tid == self.main {
            self.messages.send(&Message::Continued);
            self.messages.wake_front();
        }
        self.go_on(tid, 0)
    }

    fn at_fork(&mut self, tid: i32) -> io::Result<()> {
        let child = ptrace::event_message(tid)? as i32;
        let Some(task) = self.tasks.get(&tid) else { return Ok(()) };
        let flags = task.pending.as_ref().map_or(0, |pending| pending.clone_flags);
        let has = |flag: i32| flags & flag as u64 != 0;
        let thread = has(libc::CLONE_THREAD);
        let how = match has(libc::CLONE_VM) {
            _ if thread => None,
            true if has(libc::CLONE_VFORK) => Some(How::Vfork),
            true => Some(How::Clone),
            false => Some(How::Fork),
        };
        let child = Task {
            tid: child,
            group: if thread { task.group } else { child },
            process: task.process,
            pending: None,
            space: share(&task.space, has(libc::CLONE_VM)),
            files: share(&task.files, has(libc::CLONE_FILES)),
            folders: share(&task.folders, has(libc::CLONE_FS)),
            put_back: task.put_back,
            wait_until: None,
        };
        let parent = task.group;
        self.binder.started(tid, child.tid);
        self.begin(child, Some(parent), how);
        self.go_on(tid, 0)
    }

    /// Takes in a new thread or process, and what it has already done.
    pub fn begin(&mut self, mut task: Task, parent: Option<i32>, how: Option<How>) {
        let (tid, at) = (task.tid, self.log.now());
        match how {
            None => {
                let thread = tid.unsigned_abs();
                self.log.record(&Record::Thread { process: task.process, thread, at });
            }
            Some(how) => {
                let id = self.log.next_process();
                let parent_id =
                    parent.and_then(|parent| self.processes.get(&parent)).map(|parent| parent.id);
                task.process = id;
                let pid = tid.unsigned_abs();
                self.log.record(&Record::Start { process: id, pid, parent: parent_id, how, at });
                let process = Process {
                    id,
                    parent,
                    children: Usage::default(),
                    peak: None,
                    watches_exit: false,
                };
                self.processes.insert(tid, process);
                self.zombies.remove(&tid);
            }
        }
        let put_back = task.put_back.take();
        self.tasks.insert(tid, task);
        if let Some(early) = self.early.remove(&tid) {
            if let Some((abi, flags)) = put_back {
                put_back_argument(tid, abi, flags);
            }
            early.into_iter().for_each(|change| self.take_in(change));
        } else if let Some(task) = self.tasks.get_mut(&tid) {
            task.put_back = put_back;
        }
    }

    fn at_exec(&mut self, tid: i32) -> io::Result<()> {
        // When another thread than the first executes, it takes over the first one's id, and
        // all others are gone without a word (ptrace(2), "execve(2) under ptrace").
        let former = ptrace::event_message(tid)? as i32;
        if former != tid && self.tasks.contains_key(&former) {
            self.forget(tid);
            if let Some(mut task) = self.tasks.remove(&former) {
                task.tid = tid;
                self.tasks.insert(tid, task);
            }
        }
        let others = |task: &&Task| task.group == tid && task.tid != tid;
        let gone: Vec<i32> = self.tasks.values().filter(others).map(|task| task.tid).collect();
        gone.into_iter().for_each(|thread| self.forget(thread));
        self.note_exec(tid)?;
        self.go_on(tid, 0)
    }

    /// Drops a thread that ended without its end being reported as a process's.
    fn forget(&mut self, tid: i32) {
        self.binder.ended(tid);
        if let Some(task) = self.tasks.remove(&tid)
            && task.pending.is_some()
        {
            self.in_call -= 1;
        }
    }

    /// Records what a process has become.
    pub fn note_exec(&mut self, tid: i32) -> io::Result<()> {
        let (word, stack) = match ptrace::syscall_info(tid)? {
            SyscallInfo::None { arch, stack } => (arch::word(arch), stack),
            _ => return Ok(()),
        };
        let program = program::read(tid, stack, word).unwrap_or_default();
        let image = proc_link(tid, "exe").unwrap_or_default();
        let at = self.log.now();
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let files = task.files.borrow().after_exec();
        task.files = Rc::new(RefCell::new(files));
        let mut space =
            Space::new(!program.loader_code.is_empty(), is_musl(program.loader.as_deref()));
        let image_id = self.log.path(&image);
        self.log.mapped(&image);
        let loader = program.loader.as_deref().map(|loader| self.log.path(loader));
        for (start, length) in &program.code {
            space.map(*start, *length, Some(image_id), false);
        }
        for (start, length) in &program.loader_code {
            space.map(*start, *length, loader, true);
        }
        task.space = Rc::new(RefCell::new(space));
        let pending = task.pending.as_ref();
        let path = pending.and_then(|pending| pending.path.as_ref()).map_or(image_id, |path| path.id);
        let cwd = proc_link(tid, "cwd").unwrap_or_else(|| b"/".to_vec());
        let exec = Exec {
            at,
            path,
            image: image_id,
            argv: program.argv,
            cwd: self.log.path(&cwd),
            loader,
            env: program.env,
        };
        let process = task.process;
        self.log.record(&Record::Exec { process, exec });
        if !self.privileged && !program.secure && signals::has_file_privilege(&image) {
            let path = String::from_utf8_lossy(&image).into_owned();
            self.log.blind(Blind::Setuid { process, path });
        }
        Ok(())
    }

    /// The stop before a process's end, asked for where its largest resident set is hidden.
    fn at_exit(&mut self, tid: i32) -> io::Result<()> {
        let group = self.tasks.get(&tid).map_or(tid, |task| task.group);
        if let Some(process) = self.processes.get_mut(&group) {
            process.peak = signals::status_number(tid, "VmHWM:").map(|kib| Bytes(kib * 1024));
        }
        self.go_on(tid, 0)
    }

    fn ended(&mut self, change: Change) {
        let Change { tid, status, usage } = change;
        self.forget(tid);
        let Some(process) = self.processes.remove(&tid) else { return };
        let both = task::usage(&usage);
        let ended = Ended::from_wait(status);
        self.log.record(&Record::End {
            process: process.id,
            at: self.log.now(),
            status: match ended {
                Ended::Exited(code) => Status::Exited(code),
                Ended::Signaled(signal) => Status::Signaled(signal.unsigned_abs() as u8),
            },
            usage: process.own_usage(&both),
        });
        if process.parent.is_some_and(|parent| self.processes.contains_key(&parent)) {
            self.zombies.insert(tid, both);
        }
        self.adopt_orphans();
        if tid == self.main {
            self.log.settle();
            let still_running = self.processes.len();
            let blinds = self.log.blinds.clone();
            self.messages.send(&Message::MainEnded { ended, still_running, blinds });
            self.messages.leave_terminal();
        }
    }

    /// A parent that was killed before its fork's event could be read leaves a child that
    /// nobody tells of: once its parent is gone, it is taken in as the first one's.
    fn adopt_orphans(&mut self) {
        let orphan = |tid: &i32| {
            let parent = signals::status_number(*tid, "PPid:").map(|pid| pid as i32);
            let group = signals::status_number(*tid, "Tgid:").map(|pid| pid as i32);
            let known = |pid: Option<i32>| {
                pid.is_some_and(|pid| self.processes.contains_key(&pid) && pid != *tid)
            };
            !known(parent) && !known(group.filter(|group| group != tid))
        };
        let orphans: Vec<i32> = self.early.keys().copied().filter(orphan).collect();
        for tid in orphans {
            let task = Task {
                tid,
                group: tid,
                process: recording::ProcessId(0),
                pending: None,
                space: Rc::default(),
                files: Rc::default(),
                folders: Rc::default(),
                put_back: None,
                wait_until: None,
            };
            self.begin(task, Some(self.main), Some(How::Fork));
        }
    }
}

/// Calls that matter to the tracer only before they are made.
fn only_entry_matters(special: Special) -> bool {
    matches!(special, Special::Affinity | Special::StackLimit)
}

/// Files of /proc that show a thread's CPUs.
fn tells_affinity(path: &[u8]) -> bool {
    path.starts_with(b"/proc/") && path.ends_with(b"/status")
}

fn is_musl(loader: Option<&[u8]>) -> bool {
    let name = loader.and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    name.is_some_and(|name| name.starts_with(b"ld-musl-"))
}

fn put_back_argument(tid: i32, abi: recording::Abi, value: u64) {
    if let Ok(mut registers) = ptrace::registers(tid) {
        arch::set_first_argument(&mut registers, abi, value);
        let _ = ptrace::set_registers(tid, &registers);
    }
}

/// The same table for both, or a copy.
fn share<T: Clone>(table: &Rc<RefCell<T>>, same: bool) -> Rc<RefCell<T>> {
    if same { Rc::clone(table) } else { Rc::new(RefCell::new(table.borrow().clone())) }
}
