//! Looking into processes while they stand still: which line of a script a fork comes from.

use std::io;

use recording::{ByteUnits, Frame, Origin, ProcessId, Record};

use crate::memory;
use crate::shape::Special;
use crate::tracer::Tracer;

/// Looks into processes at their forks and execs. It lives in the recorder's process, not in the
/// caller's. Every method is called while the process it is about stands still; what it takes,
/// the process waits.
pub trait Observer {
    /// A process has become a program, and has not run an instruction of it yet.
    fn executed(&mut self, process: &Stopped, program: &Executed<'_>);

    /// A process stands in the call that has just made `child` of it: where in its script that
    /// call is, the innermost frame first; nothing where it tells none.
    fn forked(&mut self, parent: &Stopped, child: i32) -> Vec<Place>;

    /// A process is about to execute a program, for the first time since it was made: where it was
    /// started, if that is told better by what it is at now.
    fn executes(&mut self, _process: &Stopped) -> Vec<Place> {
        Vec::new()
    }

    /// A process has told something about itself: it has asked for a symbolic link below
    /// [`TOLD`], and this is the rest of that path. Heard only while starts alone are recorded.
    fn told(&mut self, _process: &Stopped, _text: &[u8]) {}

    /// Whether a process that executes a program now is to be stopped once more before its end,
    /// when its parent has not yet heard of that, for [`Observer::ended`].
    fn waits_for(&self, pid: i32) -> bool;

    /// A process ends; its parent has not yet heard of it where the observer has waited for it.
    /// Where it was started, if that is known only now. May be called twice.
    fn ended(&mut self, pid: i32) -> Vec<Place>;
}

/// A directory that is not there: readlink(2) of a path below it is heard by the [`Observer`].
pub const TOLD: &str = "/proc/becalm/";

/// A process that stands still.
#[derive(Clone, Copy, Debug)]
pub struct Stopped {
    /// Its id.
    pub pid: i32,
    /// The thread that makes the call.
    pub tid: i32,
}

/// A program that a process has become.
#[derive(Clone, Copy, Debug)]
pub struct Executed<'a> {
    /// The file that runs.
    pub image: &'a [u8],
    /// The difference between its addresses in memory and in the file.
    pub bias: u64,
    /// Its arguments.
    pub argv: &'a [String],
    /// The directory it was started in.
    pub cwd: &'a [u8],
    /// Whether its pointers have 8 bytes.
    pub wide: bool,
}

/// A frame of a script's call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file; none for text that came from none.
    pub file: Option<Vec<u8>>,
    /// The line in it, from 1; 0 where it is not known.
    pub line: u32,
    /// The function; empty outside of any.
    pub function: String,
}

impl Stopped {
    /// Fills `into` from the process's memory, wholly.
    ///
    /// # Errors
    /// EFAULT where not all of it is mapped; those of process_vm_readv(2).
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        match memory::read(self.tid, address, into)? {
            got if got == into.len() => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        }
    }

    /// A pointer of 8 bytes.
    ///
    /// # Errors
    /// As [`Stopped::read`].
    pub fn pointer(&self, address: u64) -> io::Result<u64> {
        memory::read_u64(self.tid, address)
    }

    /// A string that ends with a zero byte, without it.
    ///
    /// # Errors
    /// The same, and ENAMETOOLONG for one of more than 4095 bytes.
    pub fn read_string(&self, address: u64) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        memory::read_string(self.tid, address, &mut text)?;
        Ok(text)
    }
}

impl Tracer {
    /// Where a child was just started; none if nobody looks.
    pub fn look_at_fork(&mut self, tid: i32, pid: i32, child: i32) -> Option<Origin> {
        let observer = self.observer.as_mut()?;
        let places = observer.forked(&Stopped { pid, tid }, child);
        Some(Origin { frames: self.frames(places), rss: resident(tid) })
    }

    fn frames(&mut self, places: Vec<Place>) -> Vec<Frame> {
        let log = &mut self.log;
        let frame = |place: Place| Frame {
            file: place.file.map(|file| log.path(&file)),
            line: place.line,
            function: place.function,
        };
        places.into_iter().map(frame).collect()
    }

    /// Records where a child was started.
    pub fn note_origin(&mut self, child: i32, origin: Option<Origin>) {
        if let (Some(origin), Some(process)) = (origin, self.processes.get_mut(&child)) {
            process.parent_rss = origin.rss;
            self.log.record(&Record::Origin { process: process.id, origin });
        }
    }

    /// A process stands in a call: if that is execve(2), records where the process was started, if
    /// that is told only now.
    pub fn look_at_exec(&mut self, tid: i32, call: Special) {
        let Some(observer) = self.observer.as_mut().filter(|_| call == Special::Exec) else {
            return;
        };
        let pid = self.tasks.get(&tid).map_or(tid, |task| task.group);
        let places = observer.executes(&Stopped { pid, tid });
        let Some(process) = self.processes.get(&pid) else { return };
        if !places.is_empty() {
            let (process, rss) = (process.id, process.parent_rss);
            let origin = Origin { frames: self.frames(places), rss };
            self.log.record(&Record::Origin { process, origin });
        }
    }

    /// A process ends: records where it was started, if that is known only now.
    pub fn look_at_end(&mut self, pid: i32, process: ProcessId, parent_rss: ByteUnits) {
        let Some(observer) = &mut self.observer else { return };
        let places = observer.ended(pid);
        if !places.is_empty() {
            let origin = Origin { frames: self.frames(places), rss: parent_rss };
            self.log.record(&Record::Origin { process, origin });
        }
    }

    /// A call that may tell the observer something.
    pub fn hear(&mut self, tid: i32, address: u64) {
        let Some(observer) = &mut self.observer else { return };
        let mut path = Vec::new();
        if memory::read_string(tid, address, &mut path).is_ok()
            && let Some(text) = path.strip_prefix(TOLD.as_bytes())
        {
            let pid = self.tasks.get(&tid).map_or(tid, |task| task.group);
            observer.told(&Stopped { pid, tid }, text);
        }
    }
}

/// A process's resident set (proc_pid_statm(5)).
fn resident(tid: i32) -> ByteUnits {
    let text = std::fs::read_to_string(format!("/proc/{tid}/statm")).unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    // SAFETY: asks for a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    ByteUnits(pages * page.unsigned_abs())
}
