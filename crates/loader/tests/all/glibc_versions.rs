//! Other versions of glibc, each by its own loader: the model's probes are those that it makes.
//!
//! They are Debian's packages, unpacked by setup/other-glibcs. A program names the loader by path,
//! and has the C library beside it in its list.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::real::Run;
use crate::real::build::{Workshop, patchelf, rpath, runpath};
use crate::real::say::text;
use crate::{store, system_files};
use loader::{Disk, Libc};
use testkit::arch::{LIB, LOADER_NAME};

/// Releases of Debian, and which version each has at least.
const RELEASES: &[(&str, (u32, u32))] =
    &[("bullseye", (2, 31)), ("bookworm", (2, 36)), ("trixie", (2, 41)), ("testing", (2, 42))];

/// The loader of each release, with its version's number.
fn loaders() -> Vec<(PathBuf, (u32, u32))> {
    let home = testkit::installed::other_glibcs();
    let loader = |(release, version): &(&str, (u32, u32))| {
        let places = ["", "/usr"].map(|usr| format!("{release}{usr}{LIB}/{LOADER_NAME}"));
        let mut places = places.iter().map(|place| home.join(place));
        let place =
            places.find(|place| fs::symlink_metadata(place).is_ok_and(|data| !data.is_dir()));
        (place.unwrap_or_else(|| panic!("{release}: setup/other-glibcs unpacks it")), *version)
    };
    RELEASES.iter().map(loader).collect()
}

/// A program for a loader: without a version of any symbol, so that each C library will do.
fn program(shop: &Workshop, loader: &Path, needs: &[&Path], options: &[&str]) -> PathBuf {
    let named = format!("-Wl,--dynamic-linker={}", text(loader));
    let libc = loader.with_file_name("libc.so.6");
    let needs = [needs, &[libc.as_path()][..]].concat();
    let bare = ["-nostdlib", "-Wl,--entry=main", &named];
    shop.program("bin/program", &needs, &[&bare[..], options].concat())
}

#[test]
fn every_version_is_taken_for_what_it_is() {
    for (loader, at_least) in loaders() {
        let shop = Workshop::new();
        let setting = Run::of(program(&shop, &loader, &[], &[])).setting(&Disk::new());
        let Libc::Glibc(profile) = setting.libc else { panic!("{loader:?}") };
        assert!(profile.version >= at_least, "{loader:?}: {:?}", profile.version);
        println!("{loader:?}: {:?}", profile.version);
    }
}

#[test]
fn every_version_searches_lists_as_predicted() {
    for (loader, _) in loaders() {
        let shop = Workshop::new();
        let low = shop.library("low/liblow.so", &[], &[]);
        let middle = shop.library("middle/libmiddle.so", &[&low], &[]);
        let own = text(loader.parent().unwrap());
        let (missing, low) = (shop.path("missing"), shop.path("low"));
        let list = format!("{}:$ORIGIN/../middle:{}:{own}", text(&missing), text(&low));
        let lists = format!("{}:{}:{own}:", text(&low), text(&shop.path("middle")));
        for (options, library_path) in [
            (vec![rpath(&list)], None),
            (vec![runpath(&list)], None),
            (vec![runpath(&list)], Some(lists.as_str())),
            (vec![rpath(&format!("$LIB:$PLATFORM:{list}"))], None),
            (vec!["-Wl,-z,nodefaultlib".to_owned(), runpath(&list)], None),
            (vec![], Some(lists.as_str())),
            (vec![], None),
        ] {
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let program = program(&shop, &loader, &[&middle], &options);
            let run = Run::of(&program);
            let run = match library_path {
                Some(list) => run.with("LD_LIBRARY_PATH", list),
                None => run,
            };
            run.assert_true();
            run.with("LD_PRELOAD", "libm.so.6 libabsent.so").assert_true();
        }
    }
}

#[test]
fn every_version_takes_errors_and_tunables_as_predicted() {
    for (loader, _) in loaders() {
        let shop = Workshop::new();
        let low = shop.library("low/liblow.so", &[], &[]);
        let own = text(loader.parent().unwrap());
        fs::write(shop.path("file"), "").unwrap();
        symlink("loop", shop.path("loop")).unwrap();
        for before in ["file/below", "file", "loop"] {
            let list = format!("{}:{}:{own}", text(&shop.path(before)), text(&shop.path("low")));
            Run::of(program(&shop, &loader, &[&low], &[&rpath(&list)])).assert_true();
        }
        let list = format!("{}:{own}", text(&shop.path("low")));
        let program = program(&shop, &loader, &[&low], &[&rpath(&list)]);
        let mut tunables: Vec<String> = ["hwcap_mask=0", "hwcap_mask=6", "hwcaps=-AVX512F,-BMI2"]
            .map(|tunable| format!("glibc.cpu.{tunable}"))
            .into();
        for feature in ["AVX2", "FMA", "BMI1", "LZCNT", "MOVBE", "POPCNT", "AVX512F", "AVX512DQ"] {
            for suffix in ["", "_Usable"] {
                tunables.push(format!("glibc.cpu.hwcaps=-{feature}{suffix}"));
            }
        }
        for tunables in tunables {
            Run::of(&program).with("GLIBC_TUNABLES", tunables).assert_true();
        }
        Run::of(&program).with("LD_HWCAP_MASK", "0").assert_true();
    }
}

#[test]
fn every_version_takes_from_the_cache_as_predicted() {
    for (loader, _) in loaders() {
        let shop = Workshop::new();
        let any = shop.library("lib/libany.so.1", &[], &[]);
        let program = program(&shop, &loader, &[&any], &[&runpath(text(loader.parent().unwrap()))]);
        let levels = ["", "x86-64-v2", "x86-64-v3", "x86-64-v4"];
        for level in levels {
            if !level.is_empty() {
                shop.library(&format!("lib/glibc-hwcaps/{level}/libany.so.1"), &[], &[]);
            }
            for format in ["new", "compat"] {
                let etc = system_files::etc(&shop, &[shop.path("lib")], &["-c", format]);
                system_files::true_simulation(&Run::of(&program), &etc);
                for feature in ["-AVX512F", "-AVX2", "-SSE4_2"] {
                    let tunable = format!("glibc.cpu.hwcaps={feature}");
                    let run = Run::of(&program).with("GLIBC_TUNABLES", tunable);
                    system_files::true_simulation(&run, &etc);
                }
            }
        }
    }
}

#[test]
fn every_version_searches_a_store_as_predicted() {
    for option in [&[][..], &["--runpath"], &["--no-rpath"]] {
        let directory = tempfile::tempdir().unwrap();
        let program = store::make(directory.path(), option, "gcc");
        for (loader, _) in loaders() {
            patchelf(&program, &["--set-interpreter", text(&loader)]);
            store::assert_true_in_all_environments(&program);
        }
    }
}

#[test]
fn every_version_takes_flags_of_the_dynamic_section_as_predicted() {
    let flags = ["nodefaultlib", "nodlopen", "initfirst", "global", "nodelete", "origin"];
    let flags = [&flags[..], &["interpose", "loadfltr", "now", "nodump", "execstack"]].concat();
    for (loader, _) in loaders() {
        let shop = Workshop::new();
        let own = text(loader.parent().unwrap());
        for (at, flag) in flags.iter().enumerate() {
            // Each alone and with the next, in a library and in the program.
            let pair =
                [format!("-Wl,-z,{flag}"), format!("-Wl,-z,{}", flags[(at + 1) % flags.len()])];
            let both: Vec<&str> = pair.iter().map(String::as_str).collect();
            let low = shop.library("low/liblow.so", &[], &both[..1]);
            let middle = shop.library("middle/libmiddle.so", &[&low], &both);
            let list = runpath(&format!("{}:{own}", text(&shop.path("middle"))));
            let program = program(&shop, &loader, &[&middle], &[&both[..], &[&list]].concat());
            Run::of(&program).assert_true();
            Run::of(&program).with("LD_LIBRARY_PATH", shop.path("low")).assert_true();
        }
    }
}

/// What a program, or the environment, has audited is not told (`hostile`): what a library asks
/// for is not heeded.
#[test]
fn every_version_ignores_the_auditors_that_a_library_names() {
    for (loader, _) in loaders() {
        let shop = Workshop::new();
        let low = shop.library("low/liblow.so", &[], &[]);
        let own = text(loader.parent().unwrap());
        let list = runpath(&format!("{}:{own}", text(&shop.path("low"))));
        let program = program(&shop, &loader, &[&low], &[&list]);
        for option in ["-Wl,--audit,libaudit.so", "-Wl,--depaudit,libaudit.so"] {
            // Only now: the linker hands a library's auditors on to the program.
            shop.library("low/liblow.so", &[], &[option]);
            Run::of(&program).assert_true();
        }
    }
}

#[test]
fn every_version_takes_the_loaders_variables_as_predicted() {
    for (loader, _) in loaders() {
        let shop = Workshop::new();
        let low = shop.library("low/liblow.so", &[], &["-Wl,-z,execstack"]);
        let own = text(loader.parent().unwrap());
        let program = program(&shop, &loader, &[&low], &[&runpath(own)]);
        let run = Run::of(&program).with("LD_LIBRARY_PATH", shop.path("low"));
        for (name, value) in [
            ("GLIBC_TUNABLES", "glibc.rtld.enable_secure=1"),
            ("GLIBC_TUNABLES", "glibc.rtld.enable_secure=0"),
            ("GLIBC_TUNABLES", "glibc.rtld.enable_secure=0x1:glibc.cpu.hwcaps=-AVX2"),
            ("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2:glibc.rtld.enable_secure=1"),
            ("GLIBC_TUNABLES", "glibc.rtld.dynamic_sort=1"),
            ("GLIBC_TUNABLES", "glibc.rtld.nns=2:glibc.rtld.optional_static_tls=0"),
            ("GLIBC_TUNABLES", "glibc.rtld.execstack=0"),
            ("GLIBC_TUNABLES", "glibc.rtld.execstack=1"),
            ("LD_ASSUME_KERNEL", "2.4.1"),
            ("LD_ASSUME_KERNEL", "99.0.0"),
            ("LD_ASSUME_KERNEL", "3.2.0"),
            ("LD_ASSUME_KERNEL", "3.1.9"),
            ("LD_ASSUME_KERNEL", "3"),
            ("LD_ASSUME_KERNEL", "4"),
            ("LD_ASSUME_KERNEL", "2.4"),
            ("LD_ASSUME_KERNEL", "x"),
            ("LD_ASSUME_KERNEL", ""),
            ("GLIBC_TUNABLES", "glibc.rtld.enable_secure=2"),
            ("LD_BIND_NOW", "1"),
            ("LD_DYNAMIC_WEAK", "1"),
            ("LD_ORIGIN_PATH", "/nowhere"),
            ("LD_PREFER_MAP_32BIT_EXEC", "1"),
            ("LD_USE_LOAD_BIAS", "1"),
        ] {
            run.clone().with(name, value).assert_true();
        }
    }
}
