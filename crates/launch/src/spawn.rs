//! Fork, a gate that a tracer opens, exec.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::child::{FAILED, fork_with};
use crate::execution::Execution;
use crate::lookup::{CannotStart, Command, explain};
use crate::{inherited, signals};

/// A child that waits at a gate before it becomes the command, so that a tracer can attach
/// first. SIGSTOP is not used for this: it can leak a stop into the command (tracexec #66).
#[derive(Debug)]
pub struct Gated {
    /// The child's process id.
    pub pid: i32,
    path: PathBuf,
    gate: File,
    failure: File,
}

impl Gated {
    /// Lets the child go on to exec.
    ///
    /// # Errors
    /// If the child is gone.
    pub fn open(&mut self) -> io::Result<()> {
        self.gate.write_all(&[1])
    }

    /// Once the child has ended without becoming the command: why.
    pub fn why_not(&mut self) -> CannotStart {
        let killed = || CannotStart::System(io::Error::other("the command's process was killed"));
        self.never_began().unwrap_or_else(killed)
    }

    /// Once the child has ended: why it never became the command, if its exec failed.
    pub fn never_began(&mut self) -> Option<CannotStart> {
        let mut bytes = [0; 4];
        self.failure.read_exact(&mut bytes).ok()?;
        let error = io::Error::from_raw_os_error(i32::from_le_bytes(bytes));
        Some(explain(std::mem::take(&mut self.path), error))
    }
}

/// Starts a child that waits at a gate, then calls `prepare`, then executes the command with
/// everything that this process inherited: environment, directory, descriptors, signal mask and
/// dispositions.
///
/// `prepare` runs between fork and exec: it must only make system calls, and returns the error
/// number of one that failed.
///
/// # Errors
/// [`CannotStart`]: the command is not there or not executable, or fork failed. What only exec
/// finds out comes later, from [`Gated::why_not`].
pub fn spawn(
    command: &Command,
    mask: &libc::sigset_t,
    prepare: &dyn Fn() -> Result<(), i32>,
) -> Result<Gated, CannotStart> {
    let execution = Execution::of(command)?;
    // All of these close on exec. None is a standard descriptor: Rust's runtime has filled those
    // that were closed.
    let (gate_out, gate_in) = pipe()?;
    let (failure_out, failure_in) = pipe()?;
    let (pid, (_, gate_in, _)) =
        fork_with((gate_out, gate_in, failure_in), |(gate_out, gate_in, failure_in)| {
            // The parent's end of the gate must close now, so that a parent that dies is seen as
            // an end of file.
            drop(gate_in);
            if !matches!(rustix::io::read(&gate_out, &mut [0u8]), Ok(1)) {
                return FAILED;
            }
            inherited::restore();
            signals::block_only(mask);
            let error = match prepare() {
                Err(error) => error,
                Ok(()) => execution.execute().raw_os_error().unwrap_or(libc::EIO),
            };
            let _ = rustix::io::write(&failure_in, &error.to_le_bytes());
            FAILED
        })?;
    Ok(Gated { pid, path: execution.path, gate: gate_in.into(), failure: failure_out.into() })
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (out, into) = io::pipe()?;
    Ok((out.into(), into.into()))
}
