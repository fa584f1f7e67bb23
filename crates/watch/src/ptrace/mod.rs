//! ptrace(2), as this crate needs it: the one place that calls it.
//!
//! What can be done to a thread while it stands still are methods of [`StoppedThread`]; the rest
//! is here. Every request may fail with ESRCH at any time: a traced process can be killed between
//! any two calls (rr #3581).

mod stop;
mod stopped;
mod wait;

use std::io;
use std::mem::MaybeUninit;

pub(crate) use stop::PtraceStop;
pub(crate) use stopped::{Resume, StoppedThread};
pub(crate) use wait::{AnyChange, StopChange, ThreadEnd, Waited, wait, wait_for_any};

/// Why something could not be done to a stopped thread.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    /// It was killed while it stood still (ESRCH). That is normal: its end is reported next.
    #[error("the thread is gone")]
    Gone,
    /// Anything else, which nobody expects.
    #[error("{request}: {error}")]
    Failed {
        /// What was asked for.
        request: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

impl TraceError {
    /// What a request's error is.
    pub fn of(request: &'static str, error: io::Error) -> TraceError {
        match error.raw_os_error() {
            Some(libc::ESRCH) => TraceError::Gone,
            _ => TraceError::Failed { request, error },
        }
    }
}

/// What `PTRACE_GET_SYSCALL_INFO` says of a stop (Linux 5.3 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyscallInfo {
    /// No system call.
    None { arch: u32, stack: u64 },
    /// Before a call: `PTRACE_SYSCALL`'s stop, or a seccomp filter's with its 16 bits.
    Entry { arch: u32, ip: u64, number: u64, args: [u64; 6], filter: Option<u32> },
    /// After one.
    Exit { value: i64, failed: bool },
}

/// The kernel's `struct ptrace_syscall_info` (include/uapi/linux/ptrace.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct RawInfo {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    ip: u64,
    sp: u64,
    number_or_value: u64,
    args: [u64; 6],
    filter: u32,
    pad2: u32,
}

const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
const OP_ENTRY: u8 = 1;
const OP_EXIT: u8 = 2;
const OP_SECCOMP: u8 = 3;

/// Options that every process is seized with.
pub(crate) const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC;

/// Traces a thread, which runs on.
pub(crate) fn seize(tid: i32, options: i32) -> Result<(), TraceError> {
    request("PTRACE_SEIZE", libc::PTRACE_SEIZE, tid, 0, options as usize)
}

/// Stops a running thread. A call that it waits in restarts, unseen by it, while no handler of
/// its own runs.
pub(crate) fn interrupt(tid: i32) -> Result<(), TraceError> {
    request("PTRACE_INTERRUPT", libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Changes what a stopped thread stops at. Also for one that stands still beside the one that is
/// being looked at.
pub(crate) fn set_options(tid: i32, options: i32) -> Result<(), TraceError> {
    request("PTRACE_SETOPTIONS", libc::PTRACE_SETOPTIONS, tid, 0, options as usize)
}

/// Who says what a stopped thread's call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallSource {
    /// `PTRACE_GET_SYSCALL_INFO`, from Linux 5.3 on.
    Kernel,
    /// The thread's registers, which do not say whether a stop is an entry or an exit.
    Registers,
}

fn event_message(tid: i32) -> Result<u64, TraceError> {
    // SAFETY: the request fills a long, which a u64 is where this program runs.
    unsafe { fetch("PTRACE_GETEVENTMSG", libc::PTRACE_GETEVENTMSG, tid, 0) }
}

fn info_of_kernel(tid: i32) -> Result<SyscallInfo, TraceError> {
    let size = size_of::<RawInfo>();
    // SAFETY: the request fills at most `size` bytes of the structure, which is plain numbers.
    let raw: RawInfo = unsafe { fetch("PTRACE_GET_SYSCALL_INFO", GET_SYSCALL_INFO, tid, size) }?;
    Ok(match raw.op {
        OP_ENTRY | OP_SECCOMP => SyscallInfo::Entry {
            arch: raw.arch,
            ip: raw.ip,
            number: raw.number_or_value,
            args: raw.args,
            filter: (raw.op == OP_SECCOMP).then_some(raw.filter),
        },
        OP_EXIT => SyscallInfo::Exit {
            value: raw.number_or_value as i64,
            // `is_error` is the byte after the value.
            failed: raw.args[0].to_ne_bytes()[0] != 0,
        },
        _ => SyscallInfo::None { arch: raw.arch, stack: raw.sp },
    })
}

/// The beginning of the kernel's `siginfo_t`, as a signal that was sent has it (sigaction(2)).
#[repr(C)]
#[derive(Clone, Copy)]
struct RawSignal {
    signal: i32,
    error: i32,
    code: i32,
    pad: i32,
    sender: i32,
    rest: [i32; 27],
}

fn signal_info(tid: i32) -> Result<RawSignal, TraceError> {
    // SAFETY: the request fills a siginfo_t, 128 bytes, as the structure has, of plain numbers.
    unsafe { fetch("PTRACE_GETSIGINFO", libc::PTRACE_GETSIGINFO, tid, 0) }
}

/// The beginning of a set of a stopped thread's registers (NT_PRSTATUS and the like, elf.h), as
/// much of it as there is room for; how much that is, in bytes.
pub(crate) fn register_set(tid: i32, kind: usize, into: &mut [u8]) -> Result<usize, TraceError> {
    let mut room = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let (what, data) = (libc::PTRACE_GETREGSET, (&raw mut room) as usize);
    request("PTRACE_GETREGSET", what, tid, kind, data)?;
    Ok(room.iov_len)
}

/// Asks for a value.
///
/// # Safety
/// The request fills a `T` at `data`, or the beginning of one, for which any bits are valid.
pub(crate) unsafe fn fetch<T: Copy>(
    name: &'static str,
    what: libc::c_uint,
    tid: i32,
    address: usize,
) -> Result<T, TraceError> {
    let mut value = MaybeUninit::<T>::zeroed();
    request(name, what, tid, address, value.as_mut_ptr() as usize)?;
    // SAFETY: the caller's; what the kernel has not filled is zero.
    Ok(unsafe { value.assume_init() })
}

/// As libc's `ptrace`. For `data`, every caller of this module passes a number, or a pointer to a
/// value of the type that the request fills or reads, which outlives the call.
pub(crate) fn request(
    name: &'static str,
    what: libc::c_uint,
    tid: i32,
    address: usize,
    data: usize,
) -> Result<(), TraceError> {
    // SAFETY: as above.
    let done = unsafe { libc::ptrace(what, tid, address, data) };
    if done < 0 { Err(TraceError::of(name, io::Error::last_os_error())) } else { Ok(()) }
}
