//! What a tap needs, asked for step by step: for who says why there is none. Nothing here
//! allocates memory.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::assembler::Instruction;
use crate::bpf::{self, ProgramKind};

/// Loads the smallest program, which does nothing.
///
/// # Errors
/// Those of bpf(2): EPERM without the privilege for this kind.
pub fn load_smallest(kind: ProgramKind) -> io::Result<OwnedFd> {
    bpf::load(kind, &Instruction::RETURN_ZERO)
}

/// Runs a program for a raw tracepoint at the entry of every call of every process, until the
/// descriptor is closed.
///
/// # Errors
/// Those of bpf(2).
pub fn attach_to_every_call(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    bpf::attach(program, c"sys_enter")
}
