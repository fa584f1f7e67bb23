//! What the processor of this machine decides: which features a loader finds in its CPU.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{MACHINES, cpu};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{MACHINES, cpu};
