//! x86-64: features that cpuid tells.

use std::arch::is_x86_feature_detected as has;
use std::arch::x86_64::__cpuid_count;
use std::ops::BitOr;

use crate::setting::{Cpu, Features};

/// The machines (`e_machine`) whose programs run here.
pub(crate) const MACHINES: &[u16] = &[object::elf::EM_X86_64.0, object::elf::EM_386.0];

/// What this machine's CPU has, as cpuid says it, and the kernel lets programs use.
pub(crate) fn cpu() -> Cpu {
    // Safe by declaration since Rust 1.94 or so, not yet in the oldest version we build with.
    #[allow(unused_unsafe)]
    let cpuid = |leaf| {
        // SAFETY: every x86-64 CPU has the instruction, which changes nothing but registers.
        unsafe { __cpuid_count(leaf, 0) }
    };
    let most = cpuid(0);
    let intel = (most.ebx, most.edx, most.ecx) == (0x756e_6547, 0x4965_6e69, 0x6c65_746e);
    let (one, extended) = (cpuid(1), cpuid(0x8000_0001));
    let seven = if most.eax >= 7 { cpuid(7).ebx } else { 0 };
    let bit = |word: u32, at: u32| word >> at & 1 == 1;
    // The kernel decides whether the wide registers can be used; the standard library asks it.
    let (avx, avx512) = (has!("avx"), has!("avx512f"));
    let found = [
        (Features::BASELINE, true),
        (Features::CMPXCHG16B, bit(one.ecx, 13)),
        (Features::LAHF, bit(extended.ecx, 0)),
        (Features::POPCNT, bit(one.ecx, 23)),
        (Features::SSE3, bit(one.ecx, 0)),
        (Features::SSSE3, bit(one.ecx, 9)),
        (Features::SSE4_1, bit(one.ecx, 19)),
        (Features::SSE4_2, bit(one.ecx, 20)),
        (Features::AVX, avx),
        (Features::AVX2, avx && bit(seven, 5)),
        (Features::BMI1, bit(seven, 3)),
        (Features::BMI2, bit(seven, 8)),
        (Features::F16C, avx && bit(one.ecx, 29)),
        (Features::FMA, avx && bit(one.ecx, 12)),
        (Features::LZCNT, bit(extended.ecx, 5)),
        (Features::MOVBE, bit(one.ecx, 22)),
        (Features::AVX512F, avx512),
        (Features::AVX512BW, avx512 && bit(seven, 30)),
        (Features::AVX512CD, avx512 && bit(seven, 28)),
        (Features::AVX512DQ, avx512 && bit(seven, 17)),
        (Features::AVX512VL, avx512 && bit(seven, 31)),
        (Features::AVX512ER, avx512 && bit(seven, 27)),
        (Features::AVX512PF, avx512 && bit(seven, 26)),
    ];
    let features = found.iter().filter(|(_, there)| *there).map(|(feature, _)| *feature);
    let features = features.fold(Features::default(), BitOr::bitor);
    Cpu { intel, features, arm_hwcap: 0 }
}
