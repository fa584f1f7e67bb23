//! A process of becalm's own that must not hold what it inherited.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

/// Closes every descriptor of this process but these, which a process needs that outlives what
/// it was forked from: a pipe that it held would never end for its reader. Standard input,
/// output and error are /dev/null afterwards, or an empty file.
///
/// Nothing else of this process may use a descriptor any more.
///
/// # Errors
/// If /proc cannot be read, or neither /dev/null nor a file in its place can be had.
pub fn keep_only(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    // A root may lack it, or let nobody write to it.
    let null = std::fs::File::options().read(true).write(true).open("/dev/null");
    let null = null.or_else(|_| crate::scratch_file())?;
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open {
        if fd > 2 && fd != null.as_raw_fd() && !kept.iter().any(|kept| kept.as_raw_fd() == fd) {
            // SAFETY: by the contract above, nothing uses the descriptor. (That of the directory
            // that was listed is closed already.)
            unsafe { libc::close(fd) };
        }
    }
    let is_kept = |fd: RawFd| kept.iter().any(|kept| kept.as_raw_fd() == fd);
    if !is_kept(0) {
        dup2_stdin(&null)?;
    }
    if !is_kept(1) {
        dup2_stdout(&null)?;
    }
    if !is_kept(2) {
        dup2_stderr(&null)?;
    }
    Ok(())
}
