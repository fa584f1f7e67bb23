//! aarch64: glibc has no directories for what some of its CPUs can do (sysdeps/aarch64 has no
//! `dl-hwcap_subdirs.c`).

use crate::setting::Cpu;

/// Nothing of the CPU decides where a loader looks.
pub(crate) fn cpu() -> Cpu {
    Cpu::default()
}
