//! System calls that the kernel does not restart by itself after a stop.

/// The kernel's 'restart, unless a handler runs' (linux/errno.h).
const ERESTARTNOHAND: i64 = 514;

/// Which libc does not name (arch/x86/entry/syscalls/syscall_64.tbl).
const IO_PGETEVENTS: i64 = 333;

/// Calls that return EINTR after any stop (signal(7), "Interruption of system calls and library
/// functions by stop signals") or, of sockets, where a timeout is set. They have had no effect
/// then, and can be made again. A timeout starts anew: the kernel does not say how much of it was
/// left.
const FAIL_AFTER_STOP: [i64; 20] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    IO_PGETEVENTS,
    libc::SYS_io_uring_enter,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
];

/// Makes a call that the stop has ended with EINTR look like one that the kernel restarts, if no
/// handler runs after all.
pub(super) fn by_kernel(registers: &mut libc::user_regs_struct) {
    let has_failed = registers.rax as i64 == -i64::from(libc::EINTR);
    if has_failed && FAIL_AFTER_STOP.contains(&(registers.orig_rax as i64)) {
        registers.rax = (-ERESTARTNOHAND) as u64;
    }
}
