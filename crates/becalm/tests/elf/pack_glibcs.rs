//! Packs of programs of other releases of glibc: Debian's packages, unpacked by setup/other-glibcs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use testkit::{Scene, run};

use crate::packed::{FORMS, Packed, REPORT, all_with, assert_same, compile};

/// The directory of a release's C library.
fn library(release: &str) -> String {
    let home = testkit::installed::other_glibcs().join(release);
    let places = ["lib", "usr/lib"].map(|lib| home.join(lib).join("x86_64-linux-gnu"));
    let is_it = |place: &&PathBuf| place.join("libc.so.6").exists();
    let place = places.iter().find(is_it);
    place
        .unwrap_or_else(|| panic!("{release}: setup/other-glibcs unpacks it"))
        .display()
        .to_string()
}

/// What has a program loaded by a release, and all of its libraries looked for there first.
fn linked(release: &str) -> Vec<String> {
    let library = library(release);
    let mut words = vec![
        format!("-Wl,--dynamic-linker={library}/ld-linux-x86-64.so.2"),
        format!("-Wl,--disable-new-dtags,-rpath,{library}"),
        "-Wl,--allow-shlib-undefined".into(),
    ];
    // What is linked with glibc 2.34 or newer asks for that.
    if release == "bullseye" {
        let usr = library.replace("/lib/", "/usr/lib/");
        words.extend(["-nodefaultlibs".into(), format!("-B{usr}"), format!("-Wl,-rpath,{usr}")]);
        let names = ["libdl.so.2", "libpthread.so.0", "libgcc_s.so.1", "libc.so.6"]
            .map(|name| (&library, name));
        let more = ["libstdc++.so.6", "libc_nonshared.a"].map(|name| (&usr, name));
        words.extend(more.into_iter().chain(names).map(|(place, name)| format!("{place}/{name}")));
        words.push("-lgcc".into());
    }
    words
}

#[test]
fn exceptions_threads_tls_dlopen_and_fork_are_as_without_in_each_release() {
    for release in ["bullseye", "bookworm", "trixie", "testing"] {
        let linked = linked(release);
        let (packed, given) =
            all_with(Scene::new(), &linked.iter().map(String::as_str).collect::<Vec<_>>());
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let plain = run(packed.plain(&given).env("PROBE", "set"));
        assert_eq!(plain.code(), 42, "{release}: {}{}", plain.out(), plain.err());
        for form in FORMS {
            for _ in 0..20 {
                let from_pack =
                    run(packed.packed(form, &given).env("PROBE", "set").env(REPORT, "1"));
                assert_same(&plain, &from_pack, &format!("{release} {form}"));
            }
        }
    }
}

/// Before 2.34 the key is an address. From 2.42 on malloc has its key before the first constructor runs.
#[test]
fn malloc_s_key_is_another_one_in_each_start_and_guards_what_was_freed() {
    for release in ["bookworm", "trixie", "testing"] {
        let scene = Scene::new();
        let linked = linked(release);
        let linked: Vec<&str> = linked.iter().map(String::as_str).collect();
        let words = [&["freed.c"], &linked[..]].concat();
        let program = compile(&scene, "gcc", &words, "freed");
        let packed = Packed::of(scene, &program);
        for form in FORMS {
            let key = |_| run(packed.packed(form, &[]).env(REPORT, "1")).out();
            let keys: BTreeSet<String> = (0..9).map(key).collect();
            assert!(keys.len() == 9 && !keys.contains("0\n"), "{release} {form}: {keys:?}");
            let twice = run(packed.packed(form, &["twice"]).env(REPORT, "1"));
            assert!(twice.err().contains("double free detected"), "{release}: {}", twice.err());
        }
    }
}
