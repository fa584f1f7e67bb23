//! Machines: whose loaders are simulated, what others are called, and what the entries of
//! ld.so.cache are marked with.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::GlibcProfile;
use super::profile::X86_64;
use crate::Identity;
use crate::object::ElfClass;

pub(crate) use super::profile::{AARCH64, I386};

/// `_DL_CACHE_DEFAULT_ID`: a library of libc6, for 64-bit machines also that
/// (sysdeps/unix/sysv/linux/{x86_64,aarch64}/dl-cache.h).
pub(crate) fn cache_flags(profile: &GlibcProfile) -> u32 {
    match profile.machine {
        X86_64 => 0x303,
        AARCH64 => 0xa03,
        _ => 3,
    }
}

/// `_dl_cache_check_flags`: where nothing else is said, a library of any libc will do.
pub(crate) fn takes_cache_flags(profile: &GlibcProfile, flags: u32) -> bool {
    flags == cache_flags(profile) || (profile.machine == I386 && flags == 1)
}

/// What a plain `char` of C is, which decides how bytes beyond ASCII compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chars {
    Signed,
    Unsigned,
}

impl Chars {
    pub fn compare(self, one: u8, two: u8) -> Ordering {
        match self {
            Chars::Signed => (one as i8).cmp(&(two as i8)),
            Chars::Unsigned => one.cmp(&two),
        }
    }
}

/// Signed on x86 (its System V ABIs), unsigned on 64-bit Arm (AAPCS64, "Arithmetic types").
pub(crate) fn chars(profile: &GlibcProfile) -> Chars {
    if profile.machine == AARCH64 { Chars::Unsigned } else { Chars::Signed }
}

impl Identity {
    /// Whether the loaders of this machine are simulated: those of x86-64, of 32-bit x86 and of
    /// 64-bit Arm.
    pub fn is_simulated(&self) -> bool {
        let Identity { class, big_endian, machine } = *self;
        !big_endian
            && matches!(
                (machine, class),
                (X86_64 | AARCH64, ElfClass::Elf64) | (I386, ElfClass::Elf32)
            )
    }

    /// What the machine is called, as its users do.
    pub fn machine_name(&self) -> Cow<'static, str> {
        let wide = self.class == ElfClass::Elf64;
        let by_order = |big, little| if self.big_endian { big } else { little };
        // The numbers are those of the System V ABI (e_machine; linux/elf-em.h).
        let name = match self.machine {
            X86_64 if !wide && !self.big_endian => "x32",
            X86_64 => by_order("x86-64 in big-endian byte order", "x86-64"),
            I386 if wide || self.big_endian => "i386 with an impossible header",
            I386 => "i386",
            2 | 18 => "32-bit SPARC",
            43 => "64-bit SPARC",
            4 => "m68k",
            8 | 10 if wide => by_order("mips64", "mips64el"),
            8 | 10 => by_order("mips", "mipsel"),
            15 => "HP PA-RISC",
            20 => by_order("32-bit PowerPC", "32-bit PowerPC in little-endian byte order"),
            21 => by_order("ppc64", "ppc64le"),
            22 if wide => "s390x",
            22 => "s390",
            40 => by_order("big-endian ARM", "32-bit ARM"),
            41 | 0x9026 => "Alpha",
            42 => "SuperH",
            50 => "Itanium",
            AARCH64 => by_order("big-endian AArch64", "AArch64"),
            243 if wide => "64-bit RISC-V",
            243 => "32-bit RISC-V",
            258 => "LoongArch",
            number => return format!("another machine (e_machine {number})").into(),
        };
        name.into()
    }
}
