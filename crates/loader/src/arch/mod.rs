//! What the processor of this machine decides: which features a loader finds in its CPU.

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use elsewhere::cpu;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::cpu;
