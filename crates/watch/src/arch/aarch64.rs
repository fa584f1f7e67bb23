//! 64-bit Arm, and the 32-bit programs that some of its processors run.

mod left_call;

use recording::{Abi, Nanos};

pub(crate) use left_call::KeptRegisters;

use super::timeouts;
use crate::ptrace::{self, TraceError};

pub(crate) const NATIVE: Abi = Abi::Aarch64;

/// `AUDIT_ARCH_AARCH64` (linux/audit.h).
const AUDIT_64: u32 = 0xc000_00b7;
/// `AUDIT_ARCH_ARM`.
const AUDIT_32: u32 = 0x4000_0028;

pub(crate) const TABLES: [(u32, Abi); 2] = [(AUDIT_64, Abi::Aarch64), (AUDIT_32, Abi::Arm)];

pub(crate) const FOREIGN_FROM: Option<u32> = None;

/// Which table a call's number is of, and the number in it.
pub(crate) fn table(arch: u32, number: u64) -> (Abi, u64) {
    match arch {
        AUDIT_32 => (Abi::Arm, number),
        _ => (Abi::Aarch64, number),
    }
}

/// The size of a pointer of a program of this architecture.
pub(crate) fn word(arch: u32) -> usize {
    if arch == AUDIT_32 { 4 } else { 8 }
}

pub(crate) const LARGE_FILE: u64 = 0o400_000;

/// Both Arms' asm/fcntl.h has four flags at each other's places: O_DIRECTORY and O_DIRECT, O_NOFOLLOW and
/// O_LARGEFILE.
pub(crate) fn open_flags(flags: u64) -> u64 {
    const FOUR: u64 = 0o740_000;
    let four = flags & FOUR;
    flags & !FOUR | (four << 2 | four >> 2) & FOUR
}

/// Not here: see [`left_call`].
pub(crate) const KERNEL_RESTARTS: bool = false;

/// `brk #0`: the instruction that stops a traced thread.
pub(crate) const TRAP: [u8; 4] = 0xd420_0000_u32.to_le_bytes();

/// `struct user_pt_regs` (asm/ptrace.h): x0 to x30, sp, pc, pstate.
const COUNT: usize = 34;
const LINK: usize = 30;
const SP: usize = 31;
const PC: usize = 32;

/// `compat_elf_gregset_t` (asm/elf.h), of a 32-bit thread: r0 to r15, cpsr, orig_r0.
const NARROW: usize = 18;
/// Where in it the stack pointer, the link register and the program counter are.
const NARROW_SP: usize = 13;
const NARROW_LINK: usize = 14;
const NARROW_PC: usize = 15;
/// `exit_group` of its table.
const NARROW_EXIT_GROUP: i32 = 248;

const NT_PRSTATUS: usize = 1;
/// The number of the call that a thread is in, which no register holds.
const NT_ARM_SYSTEM_CALL: usize = 0x404;

/// The registers of a stopped thread, and the call's number where it was changed.
pub(crate) struct ArmRegisters {
    x: [u64; COUNT],
    /// Of a 32-bit thread, as they were read.
    narrow: Option<[u32; NARROW]>,
    number: Option<i32>,
}

impl ArmRegisters {
    pub fn read(tid: i32) -> Result<ArmRegisters, TraceError> {
        let mut bytes = [0; COUNT * 8];
        let length = ptrace::register_set(tid, NT_PRSTATUS, &mut bytes)?;
        if length == NARROW * 4 {
            let (words, _) = bytes.as_chunks::<4>();
            let mut narrow = [0; NARROW];
            narrow.iter_mut().zip(words).for_each(|(x, word)| *x = u32::from_ne_bytes(*word));
            return Ok(ArmRegisters::of_narrow(narrow));
        }
        let (words, _) = bytes.as_chunks::<8>();
        let mut x = [0; COUNT];
        x.iter_mut().zip(words).for_each(|(x, word)| *x = u64::from_ne_bytes(*word));
        Ok(ArmRegisters { x, narrow: None, number: None })
    }

    fn of_narrow(narrow: [u32; NARROW]) -> ArmRegisters {
        let mut x = [0; COUNT];
        x.iter_mut().zip(&narrow[..NARROW_SP]).for_each(|(x, word)| *x = u64::from(*word));
        x[SP] = narrow[NARROW_SP].into();
        x[LINK] = narrow[NARROW_LINK].into();
        x[PC] = narrow[NARROW_PC].into();
        ArmRegisters { x, narrow: Some(narrow), number: None }
    }

    /// As the kernel takes them.
    fn bytes(&self) -> Vec<u8> {
        let Some(mut narrow) = self.narrow else {
            return self.x.iter().flat_map(|x| x.to_ne_bytes()).collect();
        };
        narrow[..NARROW_SP].iter_mut().zip(self.x).for_each(|(word, x)| *word = x as u32);
        narrow[NARROW_SP] = self.x[SP] as u32;
        narrow[NARROW_LINK] = self.x[LINK] as u32;
        narrow[NARROW_PC] = self.x[PC] as u32;
        narrow.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    pub fn write(&self, tid: i32) -> Result<(), TraceError> {
        set_register_set(tid, NT_PRSTATUS, &self.bytes())?;
        match self.number {
            Some(number) => set_register_set(tid, NT_ARM_SYSTEM_CALL, &number.to_ne_bytes()),
            None => Ok(()),
        }
    }

    /// A call at its entry: architecture, instruction, number, arguments.
    pub fn entry(&self, _tid: i32) -> (u32, u64, u64, [u64; 6]) {
        let [a, b, c, d, e, f, _, narrow_number, number, ..] = self.x;
        let number = if self.narrow.is_some() { narrow_number } else { number };
        (self.audit(), self.x[PC], number, [a, b, c, d, e, f])
    }

    /// A call's result at its exit: the value, and whether it is an error.
    pub fn exit(&self, _tid: i32) -> (i64, bool) {
        let value = self.result();
        (value, (-4095..0).contains(&value))
    }

    fn audit(&self) -> u32 {
        if self.narrow.is_some() { AUDIT_32 } else { AUDIT_64 }
    }

    fn result(&self) -> i64 {
        if self.narrow.is_some() { i64::from(self.x[0] as i32) } else { self.x[0] as i64 }
    }

    /// The architecture and the stack of a program that has just been executed.
    pub fn new_program(&self) -> (u32, u64) {
        (self.audit(), self.x[SP])
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
        Ok(self.x[LINK])
    }

    /// Whether a thread at a call's stop has been woken within that call: EINTR, or one of the
    /// kernel's own 'restart me' (linux/errno.h).
    pub fn is_woken(&self) -> bool {
        let value = self.result();
        value == -i64::from(libc::EINTR) || (-516..=-512).contains(&value)
    }

    /// Sets what the call that the thread has just left returns.
    pub fn set_result(&mut self, value: i64) {
        self.x[0] = value as u64;
    }

    /// Has the process end in place of the call that it is about to enter, with status 0.
    pub fn end_process(&mut self) {
        let narrow = self.narrow.map(|_| NARROW_EXIT_GROUP);
        self.number = Some(narrow.unwrap_or(libc::SYS_exit_group as i32));
        self.x[0] = 0;
    }

    /// Sets a call's first argument, before it is entered.
    pub fn set_first_argument(&mut self, _abi: Abi, value: u64) {
        self.x[0] = value;
    }

    /// Nothing: x0 is the result by then, and what it was before is nobody's.
    pub fn put_back_first_argument(&mut self, _abi: Abi, _value: u64) {}

    /// The timeout of the call that the thread has just left, and what it returns when that is over.
    pub fn timeout(&self, tid: i32) -> Option<(Nanos, i64)> {
        let [_, b, c, d, e, f, _, _, number, ..] = self.x;
        // The first is the result by now; none of them is a time.
        timeouts::of(tid, number as i64, [0, b, c, d, e, f])
    }
}

/// Has the call that a thread is about to enter return this, without being made.
pub(crate) fn answer_call(tid: i32, value: i64) -> Result<(), TraceError> {
    let mut registers = ArmRegisters::read(tid)?;
    registers.number = Some(-1);
    registers.set_result(value);
    registers.write(tid)
}

fn set_register_set(tid: i32, kind: usize, from: &[u8]) -> Result<(), TraceError> {
    // The kernel only reads it.
    let bytes = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let (what, data) = (libc::PTRACE_SETREGSET, (&raw const bytes) as usize);
    ptrace::request("PTRACE_SETREGSET", what, tid, kind, data)
}

/// Not asked for: what lies before it there, and how much, differs between releases of glibc.
pub(crate) fn thread_pointer(_tid: i32) -> Option<u64> {
    None
}

/// There are no upper halves that the kernel tells of.
pub(crate) fn upper_in_use(_tid: i32) -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// r0 to r15, cpsr and orig_r0 of a 32-bit thread that calls open(r0, r1), or has called it.
    fn calling(result: i32) -> ArmRegisters {
        let mut narrow: [u32; NARROW] = std::array::from_fn(|at| 0x100 + at as u32);
        (narrow[0], narrow[7]) = (result as u32, 5);
        ArmRegisters::of_narrow(narrow)
    }

    #[test]
    fn a_32_bit_threads_registers_are_its_own() {
        let (arch, at, number, args) = calling(0x77).entry(0);
        assert_eq!((arch, at, table(arch, number)), (AUDIT_32, 0x10f, (Abi::Arm, 5)));
        assert_eq!(args, [0x77, 0x101, 0x102, 0x103, 0x104, 0x105]);
        assert_eq!(calling(0).new_program(), (AUDIT_32, 0x10d));
        assert_eq!(calling(-libc::ENOENT).exit(0), (-i64::from(libc::ENOENT), true));
        assert!(calling(-libc::EINTR).is_woken());
    }

    #[test]
    fn only_what_was_changed_of_them_is_written_otherwise() {
        let mut registers = calling(0x77);
        let before = registers.bytes();
        assert_eq!(before.len(), NARROW * 4);
        assert_eq!(before, calling(0x77).narrow.unwrap().map(u32::to_ne_bytes).concat());
        registers.set_result(-i64::from(libc::EPERM));
        registers.jump(0x8000);
        let after = registers.bytes();
        let word = |at: usize| i32::from_ne_bytes(after[at * 4..][..4].try_into().unwrap());
        assert_eq!((word(0), word(NARROW_PC)), (-libc::EPERM, 0x8000));
        let same = |at: &usize| after[at * 4..][..4] == before[at * 4..][..4];
        assert_eq!((0..NARROW).filter(same).count(), NARROW - 2);
    }
}
