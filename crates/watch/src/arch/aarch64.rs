//! 64-bit Arm. Written from the kernel's headers, and not yet run.

use recording::{Abi, Nanos};

use crate::ptrace::{self, TraceError};

pub(crate) const NATIVE: Abi = Abi::Aarch64;

/// `AUDIT_ARCH_AARCH64` (linux/audit.h).
const AUDIT_64: u32 = 0xc000_00b7;
/// `AUDIT_ARCH_ARM`, of 32-bit programs, whose table no recording knows: every call of theirs
/// stops, and has a number for a name.
const AUDIT_32: u32 = 0x4000_0028;

pub(crate) const TABLES: [(u32, Abi); 1] = [(AUDIT_64, Abi::Aarch64)];

pub(crate) const FOREIGN_FROM: Option<u32> = None;

/// Which table a call's number is of, and the number in it.
pub(crate) fn table(arch: u32, number: u64) -> (Abi, u64) {
    match arch {
        AUDIT_32 => (Abi::Aarch64, u64::MAX),
        _ => (Abi::Aarch64, number),
    }
}

/// The size of a pointer of a program of this architecture.
pub(crate) fn word(arch: u32) -> usize {
    if arch == AUDIT_32 { 4 } else { 8 }
}

/// `brk #0`: the instruction that stops a traced thread.
pub(crate) const TRAP: [u8; 4] = 0xd420_0000_u32.to_le_bytes();

/// `struct user_pt_regs` (asm/ptrace.h): x0 to x30, sp, pc, pstate.
const COUNT: usize = 34;
const SP: usize = 31;
const PC: usize = 32;

const NT_PRSTATUS: usize = 1;
/// The number of the call that a thread is in, which no register holds.
const NT_ARM_SYSTEM_CALL: usize = 0x404;

/// The registers of a stopped thread, and the call's number where it was changed.
pub(crate) struct ArmRegisters {
    x: [u64; COUNT],
    number: Option<i32>,
}

impl ArmRegisters {
    pub fn read(tid: i32) -> Result<ArmRegisters, TraceError> {
        let mut bytes = [0; COUNT * 8];
        ptrace::register_set(tid, NT_PRSTATUS, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        let mut x = [0; COUNT];
        x.iter_mut().zip(words).for_each(|(x, word)| *x = u64::from_ne_bytes(*word));
        Ok(ArmRegisters { x, number: None })
    }

    pub fn write(&self, tid: i32) -> Result<(), TraceError> {
        let bytes: Vec<u8> = self.x.iter().flat_map(|x| x.to_ne_bytes()).collect();
        set_register_set(tid, NT_PRSTATUS, &bytes)?;
        match self.number {
            Some(number) => set_register_set(tid, NT_ARM_SYSTEM_CALL, &number.to_ne_bytes()),
            None => Ok(()),
        }
    }

    /// A call at its entry: architecture, instruction, number, arguments.
    pub fn entry(&self, _tid: i32) -> (u32, u64, u64, [u64; 6]) {
        let [a, b, c, d, e, f, _, _, number, ..] = self.x;
        (AUDIT_64, self.x[PC], number, [a, b, c, d, e, f])
    }

    /// A call's result at its exit: the value, and whether it is an error.
    pub fn exit(&self, _tid: i32) -> (i64, bool) {
        let value = self.x[0] as i64;
        (value, (-4095..0).contains(&value))
    }

    /// The architecture and the stack of a program that has just been executed.
    pub fn new_program(&self) -> (u32, u64) {
        (AUDIT_64, self.x[SP])
    }

    /// The instruction that comes next.
    pub fn instruction(&self) -> u64 {
        self.x[PC]
    }

    /// Where the trap lies that the thread has just run into: it stands there.
    pub fn trap(&self) -> u64 {
        self.x[PC]
    }

    /// Goes on from another instruction.
    pub fn jump(&mut self, to: u64) {
        self.x[PC] = to;
    }

    /// Where the function returns to whose first instruction comes next: the link register.
    pub fn return_address(&self, _tid: i32) -> std::io::Result<u64> {
        Ok(self.x[30])
    }

    /// Whether a thread at a call's stop has been woken within that call: EINTR, or one of the
    /// kernel's own 'restart me' (linux/errno.h).
    pub fn is_woken(&self) -> bool {
        let value = self.x[0] as i64;
        value == -i64::from(libc::EINTR) || (-516..=-512).contains(&value)
    }

    /// Here the kernel has prepared a restart before the stop (do_signal of
    /// arch/arm64/kernel/signal.c), and nothing says which call was left: such a call is left as
    /// it is.
    pub fn left_call_with_eintr(&self) -> bool {
        false
    }

    /// Never asked for: see [`ArmRegisters::left_call_with_eintr`].
    pub fn let_kernel_restart(&mut self) {}

    /// Sets what the call that the thread has just left returns.
    pub fn set_result(&mut self, value: i64) {
        self.x[0] = value as u64;
    }

    /// Has the call that the thread is about to enter return this, without being made.
    pub fn answer_call(&mut self, value: i64) {
        self.number = Some(-1);
        self.set_result(value);
    }

    /// Has the process end in place of the call that it is about to enter, with status 0.
    pub fn end_process(&mut self) {
        self.number = Some(libc::SYS_exit_group as i32);
        self.x[0] = 0;
    }

    /// Sets a call's first argument, before it is entered.
    pub fn set_first_argument(&mut self, _abi: Abi, value: u64) {
        self.x[0] = value;
    }

    /// Nothing: x0 is the result by then, and what it was before is nobody's.
    pub fn put_back_first_argument(&mut self, _abi: Abi, _value: u64) {}

    /// Never asked for: see [`ArmRegisters::left_call_with_eintr`].
    pub fn timeout(&self, _tid: i32) -> Option<(Nanos, i64)> {
        None
    }
}

fn set_register_set(tid: i32, kind: usize, from: &[u8]) -> Result<(), TraceError> {
    // The kernel only reads it.
    let bytes = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let (what, data) = (libc::PTRACE_SETREGSET, (&raw const bytes) as usize);
    ptrace::request("PTRACE_SETREGSET", what, tid, kind, data)
}

/// There are no upper halves that the kernel tells of.
pub(crate) fn upper_in_use(_tid: i32) -> Option<bool> {
    None
}
