//! Looking into processes while they stand still: which line of a script a fork comes from.

use std::io;

use crate::{arch, memory};

/// Looks into processes at their forks and execs. It lives in the recorder's process, not in the
/// caller's. Every method is called while the process it is about stands still; what it takes,
/// the process waits.
pub trait Observer {
    /// A process has become a program, and has not run an instruction of it yet.
    fn executed(&mut self, process: &Stopped, program: &Executed<'_>);

    /// A process stands in the call that has just made `child` of it: where in its script that
    /// call is, the innermost frame first; nothing where it tells none.
    fn forked(&mut self, parent: &Stopped, child: i32) -> Vec<ScriptFrame>;

    /// A process is about to execute a program, for the first time since it was made: where it was
    /// started, if that is told better by what it is at now.
    fn executes(&mut self, _process: &Stopped) -> Vec<ScriptFrame> {
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
    fn ended(&mut self, pid: i32) -> Vec<ScriptFrame>;
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
pub struct ScriptFrame {
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

    /// Where the thread's own structure is, by which it finds what belongs to it alone; none where that
    /// cannot be asked for.
    pub fn thread_pointer(&self) -> Option<u64> {
        arch::thread_pointer(self.tid)
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
