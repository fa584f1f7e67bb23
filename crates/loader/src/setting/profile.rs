//! What differs between versions and builds of glibc's loader.

use std::ffi::OsString;
use std::path::PathBuf;

use super::cpu::{Cpu, Features};
use crate::Errno;
use crate::object::ElfClass;

/// One build of glibc's loader on one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlibcProfile {
    /// The version, e.g. `(2, 36)`.
    pub version: (u32, u32),
    /// What it loads: `EI_CLASS`.
    pub class: ElfClass,
    /// What it loads: `e_machine`.
    pub machine: u16,
    /// What it loads: `EI_DATA`.
    pub big_endian: bool,
    /// The CPU, as far as the loader may use it.
    pub cpu: Cpu,
    /// `glibc.cpu.hwcap_mask`, if it is not the default.
    pub hwcap_mask: Option<u64>,
    /// Directories tried in each search directory, in order, each with a slash at its end; the last
    /// is empty. Made by [`GlibcProfile::renew`].
    pub subdirectories: Vec<OsString>,
    /// The names below `glibc-hwcaps` that are searched, best first. Made by
    /// [`GlibcProfile::renew`].
    pub hwcaps: Vec<&'static str>,
    /// What `$PLATFORM` stands for. Made by [`GlibcProfile::renew`].
    pub platform: Option<OsString>,
    /// What `$LIB` stands for.
    pub lib: OsString,
    /// The default directories, in order.
    pub system_directories: Vec<PathBuf>,
    /// Where ld.so.cache is; nothing if the loader has none.
    pub cache: Option<PathBuf>,
    /// Where the list of libraries to preload is.
    pub preload_file: Option<PathBuf>,
    /// Whether it looks for `/etc/ld.so.nohwcap`, as Debian's and Ubuntu's did up to 2.31.
    pub nohwcap: bool,
    /// Whether a file for another machine is skipped before anything else is found wrong with
    /// it: Debian's patch unsubmitted-ldso-machine-mismatch.diff.
    pub machine_first: bool,
    /// `LD_ASSUME_KERNEL`, a byte a part: libraries that ask for a newer kernel are skipped. 2.31
    /// heeds it and 2.36 does not. (The versions between were not run.)
    pub assumed_kernel: Option<u32>,
    /// Whether libraries may ask for an executable stack: `glibc.rtld.execstack`, since 2.41.
    pub executable_stacks: bool,
    /// The name of the library that the kernel maps.
    pub vdso: OsString,
}

/// `EM_386`, `EM_X86_64` and `EM_AARCH64`.
pub(crate) const I386: u16 = 3;
pub(crate) const X86_64: u16 = 62;
pub(crate) const AARCH64: u16 = 183;

/// Bits of the legacy capabilities since 2.26 (sysdeps/x86/dl-hwcap.h).
const SSE2: u64 = 1 << 0;
const IS_X86_64: u64 = 1 << 1;
const AVX512_1: u64 = 1 << 2;
/// The same of 32-bit loaders before 2.26 (sysdeps/i386/dl-procinfo.h).
const OLD_SSE2: u64 = 1 << 26;
/// Their names.
const HWCAP_NAMES: [(u64, &str); 4] =
    [(SSE2, "sse2"), (IS_X86_64, "x86_64"), (AVX512_1, "avx512_1"), (OLD_SSE2, "sse2")];
/// The first bits of a 64-bit Arm's AT_HWCAP (asm/hwcap.h), of which glibc made names
/// (sysdeps/unix/sysv/linux/aarch64/dl-procinfo.c): LSE atomics and CPUID are among them.
const ARM_NAMES: [&str; 13] = [
    "fp", "asimd", "evtstrm", "aes", "pmull", "sha1", "sha2", "crc32", "atomics", "fphp",
    "asimdhp", "cpuid", "asimdrdm",
];
const ARM_ATOMICS: u64 = 1 << 8;
const ARM_CPUID: u64 = 1 << 11;
/// Platforms that entries of ld.so.cache may be for, from bit 48 on.
const PLATFORMS: [&str; 4] = ["i586", "i686", "haswell", "xeon_phi"];
const FIRST_PLATFORM: usize = 48;
/// `_DL_HWCAP_TLS_MASK` (elf/dl-cache.c).
const TLS: u64 = 1 << 63;

impl GlibcProfile {
    /// The loader for x86-64 as upstream builds it, with `/lib64` and `/usr/lib64`.
    pub fn x86_64(version: (u32, u32), cpu: Cpu) -> GlibcProfile {
        GlibcProfile::new(version, cpu, ElfClass::Elf64, X86_64)
    }

    /// The loader for 32-bit x86 as upstream builds it, with `/lib` and `/usr/lib`.
    pub fn i386(version: (u32, u32), cpu: Cpu) -> GlibcProfile {
        GlibcProfile::new(version, cpu, ElfClass::Elf32, I386)
    }

    /// The loader for 64-bit Arm as upstream builds it, with `/lib64` and `/usr/lib64`.
    pub fn aarch64(version: (u32, u32), cpu: Cpu) -> GlibcProfile {
        GlibcProfile::new(version, cpu, ElfClass::Elf64, AARCH64)
    }

    fn new(version: (u32, u32), cpu: Cpu, class: ElfClass, machine: u16) -> GlibcProfile {
        let (lib, vdso) = match class {
            ElfClass::Elf64 => ("lib64", "linux-vdso.so.1"),
            ElfClass::Elf32 => ("lib", "linux-gate.so.1"),
        };
        let mut profile = GlibcProfile {
            version,
            class,
            machine,
            big_endian: false,
            cpu,
            hwcap_mask: None,
            subdirectories: Vec::new(),
            hwcaps: Vec::new(),
            platform: None,
            lib: lib.into(),
            system_directories: [format!("/{lib}/"), format!("/usr/{lib}/")]
                .map(PathBuf::from)
                .into(),
            cache: Some("/etc/ld.so.cache".into()),
            preload_file: Some("/etc/ld.so.preload".into()),
            nohwcap: false,
            machine_first: false,
            assumed_kernel: None,
            executable_stacks: true,
            vdso: vdso.into(),
        };
        profile.renew();
        profile
    }

    /// Derives the sub-directories and the platform from version, CPU and mask, after one of them
    /// was changed.
    pub fn renew(&mut self) {
        let platform = self.platform_name();
        self.platform = Some(platform.into());
        self.hwcaps = self.active_hwcaps();
        let modern = self.hwcaps.iter().map(|name| format!("glibc-hwcaps/{name}/"));
        self.subdirectories = modern.map(OsString::from).collect();
        if self.version >= (2, 37) {
            // "Remove legacy hwcaps support": elf/dl-hwcaps.c makes no power set any more.
            self.subdirectories.push(OsString::new());
        } else {
            let mut names = self.legacy_names();
            names.extend([platform, "tls"]);
            self.subdirectories.extend(power_set(&names));
        }
    }

    /// The names of the legacy capabilities, lowest bit first.
    fn legacy_names(&self) -> Vec<&'static str> {
        let bits = self.legacy_hwcap();
        if self.machine == AARCH64 {
            let names = ARM_NAMES.iter().enumerate();
            return names.filter(|(at, _)| bits >> at & 1 == 1).map(|(_, name)| *name).collect();
        }
        let names = HWCAP_NAMES.iter().filter(|(bit, _)| bits & bit != 0);
        names.map(|(_, name)| *name).collect()
    }

    /// `GLRO(dl_platform)`: what the kernel says in AT_PLATFORM, or since 2.26 what
    /// `init_cpu_features` (sysdeps/x86/cpu-features.c) makes of the CPU.
    fn platform_name(&self) -> &'static str {
        let has = |features| self.cpu.features.has(features);
        match self.machine {
            X86_64 => {}
            // ELF_PLATFORM of the kernel's arch/arm64/include/asm/elf.h.
            AARCH64 => return "aarch64",
            _ => return "i686",
        }
        let haswell = Features::AVX2
            | Features::FMA
            | Features::BMI1
            | Features::BMI2
            | Features::LZCNT
            | Features::MOVBE
            | Features::POPCNT;
        let xeon_phi = Features::AVX512CD | Features::AVX512ER | Features::AVX512PF;
        match self.cpu.intel && self.version >= (2, 26) {
            true if has(xeon_phi) => "xeon_phi",
            true if has(haswell) => "haswell",
            _ => "x86_64",
        }
    }

    /// The sub-directories of glibc-hwcaps, since 2.33
    /// (sysdeps/x86_64/dl-hwcaps-subdirs.c). There are none for 32-bit programs, nor on Arm
    /// (elf/dl-hwcaps_subdirs.c).
    fn active_hwcaps(&self) -> Vec<&'static str> {
        if self.version < (2, 33) || self.machine != X86_64 {
            return Vec::new();
        }
        let levels = self.cpu.levels();
        let all = [(8, "x86-64-v4"), (4, "x86-64-v3"), (2, "x86-64-v2")];
        all.iter().filter(|(bit, _)| levels & bit != 0).map(|(_, name)| *name).collect()
    }

    /// `GLRO(dl_hwcap)` under the mask. Before 2.26 no capability of x86-64 was "important"
    /// (sysdeps/unix/sysv/linux/x86_64/dl-procinfo.h).
    pub(crate) fn legacy_hwcap(&self) -> u64 {
        let old = self.version < (2, 26);
        if self.version >= (2, 37) || (old && self.machine == X86_64) {
            return 0;
        }
        if self.machine == AARCH64 {
            // HWCAP_IMPORTANT of sysdeps/unix/sysv/linux/aarch64/dl-procinfo.h, since 2.26; ATOMICS
            // since 2.28 (commit 397c54c1afa5).
            let important = match self.version {
                (2, ..26) => 0,
                (2, 26 | 27) => ARM_CPUID,
                _ => ARM_ATOMICS,
            };
            return self.cpu.arm_hwcap & self.hwcap_mask.unwrap_or(important);
        }
        let has = |features| self.cpu.features.has(features);
        let mut avx512 =
            Features::AVX512CD | Features::AVX512BW | Features::AVX512DQ | Features::AVX512VL;
        if self.version < (2, 33) {
            avx512 = avx512 | Features::AVX512F;
        }
        let (bits, important) = if self.machine == X86_64 {
            let wide = self.cpu.intel && has(avx512) && !has(Features::AVX512ER);
            (IS_X86_64 | if wide { AVX512_1 } else { 0 }, IS_X86_64 | AVX512_1)
        } else {
            let sse2 = if old { OLD_SSE2 } else { SSE2 };
            (if has(Features::SSE2) { sse2 } else { 0 }, sse2)
        };
        bits & self.hwcap_mask.unwrap_or(important)
    }

    /// Whether an entry of ld.so.cache with these legacy capabilities is for this CPU
    /// (`search_cache` in elf/dl-cache.c).
    pub(crate) fn takes_legacy(&self, hwcap: u64) -> bool {
        if self.version >= (2, 37) {
            return hwcap == 0;
        }
        // 64-bit loaders know haswell and xeon_phi, 32-bit loaders i586 and i686; the mask has a
        // bit for each up to the last known one. Arm's know none.
        let known = match self.machine {
            X86_64 if self.version >= (2, 26) => 4,
            I386 if self.version >= (2, 26) => 2,
            _ => 0,
        };
        let mask = ((1 << known) - 1) << FIRST_PLATFORM;
        let mine = PLATFORMS[..known].iter().position(|name| {
            self.platform.as_deref().is_some_and(|platform| platform == std::ffi::OsStr::new(name))
        });
        let mine = mine.map_or(u64::MAX, |at| 1 << (FIRST_PLATFORM + at));
        let foreign = hwcap & !(self.legacy_hwcap() | mask | TLS) != 0;
        !foreign && (hwcap & mask == 0 || hwcap & mask == mine)
    }

    /// Whether the search of a list goes on where a file cannot be opened for this reason. In
    /// 2.39 a component that is no directory does not end it, either; in 2.36 it does. (The sources
    /// between were not compared.)
    pub(crate) fn goes_on_after(&self, errno: Errno) -> bool {
        matches!(errno.0, libc::ENOENT | libc::EACCES)
            || (errno.0 == libc::ENOTDIR && self.version >= (2, 39))
    }

    /// Whether a directory is asked for with the slash at its end, as in 2.39 and not in 2.36. (The
    /// sources between were not compared.)
    pub(crate) fn stats_with_slash(&self) -> bool {
        self.version >= (2, 39)
    }
}

/// All combinations of the names, as paths: the last name first, the combination of all first,
/// that of none last (`_dl_important_hwcaps` in elf/dl-hwcaps.c).
fn power_set(names: &[&str]) -> Vec<OsString> {
    let combination = |set: usize| {
        let members = (0..names.len()).rev().filter(|at| set >> at & 1 == 1);
        let members: String = members.map(|at| format!("{}/", names[at])).collect();
        OsString::from(members)
    };
    (0..1 << names.len()).rev().map(combination).collect()
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
