//! What differs by processor: the registers of a call in the kernel's `struct pt_regs`, and how a
//! call of another table than the machine's own is told.
//!
//! | item | what it is |
//! |---|---|
//! | [`KernelRegisters`], `PARTS` | the parts of `pt_regs` that are copied at a call's entry: where each begins, its bytes |
//! | [`COMPAT_AT`], [`COMPAT`] | the word of `thread_info`, and its bit, that are set in a 32-bit call |
//! | [`WRITEV`] | the call that the self-test makes |
//! | [`call_of_other_table`] | makes one that must not be reported |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{
    ArmPtRegs as KernelRegisters, COMPAT, COMPAT_AT, WRITEV, call_of_other_table,
};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    COMPAT, COMPAT_AT, WRITEV, X86PtRegs as KernelRegisters, call_of_other_table,
};
