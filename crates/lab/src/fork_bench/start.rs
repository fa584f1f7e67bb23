//! Three ways to start a program, each from the call to the program's end.

use std::ffi::{CStr, c_char, c_void};
use std::io;
use std::ptr;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};

/// A way to start a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartMethod {
    /// fork(2): the parent's page tables are copied.
    Fork,
    /// vfork(2): the child borrows the parent's memory until it executes.
    Vfork,
    /// posix_spawn(3): the same, behind a function.
    PosixSpawn,
}

impl StartMethod {
    /// All of them.
    pub const ALL: [StartMethod; 3] =
        [StartMethod::Fork, StartMethod::Vfork, StartMethod::PosixSpawn];

    /// Starts a program without arguments or environment and waits for its end. The process must
    /// have one thread.
    ///
    /// # Errors
    /// It could not be started, or it failed.
    pub(super) fn start(self, program: &CStr) -> io::Result<Duration> {
        let argv = [program.as_ptr(), ptr::null()];
        let since = Instant::now();
        let child = match self {
            StartMethod::Fork => fork(&argv),
            StartMethod::Vfork => vfork(&argv),
            StartMethod::PosixSpawn => posix_spawn(&argv),
        }?;
        let waited = waitpid(Pid::from_raw(child), WaitOptions::empty())?;
        match waited.map_or(0, |(_, status)| status.as_raw()) {
            0 => Ok(since.elapsed()),
            status => Err(io::Error::other(format!("the program ended with status {status}"))),
        }
    }
}

/// A program's path and a null pointer: its whole `argv`, which ends what could be its
/// environment, too.
type Argv = [*const c_char; 2];

fn fork(argv: &Argv) -> io::Result<i32> {
    // SAFETY: the process has one thread; the child does nothing but execute or end.
    match unsafe { libc::fork() } {
        0 => execute(argv),
        child => made(child),
    }
}

fn vfork(argv: &Argv) -> io::Result<i32> {
    extern "C" fn child(argv: *mut c_void) -> libc::c_int {
        // SAFETY: `argv` is the caller's, which waits until this process has executed or ended.
        execute(unsafe { &*argv.cast::<Argv>() })
    }
    // vfork(2) itself returns twice into one stack frame, which Rust does not allow: the child
    // gets a stack, as posix_spawn's does.
    let mut stack = [0_u128; 1024];
    let top = stack.as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let argv = ptr::from_ref(argv).cast_mut().cast();
    // SAFETY: `top` is the aligned end of a stack that lives until the child is done with it
    // (CLONE_VFORK), and `argv` is what `child` takes it for.
    made(unsafe { libc::clone(child, top.cast(), flags, argv) })
}

fn posix_spawn(argv: &Argv) -> io::Result<i32> {
    let mut child = 0;
    let none: *const *mut c_char = &ptr::null_mut();
    // SAFETY: `argv` and the environment end with null pointers; the function fills `child`.
    let error = unsafe {
        libc::posix_spawn(
            &raw mut child,
            argv[0],
            ptr::null(),
            ptr::null(),
            argv.as_ptr().cast(),
            none,
        )
    };
    if error == 0 { Ok(child) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// In the child: becomes the program.
fn execute(argv: &Argv) -> ! {
    let none: *const *const c_char = &ptr::null();
    // SAFETY: `argv` and the environment end with null pointers; `_exit` runs nothing of the
    // parent's.
    unsafe {
        libc::execve(argv[0], argv.as_ptr(), none);
        libc::_exit(127)
    }
}

fn made(child: i32) -> io::Result<i32> {
    if child < 0 { Err(io::Error::last_os_error()) } else { Ok(child) }
}
