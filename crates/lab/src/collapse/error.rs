//! Why a process's memory was not collapsed.

use std::io;

/// Why a process was left as it was.
#[derive(Debug, thiserror::Error)]
pub enum CollapseError {
    /// This process calls itself.
    #[error("process {0} is becalm itself: give the process id of another one")]
    Own(i32),
    /// No such process, or it ended before anything was done.
    #[error("process {0} is not there (any more)")]
    Gone(i32),
    /// process_madvise(2) takes CAP_SYS_NICE, of the machine and not of a container's own.
    #[error(
        "process {pid}: process_madvise(MADV_COLLAPSE): {error}: the kernel lets only root (with \
         CAP_SYS_NICE outside of user namespaces) put another process's memory into huge pages{}. \
         `becalm run --hugepages -- CMD` needs no privilege: it asks for huge pages from the start",
        why.as_ref().map(|why| format!("; and no thread of it can be lent for that: {why}")).unwrap_or_default()
    )]
    Unprivileged {
        /// The process.
        pid: i32,
        /// What the kernel said.
        error: io::Error,
        /// Why no thread of the process could do it.
        why: Option<LendRefusal>,
    },
    /// Reading /proc is refused.
    #[error("process {pid}: {path}: {error}: it is another user's, or has set-user-id rights")]
    Forbidden {
        /// The process.
        pid: i32,
        /// The file.
        path: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The kernel does not know MADV_COLLAPSE.
    #[error("Linux {release} cannot collapse memory on demand: that takes 6.1 (MADV_COLLAPSE)")]
    OldKernel {
        /// The kernel's release.
        release: String,
    },
    /// The kernel was built without huge pages.
    #[error("this kernel has no transparent huge pages")]
    NoHugePages,
    /// The process, or who started it, has switched huge pages off for itself.
    #[error("process {0} has switched huge pages off for itself (PR_SET_THP_DISABLE)")]
    SwitchedOff(i32),
    /// Nothing that a huge page would fit.
    #[error("process {0} has no anonymous memory that huge pages would fit: nothing to gain ({1})")]
    Small(i32, String),
    /// Reading what /proc says of the process failed.
    #[error("{path}: {error}")]
    Proc {
        /// The file.
        path: String,
        /// The error.
        error: io::Error,
    },
}

/// Why no thread of a process was lent. The process is as it was.
#[derive(Debug, thiserror::Error)]
pub enum LendRefusal {
    /// System calls may be answered by its end.
    #[error("it has a filter of system calls (seccomp)")]
    Filter,
    /// A stopped job, or one that a debugger has.
    #[error("it is stopped, or traced")]
    Stopped,
    /// Its instructions are x86-64's.
    #[error("on this processor becalm has no instructions for it")]
    Processor,
    /// This processor, or program.
    #[error("neither its program nor its C library has room behind its code")]
    NoRoom,
    /// None waits in a call that goes on after an interruption.
    #[error("each of its threads is in a call that an interruption would end")]
    NoThread,
    /// By the kernel.
    #[error("{call}: {error}")]
    Ptrace {
        /// What was asked for.
        call: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}
