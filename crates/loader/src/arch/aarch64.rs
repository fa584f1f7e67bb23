//! 64-bit Arm: what the kernel tells in AT_HWCAP.

use crate::setting::{Cpu, Features};

/// The machines (`e_machine`) whose programs run here.
pub(crate) const MACHINES: &[u16] = &[object::elf::EM_AARCH64.0];

/// What this machine's CPU has; of x86's, the least that each has.
pub(crate) fn cpu() -> Cpu {
    // SAFETY: reads the auxiliary vector, which never changes.
    let arm_hwcap = unsafe { libc::getauxval(libc::AT_HWCAP) };
    Cpu { intel: false, features: Features::BASELINE, arm_hwcap }
}
