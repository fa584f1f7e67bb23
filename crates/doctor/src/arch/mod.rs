//! What differs by processor: where the loader lies, and which register holds a call's number.
//!
//! | item | what it is |
//! |---|---|
//! | [`ABI_LOADER`] | the path of glibc's loader, which the ABI fixes |
//! | [`MISSING`] | what of becalm is not there for it |
//! | [`Registers`] | the general registers, as `PTRACE_GETREGSET` gives them |
//! | [`call_in`] | the number of the call that a stopped process makes |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{ABI_LOADER, MISSING, Registers, call_in};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{ABI_LOADER, MISSING, Registers, call_in};
