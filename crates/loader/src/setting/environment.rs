//! What the loader reads from the environment.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::cpu::Features;
use super::{GlibcProfile, Libc, LoaderSetting};

impl LoaderSetting {
    /// Takes in what the loader reads from the environment: `LD_LIBRARY_PATH`, `LD_PRELOAD`,
    /// `LD_AUDIT`, and for glibc `GLIBC_TUNABLES`, `LD_HWCAP_MASK` and `LD_ASSUME_KERNEL`.
    /// `lookup` gives the value of a variable, as [`std::env::var_os`] does.
    #[must_use]
    pub fn with_environment(
        mut self,
        lookup: impl Fn(&OsStr) -> Option<OsString>,
    ) -> LoaderSetting {
        let get = |name: &str| lookup(OsStr::new(name));
        self.library_path = get("LD_LIBRARY_PATH");
        self.preload = get("LD_PRELOAD");
        self.audit = get("LD_AUDIT");
        let tunables = get("GLIBC_TUNABLES").unwrap_or_default();
        let tunables = || tunables.as_bytes().split(|byte| *byte == b':');
        if let Libc::Glibc(profile) = &mut self.libc {
            // Then no other tunable counts, wherever it stands.
            self.secure |= profile.version >= (2, 40)
                && tunables()
                    .filter_map(|one| one.strip_prefix(b"glibc.rtld.enable_secure="))
                    .any(|value| number(value) == 1);
            if !self.secure {
                profile.hwcap_mask = get("LD_HWCAP_MASK").map(|mask| number(mask.as_bytes()));
                tunables().for_each(|tunable| profile.tune(tunable));
                let kernel = get("LD_ASSUME_KERNEL").filter(|_| profile.version < (2, 36));
                profile.assumed_kernel = kernel.and_then(|text| kernel_version(text.as_bytes()));
                profile.renew();
            }
        }
        self
    }
}

impl GlibcProfile {
    /// Follows one assignment of GLIBC_TUNABLES (since 2.26), if it matters to the search.
    fn tune(&mut self, tunable: &[u8]) {
        if self.version < (2, 26) {
            return;
        }
        if let Some(value) = tunable.strip_prefix(b"glibc.cpu.hwcap_mask=") {
            self.hwcap_mask = Some(number(value));
        }
        if let Some(value) = tunable.strip_prefix(b"glibc.rtld.execstack=")
            && self.version >= (2, 41)
        {
            self.executable_stacks = number(value) != 0;
        }
        if let Some(value) = tunable.strip_prefix(b"glibc.cpu.hwcaps=") {
            // Features can be taken away, not added (sysdeps/x86/cpu-tunables.c).
            for name in value.split(|byte| *byte == b',').filter_map(|one| one.strip_prefix(b"-")) {
                if let Some(feature) = self.feature(name).filter(|one| can_be_taken(*one)) {
                    self.cpu.features = self.cpu.features.without(feature);
                }
            }
        }
    }

    /// The feature that the tunable calls so. Before 2.33 "usable" was a bit of its own, with a
    /// name of its own; the search asked for that of three features, of the others whether the
    /// CPU has them.
    fn feature(&self, name: &[u8]) -> Option<Features> {
        if self.version >= (2, 33) {
            return Features::named(name);
        }
        let by_use = [Features::FMA, Features::AVX2, Features::AVX512F];
        let (name, usable) = match name.strip_suffix(b"_Usable") {
            Some(name) => (name, true),
            None => (name, false),
        };
        Features::named(name).filter(|feature| by_use.contains(feature) == usable)
    }
}

/// Whether sysdeps/x86/cpu-tunables.c lists the feature.
fn can_be_taken(feature: Features) -> bool {
    let kept = [
        Features::FPU,
        Features::FXSR,
        Features::MMX,
        Features::SSE,
        Features::CMPXCHG16B,
        Features::LAHF,
        Features::SSE3,
        Features::F16C,
    ];
    !kept.contains(&feature)
}

/// The version that LD_ASSUME_KERNEL says, a byte a part; nothing where it says none
/// (`_dl_osversion_init` in sysdeps/unix/sysv/linux/dl-librecon.h of 2.31).
fn kernel_version(text: &[u8]) -> Option<u32> {
    let mut version = 0;
    for (at, part) in text.split(|byte| *byte == b'.').take(3).enumerate() {
        let digits = part.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let whole = digits > 0 && (digits == part.len() || at == 2);
        let number = std::str::from_utf8(&part[..digits]).ok()?.parse::<u32>().ok()?;
        if !whole || number >= 255 {
            return None;
        }
        version |= number << (16 - 8 * at);
    }
    (version > 0).then_some(version)
}

/// As `_dl_strtoul` (elf/dl-misc.c) reads it: what is no number is 0.
fn number(text: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start();
    let (radix, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &text[2..]),
        [b'0', _, ..] => (8, &text[1..]),
        _ => (10, text),
    };
    let end = digits.find(|letter: char| !letter.is_digit(radix)).unwrap_or(digits.len());
    match u64::from_str_radix(&digits[..end], radix) {
        Ok(number) => number,
        Err(_) if end > 0 => u64::MAX,
        Err(_) => 0,
    }
}
