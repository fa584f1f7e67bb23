//! 64-bit Arm: what the kernel tells in AT_HWCAP.

use crate::setting::{Cpu, Features};

/// What this machine's CPU has; of x86's, the least that each has.
pub(crate) fn cpu() -> Cpu {
    // SAFETY: reads the auxiliary vector, which never changes.
    let arm_hwcap = unsafe { libc::getauxval(libc::AT_HWCAP) };
    Cpu { intel: false, features: Features::BASELINE, arm_hwcap }
}
