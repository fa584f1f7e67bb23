//! Births, execs and ends: which threads and processes there are, and what they become.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use launch::Ended;
use recording::{Blind, ByteUnits, Exec, ExitStatus, Record, StartCall, Usage};

use crate::files::proc_link;
use crate::memory;
use crate::message::Message;
use crate::observer::{Executed, Stopped};
use crate::ptrace;
use crate::shape::Special;
use crate::space::Space;
use crate::task::{self, Process, Task};
use crate::tracer::{Change, Tracer, put_back_argument};
use crate::{arch, program, signals};

impl Tracer {
    /// Takes in the command itself, which stands at its exec.
    pub fn adopt_main(&mut self, task: Task) {
        self.in_call = usize::from(task.pending.is_some());
        self.begin(task, None, Some(StartCall::Command));
    }

    /// CLONE_UNTRACED would make a child that has the filter and no tracer: its calls would
    /// fail. The flag is taken off for the call, and what held it is put back.
    pub fn forbid_untraced_clone(&mut self, tid: i32) -> io::Result<()> {
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
            Special::Clone3 => memory::write_u64(tid, pending.args[0], flags)?,
            _ => {}
        }
        Ok(())
    }

    pub fn at_fork(&mut self, tid: i32) -> io::Result<()> {
        let child = ptrace::event_message(tid)? as i32;
        let Some(task) = self.tasks.get(&tid) else { return Ok(()) };
        let flags = task.pending.as_ref().map_or(0, |pending| pending.clone_flags);
        let has = |flag: i32| flags & flag as u64 != 0;
        let thread = has(libc::CLONE_THREAD);
        let how = match has(libc::CLONE_VM) {
            _ if thread => None,
            true if has(libc::CLONE_VFORK) => Some(StartCall::Vfork),
            true => Some(StartCall::Clone),
            false => Some(StartCall::Fork),
        };
        let child = Task {
            tid: child,
            group: if thread { task.group } else { child },
            process: task.process,
            space: share(&task.space, has(libc::CLONE_VM)),
            files: share(&task.files, has(libc::CLONE_FILES)),
            directories: share(&task.directories, has(libc::CLONE_FS)),
            put_back: task.put_back,
            ..Task::new(child)
        };
        let (parent, pid) = (task.group, child.tid);
        self.binder.started(tid, pid);
        let origin = if thread { None } else { self.look_at_fork(tid, parent, pid) };
        self.begin(child, Some(parent), how);
        self.note_origin(pid, origin);
        self.go_on(tid, 0)
    }

    /// Takes in a new thread or process, and what it has already done.
    pub fn begin(&mut self, mut task: Task, parent: Option<i32>, how: Option<StartCall>) {
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
                    parent_rss: ByteUnits::default(),
                };
                self.processes.insert(tid, process);
                if let Some(tapped) = &mut self.tapped {
                    tapped.follow(tid);
                }
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

    pub fn at_exec(&mut self, tid: i32) -> io::Result<()> {
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
    pub fn forget(&mut self, tid: i32) {
        self.binder.ended(tid);
        self.let_off(tid);
        if let Some(task) = self.tasks.remove(&tid) {
            self.in_call -= usize::from(task.pending.is_some());
            self.asleep -= usize::from(task.asleep);
        }
    }

    /// Records what a process has become.
    pub fn note_exec(&mut self, tid: i32) -> io::Result<()> {
        let (arch, stack) = ptrace::new_program(tid, self.source)?;
        let word = arch::word(arch);
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
        let path =
            pending.and_then(|pending| pending.path.as_ref()).map_or(image_id, |path| path.id);
        let cwd = proc_link(tid, "cwd").unwrap_or_else(|| b"/".to_vec());
        let mut waited_for = false;
        if let Some(observer) = &mut self.observer {
            let (image, argv, cwd) = (&image[..], &program.argv[..], &cwd[..]);
            let executed = Executed { image, bias: program.bias, argv, cwd, wide: word == 8 };
            observer.executed(&Stopped { pid: task.group, tid }, &executed);
            waited_for = observer.waits_for(task.group);
        }
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
        if !self.privileged && signals::has_file_privilege(&image) {
            let path = String::from_utf8_lossy(&image).into_owned();
            self.log.blind(Blind::Setuid { process, path });
        }
        if waited_for {
            ptrace::set_options(tid, self.options() | libc::PTRACE_O_TRACEEXIT)?;
        }
        Ok(())
    }

    /// The stop before a process's end, asked for where its largest resident set is hidden, or by
    /// the observer.
    pub fn at_exit(&mut self, tid: i32) -> io::Result<()> {
        let group = self.tasks.get(&tid).map_or(tid, |task| task.group);
        if let Some(process) = self.processes.get_mut(&group) {
            process.peak = signals::status_number(tid, "VmHWM").map(|kib| ByteUnits(kib * 1024));
            let (id, parent_rss) = (process.id, process.parent_rss);
            if tid == group {
                self.look_at_end(group, id, parent_rss);
            }
        }
        self.go_on(tid, 0)
    }

    pub fn ended(&mut self, change: Change) {
        let Change { tid, status, usage } = change;
        self.forget(tid);
        let Some(process) = self.processes.remove(&tid) else { return };
        if let Some(tapped) = &self.tapped {
            tapped.forget(tid);
        }
        self.look_at_end(tid, process.id, process.parent_rss);
        let both = task::usage(&usage);
        let ended = Ended::from_wait(status);
        self.log.record(&Record::End {
            process: process.id,
            at: self.log.now(),
            status: match ended {
                Ended::Exited(code) => ExitStatus::Exited(code),
                Ended::Signaled(signal) => ExitStatus::Signaled(signal.unsigned_abs() as u8),
            },
            usage: process.own_usage(&both),
        });
        if process.parent.is_some_and(|parent| self.processes.contains_key(&parent)) {
            self.zombies.insert(tid, both);
        }
        self.adopt_orphans();
        if tid == self.main {
            self.note_lost();
            self.log.settle();
            self.settle_brake();
            let still_running = self.processes.len();
            let blinds = self.log.blinds.clone();
            self.messages.send(&Message::MainEnded { ended, still_running, blinds });
            self.messages.outlive_front();
        }
    }

    /// A parent that was killed before its fork's event could be read leaves a child that
    /// nobody tells of: once its parent is gone, it is taken in as the first one's.
    pub fn adopt_orphans(&mut self) {
        let orphan = |tid: &i32| {
            let parent = signals::status_number(*tid, "PPid").map(|pid| pid as i32);
            let group = signals::status_number(*tid, "Tgid").map(|pid| pid as i32);
            let known = |pid: Option<i32>| {
                pid.is_some_and(|pid| self.processes.contains_key(&pid) && pid != *tid)
            };
            !known(parent) && !known(group.filter(|group| group != tid))
        };
        let orphans: Vec<i32> = self.early.keys().copied().filter(orphan).collect();
        for tid in orphans {
            let task = Task::new(tid);
            self.begin(task, Some(self.main), Some(StartCall::Fork));
        }
    }

    pub fn reaped(&mut self, parent: i32, child: i32) {
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
}

fn is_musl(loader: Option<&[u8]>) -> bool {
    let name = loader.and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    name.is_some_and(|name| name.starts_with(b"ld-musl-"))
}

/// The same table for both, or a copy.
fn share<T: Clone>(table: &Rc<RefCell<T>>, same: bool) -> Rc<RefCell<T>> {
    if same { Rc::clone(table) } else { Rc::new(RefCell::new(table.borrow().clone())) }
}
