//! Another process's memory, put into huge pages from outside: process_madvise(2).
//!
//! Nothing of the process is stopped, run or changed for it, so nothing is left half done if
//! becalm is killed, at whichever moment.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process, also if its id is another's by now.
pub(super) struct Advised(OwnedFd);

impl Advised {
    /// # Errors
    /// ESRCH: there is none.
    pub(super) fn open(pid: i32) -> io::Result<Advised> {
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        Ok(Advised(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Whether the kernel would collapse memory of this process for becalm; nothing is done.
    ///
    /// # Errors
    /// EPERM: not without CAP_SYS_NICE. EACCES, EPERM: its memory may not be read either. EINVAL,
    /// ENOSYS: the kernel does not know how to.
    pub(super) fn may_collapse(&self) -> io::Result<()> {
        self.advise(&[])
    }

    /// Has the kernel put blocks of memory into huge pages.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn collapse(&self, start: u64, bytes: u64) -> io::Result<()> {
        self.advise(&[libc::iovec {
            iov_base: start as *mut libc::c_void,
            iov_len: bytes as usize,
        }])
    }

    fn advise(&self, ranges: &[libc::iovec]) -> io::Result<()> {
        // SAFETY: `ranges` outlives the call, which reads them only; they are of the other
        // process, and the advice changes no byte of its memory.
        let advised = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                self.0.as_raw_fd(),
                ranges.as_ptr(),
                ranges.len(),
                libc::MADV_COLLAPSE,
                0,
            )
        };
        if advised < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
