//! What differs by processor: its system call tables, and the registers of a call.
//!
//! | item | what it is |
//! |---|---|
//! | [`NATIVE`] | the table of the machine's own programs |
//! | [`TABLES`] | all tables that its programs reach, by audit architecture (linux/audit.h) |
//! | [`FOREIGN_FROM`] | numbers of a table that is reached by numbers only, and that has no filter |
//! | [`table`], [`word`] | a call's table and number; the size of a program's pointers |
//! | [`ThreadRegisters`] | those of a stopped thread |
//! | [`KeptRegisters`] | what is kept of a thread whose calls signals end |
//! | [`KERNEL_RESTARTS`] | whether the kernel has a call that is made again return EINTR where a handler runs first |
//! | [`TRAP`] | the instruction that stops a traced thread |
//! | [`thread_pointer`] | where a stopped thread's own structure is |
//! | [`upper_in_use`] | whether wide vector registers are in use |
//! | [`LARGE_FILE`] | `O_LARGEFILE` of the kernel, which C libraries say is 0 |
//! | [`answer_call`] | has a call that is about to be entered return a value, without being made |
//! | [`open_flags`] | open(2)'s flags as recordings have them, on each processor: those of asm-generic/fcntl.h |

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod timeouts;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{
    ArmRegisters as ThreadRegisters, FOREIGN_FROM, KERNEL_RESTARTS, KeptRegisters, LARGE_FILE,
    NATIVE, TABLES, TRAP, answer_call, open_flags, table, thread_pointer, upper_in_use, word,
};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    FOREIGN_FROM, KERNEL_RESTARTS, KeptRegisters, LARGE_FILE, NATIVE, TABLES, TRAP,
    X86Registers as ThreadRegisters, answer_call, open_flags, table, thread_pointer, upper_in_use,
    word,
};
