//! A process of becalm's own that outlives the one that started it, and is nobody's child.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;

use crate::descriptors::keep_only;
use crate::{fork, signals};

/// Starts `body` in a new process, in a session of its own, that holds only these descriptors;
/// its standard streams are /dev/null, its working directory is the root, and the signals of a
/// terminal do not reach it. It is not a child of the caller, which would otherwise see, after an
/// exec, the end of a child that it never had.
///
/// It may use every processor that the caller may be moved to, even where the caller is bound to
/// one: what serves all ranks of a node must not run on the first one's only.
///
/// The calling process must have one thread.
///
/// # Errors
/// Those of fork.
pub fn orphan(
    name: &str,
    kept: &[BorrowedFd<'_>],
    body: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    // SAFETY: by the contract above, the child may do what its parent may.
    let between = unsafe { fork() }?;
    if between != 0 {
        let mut status = 0;
        // SAFETY: waits for a child of this process; the status outlives the call.
        while unsafe { libc::waitpid(between, &mut status, 0) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        return match status {
            0 => Ok(()),
            _ => Err(io::Error::other("a process cannot be forked")),
        };
    }
    // SAFETY: plain system calls on this process, which is the leader of no group.
    unsafe { libc::setsid() };
    // SAFETY: as above.
    let status = match unsafe { fork() } {
        Ok(0) => {
            let done = settle(name, kept).and_then(|()| body());
            i32::from(done.is_err())
        }
        Ok(_) => 0,
        Err(_) => 1,
    };
    // SAFETY: ends the process without running what its parent prepared for its own end.
    unsafe { libc::_exit(status) }
}

/// Has the kernel end anybody else first where memory is short (oom_score_adj of proc(5)), as far
/// as this user may ask for that: others depend on this process.
fn spare_memory_killer() {
    let path = "/proc/self/oom_score_adj";
    let given = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    let Ok(mut file) = File::options().write(true).open(path) else { return };
    // How far one may go is said nowhere. -1000 would be never.
    let mut lower = (-999..given.unwrap_or(0)).step_by(111);
    lower.find(|score: &i32| file.write_all(score.to_string().as_bytes()).is_ok());
}

fn settle(name: &str, kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    keep_only(kept)?;
    std::env::set_current_dir("/")?;
    let name: Vec<u8> = name.bytes().take(15).chain([0]).collect();
    // SAFETY: the name ends with a zero byte within the 16 that the kernel reads; a set of all
    // processors is cut down to those allowed (sched_setaffinity(2)); ignoring a signal installs
    // no code.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        (0..libc::CPU_SETSIZE as usize).for_each(|cpu| libc::CPU_SET(cpu, &mut all));
        libc::sched_setaffinity(0, size_of_val(&all), &all);
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    spare_memory_killer();
    // What the caller blocked is its own affair; a SIGTERM must end this process.
    signals::block_only(&signals::set([]));
    Ok(())
}
