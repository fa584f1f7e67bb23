//! A process of becalm's own that outlives the one that started it, and is nobody's child.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::descriptors::keep_only;
use crate::execution::c_string;
use crate::signals::{self, Disposition};
use crate::{forked, wait_for};

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
    let between = forked(|| {
        // It is the leader of no group, which is what could be refused.
        let _ = rustix::process::setsid();
        let orphan = || i32::from(settle(name, kept).and_then(|()| body()).is_err());
        i32::from(forked(orphan).is_err())
    })?;
    match wait_for(between, 0)? {
        Some((0, _)) => Ok(()),
        _ => Err(io::Error::other("a process cannot be forked")),
    }
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
    let name: Vec<u8> = name.bytes().take(15).collect();
    let _ = rustix::thread::set_name(&c_string(&name)?);
    // A set of all processors is cut down to those allowed (sched_setaffinity(2)).
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    let _ = sched_setaffinity(None, &all);
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGPIPE] {
        Disposition::IGNORED.give(signal);
    }
    spare_memory_killer();
    // What the caller blocked is its own affair; a SIGTERM must end this process.
    signals::block_only(&signals::set([]));
    Ok(())
}
