//! What glibc's loader learns of an x86-64 machine (sysdeps/x86/cpu-features.c, dl-cacheinfo.h), and
//! keeps.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

use super::table::{PatchKind, TableRecord};

/// What cpuid says of a leaf, without the bits of a mask that differ from core to core.
pub(crate) struct CpuidRecord {
    leaf: u32,
    subleaf: u32,
    mask: [u32; 4],
    value: [u32; 4],
}

impl TableRecord for CpuidRecord {
    fn words(&self) -> Vec<u64> {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let ([m0, m1, m2, m3], [v0, v1, v2, v3]) = (self.mask, self.value);
        vec![pair(self.leaf, self.subleaf), pair(m0, m1), pair(m2, m3), pair(v0, v1), pair(v2, v3)]
    }
}

/// The leaves that the loader reads, and how many subleaves of each.
const LEAVES: &[(u32, u32)] = &[
    (0, 1),
    (1, 1),
    (2, 1),
    (4, 4),
    (7, 2),
    (0xd, 8),
    (0x14, 1),
    (0x19, 1),
    (0x8000_0000, 1),
    (0x8000_0001, 1),
    (0x8000_0005, 1),
    (0x8000_0006, 1),
    (0x8000_0007, 1),
    (0x8000_0008, 1),
    (0x8000_001d, 4),
];

/// What cpuid says on this machine. None where it has no xgetbv: such a machine is not known.
pub(crate) fn cpuid_records() -> Option<Vec<CpuidRecord>> {
    const OSXSAVE: u32 = 1 << 27;
    let has_xgetbv = cpuid(1, 0)[2] & OSXSAVE != 0;
    let mut records = Vec::new();
    for (leaf, count) in LEAVES {
        let most = cpuid(leaf & 0x8000_0000, 0)[0];
        for subleaf in 0..if *leaf <= most { *count } else { 0 } {
            let mask = mask(*leaf);
            let value = cpuid(*leaf, subleaf);
            let value = std::array::from_fn(|index| value[index] & mask[index]);
            // What says nothing is not read again.
            if subleaf == 0 || value != [0; 4] {
                records.push(CpuidRecord { leaf: *leaf, subleaf, mask, value });
            }
        }
    }
    has_xgetbv.then_some(records)
}

/// Leaf 1 has the number of the core that runs it in the upper byte of ebx.
fn mask(leaf: u32) -> [u32; 4] {
    match leaf {
        1 => [u32::MAX, 0x00ff_ffff, u32::MAX, u32::MAX],
        _ => [u32::MAX; 4],
    }
}

fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    // Safe by declaration since Rust 1.94 or so, not yet in the oldest version we build with.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 CPU has the instruction, which changes nothing but registers.
    let said = unsafe { __cpuid_count(leaf, subleaf) };
    [said.eax, said.ebx, said.ecx, said.edx]
}

/// What the loader's clock says (HP_TIMING_NOW of sysdeps/x86/hp-timing.h).
pub(crate) fn clock() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and Linux lets programs use it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The state of the processor that the kernel saves. Call it where [`cpuid_records`] has some.
pub(crate) fn xcr0() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: cpuid has said that there is this instruction; it changes nothing but registers.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack));
    }
    u64::from(low) | u64::from(high) << 32
}

/// What becomes of a key of the auxiliary vector: as `AuxRecord` has it. None for one that no loader
/// known here reads.
pub(crate) fn aux_action(key: u64) -> Option<u64> {
    const IGNORED: u64 = 0;
    const COMPARED: u64 = 1;
    let kept = |kind: PatchKind| Some(16 + kind as u64);
    match key {
        libc::AT_PHDR => Some(16 + 12),
        libc::AT_ENTRY => Some(16 + 13),
        libc::AT_SYSINFO_EHDR => kept(PatchKind::Vdso),
        libc::AT_RANDOM => kept(PatchKind::Random),
        libc::AT_PLATFORM => kept(PatchKind::Platform),
        libc::AT_EXECFN => kept(PatchKind::ProgramName),
        // What the kernel made of this start: the program's, and the user's, whom the loader asks for
        // AT_SECURE only.
        libc::AT_PHNUM | libc::AT_BASE => Some(IGNORED),
        libc::AT_UID | libc::AT_EUID | libc::AT_GID | libc::AT_EGID => Some(IGNORED),
        // AT_RSEQ_FEATURE_SIZE, AT_RSEQ_ALIGN, AT_HWCAP3, AT_HWCAP4.
        27..=30 => Some(COMPARED),
        libc::AT_PHENT
        | libc::AT_PAGESZ
        | libc::AT_FLAGS
        | libc::AT_HWCAP
        | libc::AT_HWCAP2
        | libc::AT_CLKTCK
        | libc::AT_SECURE
        | libc::AT_MINSIGSTKSZ => Some(COMPARED),
        _ => None,
    }
}
