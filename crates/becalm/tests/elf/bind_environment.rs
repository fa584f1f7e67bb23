//! `becalm fix` of a command in an environment that decides what is loaded. Who starts the same
//! program without it, and who starts it with it, must get what they got.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::bound::{Site, asked, says_with, sum};
use testkit::{Ran, run};

/// The ways of binding.
const MODES: [&[&str]; 4] = [&[], &["--mode=needed"], &["--mode=farm"], &["--mode=closure"]];

type Environment<'a> = [(&'static str, &'a str)];

/// `<prefix>/lib/lib<name>.so.1` by a compiler.
fn part_by(compiler: &str, site: &Site, prefix: &str, name: &str, words: &[&str]) -> String {
    let (part, says) = (format!("-DPART={name}"), format!("-DSAYS=\"{name} of {prefix}\""));
    let soname = format!("-Wl,-soname,lib{name}.so.1");
    let usual = ["part.c", "-shared", "-fPIC", &part, &says, &soname];
    let to = format!("{prefix}/lib/lib{name}.so.1");
    site.build_by(compiler, &to, &[&usual[..], words].concat())
}

/// `becalm fix --apply` of a command in an environment.
fn fix(site: &Site, mode: &[&str], environment: &Environment<'_>, command: &[&str]) -> Ran {
    let words = [&["fix", "--apply", "--runs", "2"], mode, &["--"], command].concat();
    run(site.becalm(&words).envs(environment.iter().copied()))
}

/// Fixes a program; what it says, without the environment and in it, must stay as it is.
#[track_caller]
fn fixed(
    site: &Site,
    app: &str,
    asks: &[&str],
    (mode, environment): (&[&str], &Environment<'_>),
) -> Ran {
    let both = || (says_with(app, asks, &[]), says_with(app, asks, environment));
    let before = both();
    let ran = fix(site, mode, environment, &[&[app], asks].concat());
    assert_eq!(both(), before, "{mode:?}: {}{}", ran.out(), ran.err());
    ran
}

/// Whether becalm made something below a prefix of the tree.
fn has_own(site: &Site, prefix: &str) -> bool {
    ["", "lib"].iter().any(|below| Path::new(&site.at(prefix)).join(below).join(".becalm").exists())
}

#[test]
fn what_ld_library_path_leads_to_is_kept_and_is_written_nowhere() {
    for (compiler, kind) in [("gcc", "runpath"), ("gcc", "rpath"), ("musl-gcc", "runpath")] {
        for mode in MODES {
            let site = Site::new();
            let x = part_by(compiler, &site, "v1", "x", &[]);
            let y = part_by(compiler, &site, "v1", "y", &[]);
            part_by(compiler, &site, "v2", "x", &[]);
            // So many in vain that a tenth of the start is gained.
            let directories = ["n", "m", "o", "p", "q", "r", "s", "t", "v1/lib"];
            let list = match kind {
                "rpath" => site.rpath(&directories),
                _ => site.runpath(&directories),
            };
            let app = site.build_by(compiler, "app/bin/ask", &["ask.c", &list, &x, &y]);
            let environment = [("LD_LIBRARY_PATH", &*site.at("v2/lib"))];
            let said = says_with(&app, &["x"], &environment);
            let is_led = said.contains("x: x of v2\n");
            assert_eq!(is_led, kind == "runpath", "{compiler}: {said}");

            let before = sum(&asked(&app, &[], &[])).in_vain();
            let ran = fixed(&site, &app, &["x", "y"], (mode, &environment));

            let context = format!("{compiler}, {kind}, {mode:?}: {}{}", ran.out(), ran.err());
            assert!(!has_own(&site, "v2"), "{context}");
            // A closure lists all or nothing; musl's loader has no use for one. Behind a farm of
            // glibc's x and libc are searched on: it gains nothing, and is not made.
            let is_bound = match mode {
                ["--mode=closure"] => kind == "rpath",
                ["--mode=farm"] => compiler == "musl-gcc",
                _ => true,
            };
            assert_eq!(ran.code(), i32::from(!is_bound), "{context}");
            let after = sum(&asked(&app, &[], &[])).in_vain();
            assert!(after <= before, "{context}: {before} {after}");
            if is_led && is_bound {
                assert!(ran.out().contains("the environment of this start decides"), "{context}");
            }
        }
    }
}

/// glibc looks into a directory for the processor before LD_LIBRARY_PATH's own.
#[cfg(target_arch = "x86_64")] // glibc has no such directories for other processors.
#[test]
fn what_the_processor_chooses_below_ld_library_path_is_kept() {
    for mode in MODES {
        let site = Site::new();
        let x = site.part("v1", "x", &[]);
        let y = site.part("v1", "y", &[]);
        let other = site.part("v2", "x", &[]);
        let variants = site.at("v2/lib/glibc-hwcaps/x86-64-v2");
        fs::create_dir_all(&variants).unwrap();
        fs::rename(other, Path::new(&variants).join("libx.so.1")).unwrap();
        let app = site.ask("app", &[&site.runpath(&["n", "m", "o", "v1/lib"]), &x, &y]);
        let environment = [("LD_LIBRARY_PATH", &*site.at("v2/lib"))];
        assert!(says_with(&app, &["x"], &environment).contains("x: x of v2\n"));
        fixed(&site, &app, &["x", "y"], (mode, &environment));
        assert!(!has_own(&site, "v2"), "{mode:?}");
    }
}

/// y finds x of v1 by its own list; what is preloaded brings in x of v2 by another.
#[test]
fn what_a_preloaded_library_brings_in_is_kept_and_is_written_nowhere() {
    for (compiler, first) in [("gcc", "a"), ("gcc", "z"), ("musl-gcc", "a")] {
        for mode in MODES {
            let site = Site::new();
            let x = part_by(compiler, &site, "v1", "x", &[]);
            let list = site.runpath(&["n", "m", "o", "v1/lib"]);
            let y = part_by(compiler, &site, "v1", "y", &[&list, &x]);
            let other = part_by(compiler, &site, "v2", "x", &[]);
            let long = site.rpath(&["k", "l", "p", "q", "v2/lib"]);
            let preloaded = part_by(compiler, &site, first, "pre", &[&long, &other]);
            let app = site.build_by(compiler, "run/bin/ask", &["ask.c", &list, &y]);
            let environment = [("LD_PRELOAD", &*preloaded)];
            let ran = fixed(&site, &app, &["x", "y"], (mode, &environment));
            let context = format!("{compiler}, {mode:?}: {}{}", ran.out(), ran.err());
            assert!(!has_own(&site, first) && !has_own(&site, "v2"), "{context}");
            // The program does not rely on what only LD_PRELOAD names.
            let plain = says_with(&app, &["x", "y"], &[]);
            for prefix in [first, "v2"] {
                fs::rename(site.at(prefix), site.at(&format!("{prefix}.gone"))).unwrap();
            }
            assert_eq!(says_with(&app, &["x", "y"], &[]), plain, "{context}");
        }
    }
}

#[test]
fn an_environment_that_a_wrapper_sets_counts_too() {
    for mode in MODES {
        let site = Site::new();
        let x = site.part("v1", "x", &[]);
        let y = site.part("v1", "y", &[]);
        site.part("v2", "x", &[]);
        let app = site.ask("app", &[&site.runpath(&["n", "m", "o", "v1/lib"]), &x, &y]);
        let script = format!("#!/bin/sh\nLD_LIBRARY_PATH={} exec {app} x y\n", site.at("v2/lib"));
        let wrapper = site.scene.file("tree/wrapper", script, 0o755);
        let both = || (says_with(&app, &["x", "y"], &[]), says_with(&wrapper, &[], &[]));
        let before = both();
        assert!(before.1.contains("x: x of v2\n"), "{}", before.1);
        let ran = fix(&site, mode, &[], &[&wrapper]);
        assert_eq!(both(), before, "{mode:?}: {}{}", ran.out(), ran.err());
        assert!(!has_own(&site, "v2"), "{mode:?}");
    }
}

/// What an auditing library answers cannot be simulated.
#[test]
fn where_a_start_is_audited_nothing_is_bound() {
    for mode in MODES {
        let site = Site::new();
        let x = site.part("v1", "x", &[]);
        let app = site.ask("app", &[&site.runpath(&["n", "m", "o", "v1/lib"]), &x]);
        let source = site.scene.file(
            "audit.c",
            "unsigned la_version(unsigned version) { return version; }\n",
            0o644,
        );
        let audit = site.scene.at("libaudit.so");
        let built = run(Command::new("gcc").args(["-shared", "-fPIC", "-o", &audit, &source]));
        assert_eq!(built.code(), 0, "{}", built.err());
        let before = site.snapshot();
        let ran = fixed(&site, &app, &["x"], (mode, &[("LD_AUDIT", &audit)]));
        assert_eq!(ran.code(), 1, "{}{}", ran.out(), ran.err());
        assert!(ran.out().contains("auditing libraries"), "{}", ran.out());
        site.snapshot().assert_is(&before);
    }
}
