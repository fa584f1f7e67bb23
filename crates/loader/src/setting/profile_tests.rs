use super::*;
use crate::{Libc, LoaderSetting};

const ALL: Features = Features::ALL;

fn intel() -> Cpu {
    let most = ALL.without(Features::AVX512ER).without(Features::AVX512PF);
    Cpu { intel: true, features: most, arm_hwcap: 0 }
}

fn subdirectories(version: (u32, u32), cpu: Cpu) -> Vec<String> {
    let profile = GlibcProfile::x86_64(version, cpu);
    profile.subdirectories.iter().map(|name| name.to_str().unwrap().to_owned()).collect()
}

/// What LD_DEBUG=libs shows on Debian 12 for Arm, on a Cortex-A72 (no LSE atomics) and on newer ones;
/// of 2.28 and 2.17, sysdeps/unix/sysv/linux/aarch64/dl-procinfo.h and NEWS of 2.37.
#[test]
fn on_arm_the_platform_and_atomics_are_tried_up_to_2_36() {
    let tried = |version, arm_hwcap| {
        let profile = GlibcProfile::aarch64(version, Cpu { arm_hwcap, ..Cpu::default() });
        profile.subdirectories.iter().map(|it| it.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (without_atomics, newer) = (0x8ff, 0xfff);
    let old = ["tls/aarch64/", "tls/", "aarch64/", ""];
    assert_eq!(tried((2, 36), without_atomics), old);
    assert_eq!(tried((2, 17), newer), old);
    let new = tried((2, 28), newer);
    assert_eq!(new[..3], ["tls/aarch64/atomics/", "tls/aarch64/", "tls/atomics/"]);
    assert_eq!(new.len(), 8);
    assert_eq!(tried((2, 26), newer)[0], "tls/aarch64/cpuid/");
    assert_eq!(tried((2, 39), newer), [""]);
}

/// What strace shows on CentOS 7: elf/dl-load.c of 2.17 with HWCAP_IMPORTANT 0.
#[test]
fn version_2_17_tries_tls_and_the_platform() {
    let expected = ["tls/x86_64/", "tls/", "x86_64/", ""];
    assert_eq!(subdirectories((2, 17), intel()), expected);
    assert_eq!(GlibcProfile::x86_64((2, 17), intel()).platform.unwrap(), "x86_64");
}

/// sysdeps/x86/cpu-features.c since 2.26, elf/dl-hwcaps.c: the power set of avx512_1, x86_64,
/// haswell and tls, the last of them first.
#[test]
fn versions_2_26_to_2_32_try_what_the_cpu_has() {
    for version in [(2, 26), (2, 28), (2, 31), (2, 32)] {
        let tried = subdirectories(version, intel());
        assert_eq!(tried.len(), 16);
        assert_eq!(tried[0], "tls/haswell/avx512_1/x86_64/");
        assert_eq!(tried[1], "tls/haswell/avx512_1/");
        assert_eq!(tried[2], "tls/haswell/x86_64/");
        assert_eq!(tried[14], "x86_64/");
        assert_eq!(tried[15], "");
    }
    let plain = Cpu { intel: false, ..intel() };
    assert_eq!(subdirectories((2, 28), plain)[0], "tls/x86_64/x86_64/");
    assert_eq!(subdirectories((2, 28), plain).len(), 8);
}

/// NEWS of 2.33: glibc-hwcaps come first.
#[test]
fn versions_2_33_to_2_36_try_levels_and_then_the_old_ones() {
    for version in [(2, 33), (2, 34), (2, 36)] {
        let tried = subdirectories(version, intel());
        let levels = ["v4", "v3", "v2"].map(|level| format!("glibc-hwcaps/x86-64-{level}/"));
        assert_eq!(tried[..3], levels);
        assert_eq!(tried.len(), 19);
    }
}

/// NEWS of 2.37: the legacy hwcaps are gone.
#[test]
fn versions_from_2_37_on_try_levels_only() {
    for version in [(2, 37), (2, 39), (2, 41)] {
        assert_eq!(subdirectories(version, intel()).len(), 4);
        let old = Cpu { features: Features::BASELINE, ..intel() };
        assert_eq!(subdirectories(version, old), [""]);
        let v3 = Cpu { features: intel().features.without(Features::AVX512BW), ..intel() };
        assert_eq!(subdirectories(version, v3).len(), 3);
    }
}

#[test]
fn a_xeon_phi_has_a_platform_of_its_own() {
    let cpu = Cpu { intel: true, features: ALL, arm_hwcap: 0 };
    let profile = GlibcProfile::x86_64((2, 28), cpu);
    assert_eq!(profile.platform.clone().unwrap(), "xeon_phi");
    assert!(!profile.subdirectories.iter().any(|name| name.to_str().unwrap().contains("avx512_1")));
}

#[test]
fn calls_have_the_names_of_their_time() {
    use crate::simulation::ProbeCall;
    let names = |version| {
        let setting = LoaderSetting {
            libc: Libc::Glibc(GlibcProfile::x86_64(version, intel())),
            interpreter: "/lib64/ld-linux-x86-64.so.2".into(),
            library_path: None,
            preload: None,
            audit: None,
            working_directory: "/".into(),
            secure: false,
        };
        [ProbeCall::Open, ProbeCall::Stat].map(|call| setting.system_call(call))
    };
    assert_eq!(names((2, 17)), ["open", "stat"]);
    assert_eq!(names((2, 28)), ["openat", "stat"]);
    assert_eq!(names((2, 34)), ["openat", "newfstatat"]);
}

/// A search ends at errors that say more than "not here", and the list of these was shortened.
#[test]
fn a_component_that_is_no_directory_ends_old_searches_only() {
    let goes_on =
        |version, errno| GlibcProfile::x86_64(version, intel()).goes_on_after(Errno(errno));
    for version in [(2, 17), (2, 36), (2, 39)] {
        assert!(goes_on(version, libc::ENOENT) && goes_on(version, libc::EACCES));
        assert!(!goes_on(version, libc::ELOOP) && !goes_on(version, libc::ENAMETOOLONG));
    }
    assert!(!goes_on((2, 36), libc::ENOTDIR) && goes_on((2, 39), libc::ENOTDIR));
}
