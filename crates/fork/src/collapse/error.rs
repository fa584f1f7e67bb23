//! Why a process's memory was not collapsed.

use std::io;

/// Why a process was left as it was.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This process calls itself.
    #[error("process {0} is becalm itself: give the process id of another one")]
    Own(i32),
    /// No such process, or it ended before anything was done.
    #[error("process {0} is not there (any more)")]
    Gone(i32),
    /// Another tracer has it: a process can have one only.
    #[error(
        "process {pid} is traced by process {tracer}{name}, and a process can have one tracer only"
    )]
    Traced {
        /// The process.
        pid: i32,
        /// Its tracer.
        tracer: i32,
        /// The tracer's name, in brackets.
        name: String,
    },
    /// PTRACE_SEIZE or reading /proc is refused.
    #[error("process {pid} cannot be traced ({error}): {reason}")]
    Forbidden {
        /// The process.
        pid: i32,
        /// What the kernel said.
        error: io::Error,
        /// What forbids it, and what to do.
        reason: String,
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
    /// A seccomp filter that might kill the process for a call that it never makes by itself.
    #[error(
        "process {0} is confined by seccomp, whose filter may kill it for madvise or clone: \
         becalm does not try"
    )]
    Confined(i32),
    /// A program of another kind than becalm's own.
    #[error("process {0} runs a 32-bit program; only those of x86-64 can be collapsed")]
    Foreign(i32),
    /// A return address is checked by the processor, which a borrowed thread cannot satisfy.
    #[error("process {0} has a shadow stack, which becalm cannot take a thread through")]
    ShadowStack(i32),
    /// Nothing that a huge page would fit.
    #[error("process {0} has no anonymous memory that huge pages would fit: nothing to gain ({1})")]
    Small(i32, String),
    /// None of its threads could be stopped.
    #[error("no thread of process {pid} could be borrowed within {seconds} s: {why}")]
    Busy {
        /// The process.
        pid: i32,
        /// How long was tried.
        seconds: u64,
        /// What was in the way of the last one.
        why: String,
    },
    /// The instructions that are to be borrowed are not there.
    #[error("process {0} has no {1} instruction to borrow")]
    NoInstruction(i32, &'static str),
    /// A call that the process was made to make failed.
    #[error("process {pid}: {call} failed: {error}")]
    Call {
        /// The process.
        pid: i32,
        /// The call.
        call: &'static str,
        /// Its error.
        error: io::Error,
    },
    /// Reading what /proc says of the process failed.
    #[error("{path}: {error}")]
    Proc {
        /// The file.
        path: String,
        /// The error.
        error: io::Error,
    },
    /// ptrace failed in an unexpected way.
    #[error("process {pid}: {what}: {error}")]
    Trace {
        /// The process.
        pid: i32,
        /// What was tried.
        what: &'static str,
        /// The error.
        error: io::Error,
    },
}
