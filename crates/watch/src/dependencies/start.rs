//! A command in a child of this process, which follows it.

use std::ffi::{CStr, CString};
use std::io;
use std::path::{Path, PathBuf};

use launch::{CannotStart, Command, signals};

use super::cpu::SharedCpu;
use super::follow::FollowedCommand;
use super::{DependencyTrace, StatAttributes, calls};
use crate::{filter, ptrace};

/// Why a command is not followed. This process can become the command all the same.
#[derive(Debug, thiserror::Error)]
pub enum FollowRefused {
    /// It cannot be started.
    #[error(transparent)]
    CannotStart(#[from] CannotStart),
    /// Waiting for it fails.
    #[error("cannot follow a process: {0}")]
    System(#[from] io::Error),
    /// The system forbids it.
    #[error("ptrace is refused")]
    Forbidden,
    /// It was not executed, or was killed.
    #[error("it did not start")]
    NotStarted,
}

/// Calls that a filter chooses, execs and births stop. The command ends with this process.
const OPTIONS: i32 = ptrace::OPTIONS | libc::PTRACE_O_TRACESECCOMP | libc::PTRACE_O_EXITKILL;

/// A file that is read in the place of another one.
#[derive(Clone, Debug)]
pub struct FileInPlace {
    /// Its path.
    pub path: CString,
    /// What was said of the other one when its content was taken over.
    pub told: StatAttributes,
}

/// Which file is read in the place of the one with a path, if another one is.
pub type InPlaceOf<'a> = dyn Fn(&CStr) -> Option<FileInPlace> + 'a;

/// What is known of a command before it is followed.
#[derive(Clone, Copy)]
pub struct FollowedProgram<'a> {
    /// The path by which it is executed.
    pub program: &'a Path,
    /// Paths that are the command's own and no dependencies.
    pub preludes: &'a [PathBuf],
    /// Asked of each file that it is about to open.
    pub in_place_of: &'a InPlaceOf<'a>,
    /// Says of a program's file whether its calls tell all that its answer depends on.
    pub follows: fn(&[u8]) -> bool,
    /// Says of a note why what follows cannot be repeated, if so.
    pub refuses: fn(&[u8]) -> Option<String>,
}

/// Runs a command and says what it depended on. What it writes is kept, and not written. Before it
/// does what cannot be repeated it is killed: it has done nothing then that anybody could notice.
///
/// This process must have one thread, and should have no other children.
///
/// # Errors
/// [`FollowRefused`]: nothing was done then.
pub fn follow(
    command: &Command,
    program: FollowedProgram<'_>,
) -> Result<DependencyTrace, FollowRefused> {
    let cpu = SharedCpu::begin();
    let (followed, cpu) = follow_in(command, program, cpu);
    cpu.end();
    followed
}

fn follow_in(
    command: &Command,
    program: FollowedProgram<'_>,
    cpu: SharedCpu,
) -> (Result<DependencyTrace, FollowRefused>, SharedCpu) {
    let filter = calls::filter();
    let mask = signals::block(&signals::set([]));
    let mut gated = match launch::spawn(command, &mask, &|| filter::install(&filter)) {
        Ok(gated) => gated,
        Err(why) => return (Err(why.into()), cpu),
    };
    if ptrace::seize(gated.pid, OPTIONS).is_err() || gated.open().is_err() {
        let _ = signals::send(gated.pid, libc::SIGKILL);
        let _ = launch::wait_for(gated.pid, 0);
        return (Err(FollowRefused::Forbidden), cpu);
    }
    FollowedCommand::new(gated.pid, program, cpu).run()
}

/// Whether a program has no other rights than who executes it, which a traced process would not
/// get.
pub fn executes_as_itself(program: &Path) -> bool {
    !launch::gives_rights(program)
}
