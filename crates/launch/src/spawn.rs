//! Fork, a gate that a tracer opens, exec.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::inherited;
use crate::lookup::{CannotStart, Command, explain, is_elf_file};

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
    let path = command.file()?;
    let program = c_string(path.as_os_str().as_bytes())?;
    let arguments = command.argv.iter().map(|argument| c_string(argument.as_bytes()));
    let arguments = arguments.collect::<io::Result<Vec<_>>>()?;
    // execvp(3): a file that the kernel does not know is a script of the shell's. Not an ELF
    // file, though: that is one of another machine.
    let by_shell = !is_elf_file(path.as_os_str());
    let argv = pointers(arguments.iter());
    let shell = c_string(b"/bin/sh")?;
    let shell_argv = pointers([&shell, &program].into_iter().chain(arguments.iter().skip(1)));
    let (gate_out, gate_in) = pipe()?;
    let (failure_out, failure_in) = pipe()?;

    // SAFETY: the child makes only system calls before exec or _exit; all memory that it uses
    // was prepared above.
    let pid = unsafe { fork() }?;
    if pid != 0 {
        return Ok(Gated { pid, path, gate: gate_in.into(), failure: failure_out.into() });
    }
    // In the child. Its ends of the pipes close on exec; the parent's end of the gate must
    // close now, so that a parent that dies is seen as an end of file.
    let failure = failure_in.into_raw_fd();
    drop(gate_in);
    let mut byte = [0u8; 1];
    let gate = gate_out.into_raw_fd();
    // SAFETY: system calls on memory and descriptors of this process. `argv` and `shell_argv`
    // end with a null pointer and point to strings that live on.
    unsafe {
        if libc::read(gate, byte.as_mut_ptr().cast(), 1) != 1 {
            libc::_exit(125);
        }
        inherited::restore();
        libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut());
        let mut error = match prepare() {
            Err(error) => error,
            Ok(()) => {
                libc::execv(program.as_ptr(), argv.as_ptr());
                let error = *libc::__errno_location();
                if error == libc::ENOEXEC && by_shell {
                    libc::execv(shell.as_ptr(), shell_argv.as_ptr());
                }
                error
            }
        };
        libc::write(failure, (&raw mut error).cast(), 4);
        libc::_exit(125)
    }
}

/// fork(2).
///
/// # Safety
/// As any fork: if this process has several threads, the child may only make system calls.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub unsafe fn fork() -> io::Result<i32> {
    // SAFETY: the caller keeps the child's side of the bargain.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

pub(crate) fn pointers<'a>(strings: impl Iterator<Item = &'a CString>) -> Vec<*const libc::c_char> {
    strings.map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

pub(crate) fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// A pipe whose ends close on exec. Neither is a standard descriptor: Rust's runtime has
/// filled those that were closed.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel fills the array with two descriptors that nobody else owns.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}
