//! x86-64: a stopped process's registers, and what its loader begins with.

use std::io;

/// What glibc's loader begins with (RTLD_START of sysdeps/x86_64/dl-machine.h): `mov %rsp,%rdi`, a
/// call of `_dl_start`, and, where that has returned the program's entry, `mov %rax,%r12`.
const START: [u8; 4] = [0x48, 0x89, 0xe7, 0xe8];
const AFTER: [u8; 3] = [0x49, 0x89, 0xc4];
/// `syscall`, and a trap behind it.
pub(crate) const CALL: [u8; 3] = [0x0f, 0x05, 0xcc];

/// Where the loader goes on once all is mapped and relocated, if it begins as glibc's does: the
/// distance from its first instruction.
pub(crate) fn after_start(code: &[u8]) -> Option<u64> {
    let after = START.len() + 4;
    let is_glibcs = code.starts_with(&START) && code.get(after..)?.starts_with(&AFTER);
    is_glibcs.then_some(after as u64)
}

/// How many bytes [`after_start`] looks at.
pub(crate) const START_LENGTH: usize = 11;

/// The registers of a stopped process.
#[derive(Clone, Copy)]
pub(crate) struct StoppedRegisters(libc::user_regs_struct);

impl StoppedRegisters {
    pub fn of(pid: i32) -> io::Result<StoppedRegisters> {
        // SAFETY: plain numbers, for which zero is valid.
        let mut registers = unsafe { std::mem::zeroed::<libc::user_regs_struct>() };
        // SAFETY: PTRACE_GETREGS fills the structure.
        let done = unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0usize, &raw mut registers) };
        if done == -1 { Err(io::Error::last_os_error()) } else { Ok(StoppedRegisters(registers)) }
    }

    pub fn set(&self, pid: i32) -> io::Result<()> {
        // SAFETY: PTRACE_SETREGS reads the structure.
        let done = unsafe { libc::ptrace(libc::PTRACE_SETREGS, pid, 0usize, &raw const self.0) };
        if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub fn instruction(&self) -> u64 {
        self.0.rip
    }

    pub fn stack(&self) -> u64 {
        self.0.rsp
    }

    pub fn thread(&self) -> u64 {
        self.0.fs_base
    }

    /// What a function or a call has returned.
    pub fn result(&self) -> u64 {
        self.0.rax
    }

    pub fn call(&self) -> (u64, [u64; 6]) {
        let r = &self.0;
        (r.orig_rax, [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9])
    }

    /// The same, about to make a call by the instruction at this address.
    pub fn calling(&self, at: u64, number: u64, args: [u64; 6]) -> StoppedRegisters {
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        // In no call that could be begun again.
        let orig_rax = u64::MAX;
        StoppedRegisters(libc::user_regs_struct {
            rip: at,
            rax: number,
            orig_rax,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..self.0
        })
    }

    /// The same, with another first argument of the call that it is about to make, or has made.
    pub fn with_first(&self, argument: u64) -> StoppedRegisters {
        StoppedRegisters(libc::user_regs_struct { rdi: argument, ..self.0 })
    }

    /// The same, about to go on at this address.
    pub fn going_on_at(&self, at: u64) -> StoppedRegisters {
        StoppedRegisters(libc::user_regs_struct { rip: at, orig_rax: u64::MAX, ..self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_begins_as_glibcs_loader_does_is_known() {
        let mut code = [&START[..], &[1, 2, 3, 4], &AFTER[..]].concat();
        assert_eq!(code.len(), START_LENGTH);
        assert_eq!(after_start(&code), Some(8));
        assert_eq!(after_start(&code[..9]), None);
        code[9] = 0x90;
        assert_eq!(after_start(&code), None);
    }
}
