//! x86-64, with the 32-bit table and x32's.

use std::mem::offset_of;

use recording::{Abi, Nanos};

use super::timeouts;
use crate::memory;
use crate::ptrace::{self, TraceError};

pub(crate) const NATIVE: Abi = Abi::X86_64;

/// `AUDIT_ARCH_X86_64` (linux/audit.h).
const AUDIT_64: u32 = 0xc000_003e;
/// `AUDIT_ARCH_I386`.
const AUDIT_32: u32 = 0x4000_0003;

pub(crate) const TABLES: [(u32, Abi); 2] = [(AUDIT_64, Abi::X86_64), (AUDIT_32, Abi::I386)];

/// The bit that marks a number of the x32 table (`__X32_SYSCALL_BIT`), which few kernels have.
pub(crate) const FOREIGN_FROM: Option<u32> = Some(0x4000_0000);
const X32_BIT: u64 = 0x4000_0000;

/// Which table a call's number is of, and the number in it.
pub(crate) fn table(arch: u32, number: u64) -> (Abi, u64) {
    match arch {
        AUDIT_32 => (Abi::I386, number),
        _ if number & X32_BIT != 0 => (Abi::X32, number & !X32_BIT),
        _ => (Abi::X86_64, number),
    }
}

/// The size of a pointer of a program of this architecture.
pub(crate) fn word(arch: u32) -> usize {
    if arch == AUDIT_32 { 4 } else { 8 }
}

/// The code segment of 32-bit programs (`__USER32_CS`).
const CODE_32: u64 = 0x23;

pub(crate) const LARGE_FILE: u64 = 0o100_000;

pub(crate) fn open_flags(flags: u64) -> u64 {
    flags
}

/// Whether the kernel sees to it that a call which is to be made again returns EINTR where a handler
/// runs first (arch_do_signal_or_restart of arch/x86/kernel/signal.c).
pub(crate) const KERNEL_RESTARTS: bool = true;

/// What is kept of a thread whose calls signals end: nothing, since the kernel restarts them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptRegisters;

/// `int3`: the instruction that stops a traced thread.
pub(crate) const TRAP: [u8; 1] = [0xcc];

/// The kernel's 'restart, unless a handler runs' (linux/errno.h).
const ERESTARTNOHAND: i64 = 514;

/// Has the call that a thread is about to enter return this, without being made.
pub(crate) fn answer_call(tid: i32, value: i64) -> Result<(), TraceError> {
    // One register each: to copy all of them out and back takes a tenth of what a stop does.
    let set = |register: usize, value: i64| {
        ptrace::request("PTRACE_POKEUSER", libc::PTRACE_POKEUSER, tid, register, value as usize)
    };
    set(offset_of!(libc::user_regs_struct, orig_rax), -1)?;
    set(offset_of!(libc::user_regs_struct, rax), value)
}

/// The registers of a stopped thread.
pub(crate) struct X86Registers(libc::user_regs_struct);

impl X86Registers {
    pub fn read(tid: i32) -> Result<X86Registers, TraceError> {
        // SAFETY: the request fills this structure of plain numbers.
        unsafe { ptrace::fetch("PTRACE_GETREGS", libc::PTRACE_GETREGS, tid, 0) }.map(X86Registers)
    }

    pub fn write(&self, tid: i32) -> Result<(), TraceError> {
        let data = std::ptr::from_ref(&self.0) as usize;
        ptrace::request("PTRACE_SETREGS", libc::PTRACE_SETREGS, tid, 0, data)
    }

    /// Whether the thread's call is of the 32-bit table: it is a 32-bit program, or the
    /// instruction was `int 0x80`.
    fn is_compat(&self, tid: i32) -> bool {
        let mut instruction = [0; 2];
        self.0.cs == CODE_32
            || memory::read(tid, self.0.rip.wrapping_sub(2), &mut instruction)
                .is_ok_and(|got| got == 2 && instruction == [0xcd, 0x80])
    }

    /// A call at its entry: architecture, instruction, number, arguments.
    pub fn entry(&self, tid: i32) -> (u32, u64, u64, [u64; 6]) {
        let r = &self.0;
        if self.is_compat(tid) {
            let args = [r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp].map(|arg| arg & 0xffff_ffff);
            return (AUDIT_32, r.rip, r.orig_rax & 0xffff_ffff, args);
        }
        (AUDIT_64, r.rip, r.orig_rax, [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9])
    }

    /// A call's result at its exit: the value, and whether it is an error.
    pub fn exit(&self, tid: i32) -> (i64, bool) {
        let value = match self.is_compat(tid) {
            true => i64::from(self.0.rax as i32),
            false => self.0.rax as i64,
        };
        (value, (-4095..0).contains(&value))
    }

    /// The architecture and the stack of a program that has just been executed.
    pub fn new_program(&self) -> (u32, u64) {
        (if self.0.cs == CODE_32 { AUDIT_32 } else { AUDIT_64 }, self.0.rsp)
    }

    /// The instruction that comes next.
    pub fn instruction(&self) -> u64 {
        self.0.rip
    }

    /// Where the trap lies that the thread has just run into.
    pub fn trap(&self) -> u64 {
        self.0.rip.wrapping_sub(TRAP.len() as u64)
    }

    /// Goes on from another instruction.
    pub fn jump(&mut self, to: u64) {
        self.0.rip = to;
    }

    /// Where the function returns to whose first instruction comes next.
    pub fn return_address(&self, tid: i32) -> std::io::Result<u64> {
        memory::read_u64(tid, self.0.rsp)
    }

    /// Whether a thread at a call's stop has been woken within that call: EINTR, or one of the
    /// kernel's own 'restart me' (linux/errno.h).
    pub fn is_woken(&self) -> bool {
        let value = self.0.rax as i64;
        value == -i64::from(libc::EINTR) || (-516..=-512).contains(&value)
    }

    /// Whether a thread at a signal's stop has just left a system call with EINTR.
    pub fn left_call_with_eintr(
        &self,
        _tid: i32,
        _kept: &KeptRegisters,
    ) -> Result<bool, TraceError> {
        Ok(self.0.orig_rax as i64 >= 0 && self.0.rax as i64 == -i64::from(libc::EINTR))
    }

    /// Makes that call look interrupted in the way that the kernel itself restarts, if no handler
    /// runs after all; false: that cannot be.
    pub fn make_again(&mut self, _tid: i32, _kept: &mut KeptRegisters) -> Result<bool, TraceError> {
        self.0.rax = (-ERESTARTNOHAND) as u64;
        Ok(true)
    }

    /// Whether registers have changed since a thread gets a signal: never, see [`KERNEL_RESTARTS`].
    pub fn before_signal(
        &mut self,
        _tid: i32,
        _kept: &mut KeptRegisters,
        _is_caught: impl FnOnce() -> bool,
    ) -> Result<bool, TraceError> {
        Ok(false)
    }

    /// Sets what the call that the thread has just left returns.
    pub fn set_result(&mut self, value: i64) {
        self.0.rax = value as u64;
    }

    /// Has the process end in place of the call that it is about to enter, with status 0.
    pub fn end_process(&mut self) {
        self.0.orig_rax = libc::SYS_exit_group as u64;
        self.0.rdi = 0;
    }

    /// Sets a call's first argument, before it is entered.
    pub fn set_first_argument(&mut self, abi: Abi, value: u64) {
        match abi {
            Abi::I386 => self.0.rbx = value,
            _ => self.0.rdi = value,
        }
    }

    /// Sets what a call's first argument was, once it has returned.
    pub fn put_back_first_argument(&mut self, abi: Abi, value: u64) {
        self.set_first_argument(abi, value);
    }

    /// The timeout of the call that the thread has just left, and what it returns when that is
    /// over.
    pub fn timeout(&self, tid: i32) -> Option<(Nanos, i64)> {
        let r = &self.0;
        let number = match r.orig_rax as i64 {
            libc::SYS_epoll_wait => libc::SYS_epoll_pwait,
            number => number,
        };
        timeouts::of(tid, number, [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9])
    }
}

/// The base of the segment fs, where glibc has its `struct pthread`.
pub(crate) fn thread_pointer(tid: i32) -> Option<u64> {
    X86Registers::read(tid).ok().map(|registers| registers.0.fs_base)
}

/// Whether upper halves of vector registers (YMM) of a stopped thread are in use; none where the
/// processor has none, or the kernel does not tell.
///
/// The regset is XSAVE's standard form: 512 bytes of the legacy area, of which the kernel uses
/// bytes 464 to 471 for XCR0 (struct user_xstateregs, arch/x86/include/asm/user.h), then the
/// header, which begins with XSTATE_BV (Intel SDM, volume 1, 13.4).
pub(crate) fn upper_in_use(tid: i32) -> Option<bool> {
    const NT_X86_XSTATE: usize = 0x202;
    const ENABLED: usize = 464;
    const IN_USE: usize = 512;
    const UPPER: u64 = 1 << 2;
    let mut state = [0; IN_USE + 8];
    let got = ptrace::register_set(tid, NT_X86_XSTATE, &mut state).ok()?;
    let has_upper = |at: usize| {
        let bits = state.get(at..at + 8)?.first_chunk()?;
        Some(u64::from_le_bytes(*bits) & UPPER != 0)
    };
    if got < state.len() || !has_upper(ENABLED)? {
        return None;
    }
    has_upper(IN_USE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process stands for the stopped one: its memory is read in the same way.
    fn own() -> i32 {
        std::process::id() as i32
    }

    /// X86Registers of a call of this number, made by these two bytes of an instruction.
    fn registers(instruction: &[u8; 2], number: u64) -> X86Registers {
        // SAFETY: plain numbers, for which zero is valid.
        let zero: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        X86Registers(libc::user_regs_struct {
            rip: instruction.as_ptr() as u64 + 2,
            orig_rax: number,
            cs: 0x33,
            rdi: 1,
            rsi: 2,
            rdx: 3,
            r10: 4,
            r8: 5,
            r9: 6,
            rbx: 0xffff_ffff_0000_0011,
            rcx: 0x12,
            rbp: 0x16,
            ..zero
        })
    }

    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    const INT_80: [u8; 2] = [0xcd, 0x80];

    #[test]
    fn the_instruction_says_which_table_a_call_is_of_and_where_its_arguments_are() {
        let (arch, _, number, args) = registers(&SYSCALL, 257).entry(own());
        assert_eq!((table(arch, number), args), ((Abi::X86_64, 257), [1, 2, 3, 4, 5, 6]));
        let (arch, _, number, args) = registers(&INT_80, 5).entry(own());
        assert_eq!((table(arch, number), args), ((Abi::I386, 5), [0x11, 0x12, 3, 2, 1, 0x16]));
        assert_eq!((word(AUDIT_64), word(AUDIT_32)), (8, 4));
        assert_eq!(table(AUDIT_64, X32_BIT | 1), (Abi::X32, 1));
    }

    #[test]
    fn a_result_is_an_error_by_its_value_in_the_width_of_its_table() {
        let mut native = registers(&SYSCALL, 0);
        native.set_result(-2);
        assert_eq!(native.exit(own()), (-2, true));
        native.set_result(0xffff_fffe);
        assert_eq!(native.exit(own()), (0xffff_fffe, false));
        let mut narrow = registers(&INT_80, 0);
        narrow.set_result(0xffff_fffe);
        assert_eq!(narrow.exit(own()), (-2, true));
    }

    #[test]
    fn the_timeout_of_an_interrupted_call_is_in_a_register_or_where_one_points() {
        let time = [3u64, 500];
        let mut waits = registers(&SYSCALL, libc::SYS_semtimedop as u64);
        waits.0.r10 = time.as_ptr() as u64;
        assert_eq!(waits.timeout(own()), Some((Nanos(3_000_000_500), -11)));
        let mut polls = registers(&SYSCALL, libc::SYS_epoll_wait as u64);
        polls.0.r10 = 20;
        assert_eq!(polls.timeout(own()), Some((Nanos(20_000_000), 0)));
    }

    #[test]
    fn only_a_call_that_returned_eintr_is_taken_for_interrupted() {
        let mut kept = KeptRegisters;
        let mut left = registers(&SYSCALL, libc::SYS_epoll_wait as u64);
        left.set_result(-i64::from(libc::EINTR));
        assert!(left.left_call_with_eintr(own(), &kept).unwrap());
        assert!(left.make_again(own(), &mut kept).unwrap());
        assert!(!left.left_call_with_eintr(own(), &kept).unwrap());
        let mut computing = registers(&SYSCALL, u64::MAX);
        computing.set_result(-i64::from(libc::EINTR));
        assert!(!computing.left_call_with_eintr(own(), &kept).unwrap(), "not in a call");
    }
}
