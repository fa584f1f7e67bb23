//! What the tracer keeps of every thread and process that it follows.

use std::cell::RefCell;
use std::rc::Rc;

use recording::{
    Abi, ByteUnits, Call, FileRange, Kind, Micros, Nanos, Outcome, Phase, ProcessId, Usage,
};
use tap::FaultRing;

use crate::arch;
use crate::arguments::{CallShape, Special};
use crate::call_tap::BrokenOffCall;
use crate::decode::CallEntry;
use crate::files::{FullPath, OpenFiles, WorkingDirectory};
use crate::space::{AddressSpace, CallSite};

/// A traced thread.
pub(crate) struct Task {
    pub tid: i32,
    /// The thread group: the process's id.
    pub group: i32,
    pub process: ProcessId,
    /// The call that it is in, from its entry to its exit.
    pub pending: Option<PendingCall>,
    /// Shared by threads, and by a vfork child until it execs.
    pub space: Rc<RefCell<AddressSpace>>,
    pub files: Rc<RefCell<OpenFiles>>,
    pub directories: Rc<RefCell<WorkingDirectory>>,
    /// A first argument that the tracer changed and must put back.
    pub put_back: Option<(Abi, u64)>,
    pub interrupted: InterruptedCalls,
    /// A call that a signal broke off, of which it is not known yet whether it returned.
    pub broken_off: Option<BrokenOffCall>,
    /// Found asleep, in a call that does not stop, and not heard of since.
    pub asleep: bool,
    /// Stops before its end because its parent does.
    pub inherits_exit_watch: bool,
    /// Between a call's two stops, where every call stops.
    pub inside: bool,
    /// Its page faults, where they are watched.
    pub faults: Option<FaultRing>,
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
            interrupted: InterruptedCalls::default(),
            broken_off: None,
            asleep: false,
            inherits_exit_watch: false,
            inside: false,
            faults: None,
        }
    }

    /// The flags that the call which makes a thread or a process is made with, as clone(2) names
    /// them.
    pub fn clone_flags(&self) -> u64 {
        self.pending.as_ref().map_or(0, |pending| pending.clone_flags)
    }

    /// The C library asks for its stack's limit once everything is loaded, before any constructor:
    /// where that call comes from ends the loader's phase.
    pub fn has_loaded(&self, ip: u64) {
        let mut space = self.space.borrow_mut();
        if !space.site(ip).in_loader {
            // Where mappings are not followed, the C library's is not known.
            space.phase = Phase::Running;
        }
    }

    /// What this thread makes by a call with these flags, and shares with it.
    pub fn child(&self, tid: i32, flags: u64) -> Task {
        let has = |flag: i32| flags & flag as u64 != 0;
        Task {
            group: if has(libc::CLONE_THREAD) { self.group } else { tid },
            process: self.process,
            space: share(&self.space, has(libc::CLONE_VM)),
            files: share(&self.files, has(libc::CLONE_FILES)),
            directories: share(&self.directories, has(libc::CLONE_FS)),
            put_back: self.put_back,
            ..Task::new(tid)
        }
    }
}

/// The same table for both, or a copy.
fn share<T: Clone>(table: &Rc<RefCell<T>>, same: bool) -> Rc<RefCell<T>> {
    if same { Rc::clone(table) } else { Rc::new(RefCell::new(table.borrow().clone())) }
}

/// Calls of a thread that signals have ended.
#[derive(Debug, Default)]
pub(crate) struct InterruptedCalls {
    /// One with a timeout that ignored signals interrupt again and again.
    pub timed: Option<InterruptedCall>,
    pub kept: arch::KeptRegisters,
}

/// A call that was interrupted and restarted, and when its timeout is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterruptedCall {
    pub ip: u64,
    pub until: Nanos,
}

/// A call between its entry and its exit.
pub(crate) struct PendingCall {
    pub call: Call,
    pub shape: CallShape,
    pub args: [u64; 6],
    pub start: Nanos,
    pub path: Option<FullPath>,
    pub other_path: Option<FullPath>,
    pub fd: Option<i32>,
    pub flags: u64,
    pub site: CallSite,
    pub phase: Phase,
    pub by_descriptor: bool,
    /// fork, vfork, clone: the flags, as clone(2) names them.
    pub clone_flags: u64,
}

impl PendingCall {
    /// A call at its entry, and nothing known of it but that.
    pub fn of(entry: &CallEntry, start: Nanos) -> PendingCall {
        PendingCall {
            call: entry.call,
            shape: entry.shape,
            args: entry.args,
            start,
            path: None,
            other_path: None,
            fd: None,
            flags: 0,
            site: CallSite { file: None, in_loader: false },
            phase: Phase::Running,
            by_descriptor: false,
            clone_flags: 0,
        }
    }

    /// Whether it asks only for attributes of what is open.
    pub fn is_fstat(&self) -> bool {
        self.by_descriptor && matches!(self.shape.kind, Kind::Stat | Kind::Access | Kind::Readlink)
    }

    /// Which part of its file it is about, if it says so itself: mmap(2), pread(2).
    pub fn range(&self) -> Option<FileRange> {
        self.path.as_ref()?;
        let args = &self.args;
        // Where registers have 32 bits, a place in a file takes two of them.
        let abi = self.call.abi();
        let narrow = matches!(abi, Abi::I386 | Abi::Arm);
        let pair = |low: usize| args[low] | args[low + 1] << 32;
        let place = if narrow { pair(3) } else { args[3] };
        let (offset, bytes) = match self.call.known_name()? {
            "mmap" if !narrow => (args[5], args[1]),
            "mmap2" => (args[5] << 12, args[1]),
            // Arm's begin with an even register.
            "pread64" if abi == Abi::Arm => (pair(4), args[2]),
            "pread64" => (place, args[2]),
            // How much is asked for is in the process's memory.
            "preadv" | "preadv2" => (place, 0),
            _ => return None,
        };
        Some(FileRange { offset, bytes })
    }

    /// Its flags, by numbers that mean the same wherever the recording is read.
    fn recorded_flags(&self) -> u64 {
        let opens = matches!(self.shape.special, Special::Open | Special::Openat2);
        // Those of open_tree(2) are others.
        if opens && self.shape.at_flags.is_none() {
            arch::open_flags(self.flags)
        } else {
            self.flags
        }
    }

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
            flags: self.recorded_flags(),
            site: self.site.file,
            in_loader: self.site.in_loader,
            phase: self.phase,
            by_descriptor: self.by_descriptor,
        }
    }
}

/// A traced process.
pub(crate) struct TracedProcess {
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

impl TracedProcess {
    pub fn new(id: ProcessId, parent: Option<i32>) -> TracedProcess {
        TracedProcess {
            id,
            parent,
            children: Usage::default(),
            peak: None,
            watches_exit: false,
            parent_rss: ByteUnits::default(),
        }
    }

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
