//! What the tracer keeps of every thread and process that it follows.

use std::cell::RefCell;
use std::rc::Rc;

use recording::{ByteUnits, Call, Micros, Nanos, Outcome, Phase, ProcessId, Usage};

use crate::files::{Directories, Files, FullPath};
use crate::shape::Shape;
use crate::space::{Site, Space};

/// A traced thread.
pub(crate) struct Task {
    pub tid: i32,
    /// The thread group: the process's id.
    pub group: i32,
    pub process: ProcessId,
    /// The call that it is in, from its entry to its exit.
    pub pending: Option<Pending>,
    /// Shared by threads, and by a vfork child until it execs.
    pub space: Rc<RefCell<Space>>,
    pub files: Rc<RefCell<Files>>,
    pub directories: Rc<RefCell<Directories>>,
    /// A first argument that the tracer changed and must put back.
    pub put_back: Option<(recording::Abi, u64)>,
    /// A call with a timeout that ignored signals interrupt again and again.
    pub waiting: Option<Waiting>,
    /// A call that a signal broke off, of which it is not known yet whether it returned.
    pub broken_off: Option<tap::TapEvent>,
    /// Found asleep, in a call that does not stop, and not heard of since.
    pub asleep: bool,
    /// Between a call's two stops, where every call stops.
    pub inside: bool,
}

impl Task {
    /// A process of which nothing is known yet.
    pub fn new(tid: i32) -> Task {
        Task {
            tid,
            group: tid,
            process: ProcessId(0),
            pending: None,
            space: Rc::default(),
            files: Rc::default(),
            directories: Rc::default(),
            put_back: None,
            waiting: None,
            broken_off: None,
            asleep: false,
            inside: false,
        }
    }
}

/// A call that was interrupted and restarted, and when its timeout is over.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub ip: u64,
    pub until: Nanos,
}

/// A call between its entry and its exit.
pub(crate) struct Pending {
    pub call: Call,
    pub shape: Shape,
    pub args: [u64; 6],
    pub start: Nanos,
    pub path: Option<FullPath>,
    pub other_path: Option<FullPath>,
    pub fd: Option<i32>,
    pub flags: u64,
    pub site: Site,
    pub phase: Phase,
    pub by_descriptor: bool,
    /// fork, vfork, clone: the flags, as clone(2) names them.
    pub clone_flags: u64,
}

impl Pending {
    pub fn event(&self, task: &Task, outcome: Outcome, end: Nanos) -> recording::Event {
        recording::Event {
            start: self.start,
            took: Nanos(end.0.saturating_sub(self.start.0)),
            process: task.process,
            thread: task.tid.unsigned_abs(),
            call: self.call,
            outcome,
            path: self.path.as_ref().map(|path| path.id),
            other_path: self.other_path.as_ref().map(|path| path.id),
            fd: self.fd,
            flags: self.flags,
            site: self.site.file,
            in_loader: self.site.in_loader,
            phase: self.phase,
            by_descriptor: self.by_descriptor,
        }
    }
}

/// A traced process.
pub(crate) struct Process {
    pub id: ProcessId,
    pub parent: Option<i32>,
    /// What its reaped children used, which the kernel adds to what it used itself.
    pub children: Usage,
    /// Its own largest resident set, where `children` hides it.
    pub peak: Option<ByteUnits>,
    pub watches_exit: bool,
    /// Its parent's resident set when it was started, where somebody looked.
    pub parent_rss: ByteUnits,
}

impl Process {
    /// What the process used itself, from the kernel's sum of it and its reaped children.
    pub fn own_usage(&self, both: &Usage) -> Usage {
        let less = |a: Micros, b: Micros| Micros(a.0.saturating_sub(b.0));
        Usage {
            user: less(both.user, self.children.user),
            system: less(both.system, self.children.system),
            max_rss: self.peak.unwrap_or(both.max_rss),
        }
    }

    /// Takes in what a child that it has just reaped used.
    pub fn reaped(&mut self, child: &Usage) {
        self.children.user.0 += child.user.0;
        self.children.system.0 += child.system.0;
        self.children.max_rss = self.children.max_rss.max(child.max_rss);
    }
}

/// What `wait4` says that a process and its reaped children used (getrusage(2)).
pub(crate) fn usage(raw: &libc::rusage) -> Usage {
    let micros = |time: libc::timeval| {
        Micros(time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs())
    };
    Usage {
        user: micros(raw.ru_utime),
        system: micros(raw.ru_stime),
        max_rss: ByteUnits(raw.ru_maxrss.unsigned_abs() * 1024),
    }
}
