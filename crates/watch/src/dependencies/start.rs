//! A tracer beside this process, which becomes the command.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use launch::signals;
use rustix::process::setsid;

use super::DependencyTrace;
use super::follow::FollowedCommand;
use crate::ptrace;

/// Why this process is not followed. It can become the command all the same.
#[derive(Debug, thiserror::Error)]
pub enum FollowRefused {
    /// No pipe, no process.
    #[error("cannot start a tracer: {0}")]
    System(#[from] io::Error),
    /// It is traced already, or the system forbids it.
    #[error("ptrace is refused")]
    Forbidden,
}

/// Calls, execs, births and the end stop. Nothing ends with the tracer.
const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE;

const GOES: u8 = b'+';

/// What is known of a command before it is followed.
#[derive(Clone, Copy)]
pub struct FollowedProgram<'a> {
    /// The path by which it is executed.
    pub program: &'a Path,
    /// Paths that are the command's own and no dependencies.
    pub preludes: &'a [PathBuf],
    /// Says of a program's file whether its calls tell all that its answer depends on.
    pub follows: fn(&[u8]) -> bool,
    /// Says of a note why what follows cannot be repeated, if so.
    pub refuses: fn(&[u8]) -> Option<String>,
}

/// Has a process of its own follow this one from its next exec on. It gives what it has seen to
/// `keep`, within itself, before the command ends, or after it has let go of it, and ends.
///
/// This process must have one thread. Whatever becomes of the tracer, the command runs on.
///
/// # Errors
/// [`FollowRefused`]: nobody follows then.
pub fn follow_this_process(
    program: FollowedProgram<'_>,
    keep: impl FnOnce(DependencyTrace),
) -> Result<(), FollowRefused> {
    let front = std::process::id() as i32;
    let (mut said, say) = io::pipe()?;
    let (heard, mut hear) = io::pipe()?;
    let (between, (say, heard)) = launch::fork_with((say, heard), |(say, heard)| {
        // The command must not have a child that it does not know of.
        let tracer = launch::forked(|| {
            trace(front, say, heard, |pid| {
                FollowedCommand::new(pid, OPTIONS, program).run(keep);
            });
            0
        });
        i32::from(tracer.is_err())
    })?;
    drop((say, heard));
    launch::wait_for(between, 0)?;
    let mut tracer = [0; 4];
    said.read_exact(&mut tracer)?;
    // Where Yama lets only ancestors trace (PR_SET_PTRACER(2const)); elsewhere it is unknown.
    // SAFETY: passes numbers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, i32::from_ne_bytes(tracer) as libc::c_ulong) };
    hear.write_all(&[GOES])?;
    let mut answer = [0];
    said.read_exact(&mut answer)?;
    if answer == [GOES] { Ok(()) } else { Err(FollowRefused::Forbidden) }
}

/// Whether a program has no other rights than who executes it, which a traced process would not
/// get.
pub fn executes_as_itself(program: &Path) -> bool {
    !crate::signals::has_file_privilege(program.as_os_str().as_bytes())
}

/// The tracer's process.
fn trace(front: i32, say: io::PipeWriter, heard: io::PipeReader, follow: impl FnOnce(i32)) {
    // Neither the terminal's signals nor a shell's are for it.
    signals::block(&signals::all());
    let _ = setsid();
    // Whoever reads what the command writes waits for its end only.
    let kept = launch::keep_only(&[say.as_fd(), heard.as_fd()]);
    let seized = || -> io::Result<bool> {
        kept?;
        let (mut say, mut heard) = (say, heard);
        say.write_all(&std::process::id().to_ne_bytes())?;
        heard.read_exact(&mut [0])?;
        let seized = ptrace::seize(front, OPTIONS).is_ok();
        say.write_all(&[if seized { GOES } else { b'-' }])?;
        Ok(seized)
    };
    if seized().is_ok_and(|seized| seized) {
        follow(front);
    }
}
