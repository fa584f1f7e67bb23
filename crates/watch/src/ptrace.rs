//! ptrace(2), as this crate needs it. Every function may fail with ESRCH at any time: a traced
//! process can be killed between any two calls (rr #3581).

use std::io;

use crate::arch;

/// What `PTRACE_GET_SYSCALL_INFO` says of a stop (Linux 5.3 and later).
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Default)]
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

/// Options that a process is seized with.
pub(crate) const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_EXITKILL;

/// How a stopped thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// To the next event.
    Cont,
    /// To the next event, entry or exit of a system call.
    Syscall,
    /// Stays stopped with its group, but reports what happens to it.
    Listen,
}

pub(crate) fn seize(tid: i32, options: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, options as usize)
}

/// Stops a running thread. A call that it waits in restarts, unseen by it, while no handler of
/// its own runs.
pub(crate) fn interrupt(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

pub(crate) fn set_options(tid: i32, options: i32) -> io::Result<()> {
    request(libc::PTRACE_SETOPTIONS, tid, 0, options as usize)
}

pub(crate) fn resume(tid: i32, how: Resume, signal: i32) -> io::Result<()> {
    let how = match how {
        Resume::Cont => libc::PTRACE_CONT,
        Resume::Syscall => libc::PTRACE_SYSCALL,
        Resume::Listen => libc::PTRACE_LISTEN,
    };
    request(how, tid, 0, signal as usize)
}

/// Traces a stopped thread no longer, which goes on with a signal or none.
pub(crate) fn detach(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, signal as usize)
}

pub(crate) fn event_message(tid: i32) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, (&raw mut message) as usize)?;
    Ok(message)
}

/// Who says what a stopped thread's call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// `PTRACE_GET_SYSCALL_INFO`, from Linux 5.3 on.
    Kernel,
    /// The thread's registers, which do not say whether a stop is an entry or an exit.
    Registers,
}

/// The call of a stopped thread. `entry` says whether the stop is one before a call; the kernel
/// itself knows that.
pub(crate) fn syscall_info(tid: i32, source: Source, entry: bool) -> io::Result<SyscallInfo> {
    match source {
        Source::Kernel => info_of_kernel(tid),
        Source::Registers if entry => {
            let (arch, ip, number, args) = arch::entry(tid, &registers(tid)?);
            Ok(SyscallInfo::Entry { arch, ip, number, args, filter: None })
        }
        Source::Registers => {
            let (value, failed) = arch::exit(tid, &registers(tid)?);
            Ok(SyscallInfo::Exit { value, failed })
        }
    }
}

/// The architecture and the stack of a thread that has just executed a program.
pub(crate) fn new_program(tid: i32, source: Source) -> io::Result<(u32, u64)> {
    if source == Source::Kernel
        && let SyscallInfo::None { arch, stack } = info_of_kernel(tid)?
    {
        return Ok((arch, stack));
    }
    Ok(arch::new_program(&registers(tid)?))
}

/// Whether the kernel has `PTRACE_GET_SYSCALL_INFO`, asked at a stopped thread: an older one gives
/// EIO, a filter or a sandbox whatever it likes. A thread that is gone says nothing of that.
pub(crate) fn source_of(tid: i32) -> Source {
    match info_of_kernel(tid) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Source::Registers,
        _ => Source::Kernel,
    }
}

fn info_of_kernel(tid: i32) -> io::Result<SyscallInfo> {
    let mut raw = RawInfo::default();
    request(GET_SYSCALL_INFO, tid, size_of::<RawInfo>(), (&raw mut raw) as usize)?;
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

pub(crate) fn signal_info(tid: i32) -> io::Result<libc::siginfo_t> {
    // SAFETY: siginfo_t is plain data, for which zero is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETSIGINFO, tid, 0, (&raw mut info) as usize)?;
    Ok(info)
}

/// The registers of a stopped thread.
pub(crate) fn registers(tid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: user_regs_struct is plain numbers, for which zero is a valid value.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, tid, 0, (&raw mut registers) as usize)?;
    Ok(registers)
}

pub(crate) fn set_registers(tid: i32, registers: &libc::user_regs_struct) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(registers) as usize)
}

/// The beginning of a stopped thread's extended state (NT_X86_XSTATE), as much of it as there is
/// room for; how much that is, in bytes.
pub(crate) fn extended_state(tid: i32, into: &mut [u8]) -> io::Result<usize> {
    const NT_X86_XSTATE: usize = 0x202;
    let mut room = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    request(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, (&raw mut room) as usize)?;
    Ok(room.iov_len)
}

fn request(what: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: every caller passes, for `data`, either a number or a pointer to a value of the
    // type that this request fills or reads, which outlives the call.
    let done = unsafe { libc::ptrace(what, tid, address, data) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
