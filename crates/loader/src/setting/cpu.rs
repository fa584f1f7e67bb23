//! What of the CPU decides which directories the loader looks into.

use std::ops::BitOr;

/// A set of features that a loader may use: the CPU has them, and the kernel saves their
/// registers ("usable" in glibc's sysdeps/x86/cpu-features.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(u32);

macro_rules! features {
    ($($constant:ident $name:literal $number:literal),* $(,)?) => {
        impl Features {
            $(#[doc = concat!("`", $name, "`, as glibc names it.")]
            pub const $constant: Features = Features(1 << $number);)*

            /// The feature that glibc's tunable `glibc.cpu.hwcaps` calls so.
            pub fn named(name: &[u8]) -> Option<Features> {
                const NAMES: &[(&str, Features)] = &[$(($name, Features::$constant)),*];
                NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, one)| *one)
            }
        }
    };
}

features! {
    CMOV "CMOV" 0, CX8 "CX8" 1, FPU "FPU" 2, FXSR "FXSR" 3, MMX "MMX" 4, SSE "SSE" 5,
    SSE2 "SSE2" 6, CMPXCHG16B "CMPXCHG16B" 7, LAHF "LAHF64_SAHF64" 8, POPCNT "POPCNT" 9,
    SSE3 "SSE3" 10, SSSE3 "SSSE3" 11, SSE4_1 "SSE4_1" 12, SSE4_2 "SSE4_2" 13, AVX "AVX" 14,
    AVX2 "AVX2" 15, BMI1 "BMI1" 16, BMI2 "BMI2" 17, F16C "F16C" 18, FMA "FMA" 19,
    LZCNT "LZCNT" 20, MOVBE "MOVBE" 21, AVX512F "AVX512F" 22, AVX512BW "AVX512BW" 23,
    AVX512CD "AVX512CD" 24, AVX512DQ "AVX512DQ" 25, AVX512VL "AVX512VL" 26,
    AVX512ER "AVX512ER" 27, AVX512PF "AVX512PF" 28,
}

impl BitOr for Features {
    type Output = Features;
    fn bitor(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }
}

impl Features {
    /// All that are known here.
    pub const ALL: Features = Features((1 << 29) - 1);
    /// What every x86-64 CPU has.
    pub const BASELINE: Features = Features(0x7f);
    /// What x86-64-v2 adds.
    pub const V2: Features = Features(0x7f << 7);
    /// What x86-64-v3 adds.
    pub const V3: Features = Features(0xff << 14);
    /// What x86-64-v4 adds.
    pub const V4: Features = Features(0x1f << 22);

    /// Whether all of `others` are among these.
    pub fn has(self, others: Features) -> bool {
        self.0 & others.0 == others.0
    }

    /// These without `others`.
    #[must_use]
    pub fn without(self, others: Features) -> Features {
        Features(self.0 & !others.0)
    }
}

/// The CPU that a program starts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cpu {
    /// Whether Intel made it. Others get no `haswell` directories from glibc.
    pub intel: bool,
    /// What can be used.
    pub features: Features,
    /// What the kernel says of a 64-bit Arm (AT_HWCAP); 0 of any other.
    pub arm_hwcap: u64,
}

impl Cpu {
    /// The CPU of this machine. Of a processor that it is not, it has the least that each has:
    /// which of them a program would run on is not known.
    pub fn of_this_machine() -> Cpu {
        crate::arch::cpu()
    }

    /// Whether programs for this machine (`e_machine`) run on this one.
    pub fn runs(machine: u16) -> bool {
        crate::arch::MACHINES.contains(&machine)
    }

    /// The levels of x86-64 that it reaches, as bits: 1 the baseline, 2 v2, 4 v3, 8 v4
    /// (sysdeps/x86/get-isa-level.h).
    pub fn levels(&self) -> u32 {
        let steps = [Features::BASELINE, Features::V2, Features::V3, Features::V4];
        let reached = steps.iter().take_while(|step| self.features.has(**step)).count();
        (1 << reached) - 1
    }
}
