//! Storms of the loader on a recording that is told call by call: the list that is named, and what it
//! claims.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod support;

use explain::{LoaderSource, Storm, StormSource};
use support::*;

/// A program whose libraries are each found in the last directory of its list.
fn searched(tale: &mut Tale, directories: &[String], libraries: usize) {
    for library in numbered("lib", libraries) {
        for (at, directory) in directories.iter().enumerate() {
            let outcome = if at + 1 == directories.len() { YES } else { NO };
            tale.loading("openat", &format!("{directory}/{library}.so"), outcome);
        }
    }
}

#[test]
fn the_rpath_that_made_the_loader_search_is_named_with_its_directories() {
    let directories = numbered("/store/p", 30);
    let libraries: Vec<_> = numbered("lib", 20).iter().map(|name| format!("{name}.so")).collect();
    let needed: Vec<_> = libraries.iter().map(String::as_str).collect();
    let mut tale = Tale::of_app();
    searched(&mut tale, &directories, 20);
    tale.image("/opt/app/bin/app", &needed, &directories, &[]);
    let findings = tale.explained();
    let storm = only(&findings, Storm::Loader);
    assert_eq!((storm.metadata_ops, storm.enoent, storm.avoidable), (600, 580, 580));
    assert_eq!(storm.title, "20 libraries were searched over RPATHs of up to 30 directories");
    let rpath = source(storm, "rpath");
    assert_eq!(rpath["file"], "/opt/app/bin/app");
    assert_eq!((&rpath["directories"], &rpath["enoent"]), (&30.into(), &580.into()));
    assert_eq!(source(storm, "library")["directories"], 30);
    assert_eq!(storm.evidence, "becalm report REC --by library");
}

#[test]
fn a_source_holds_the_recordings_own_path_whatever_bytes_it_has() {
    let directories = numbered("/store/p", 30);
    for file in ["/opt/a\tb/app", "/opt/a\nb/app", r"/opt/a\x09b/app"] {
        let mut tale = Tale::of(file, &["app"], &[]);
        searched(&mut tale, &directories, 20);
        tale.image(file, &[], &directories, &[]);
        let recording = tale.told();
        let findings = explained(&recording);
        let list = only(&findings, Storm::Loader).sources.iter().find_map(|source| match source {
            StormSource::Loader(LoaderSource::Rpath(list)) => Some(list),
            _ => None,
        });
        let path = &list.unwrap().file;
        assert_eq!(path.bytes(), file.as_bytes());
        assert_eq!(recording.path(path.id.unwrap()), file.as_bytes());
    }
}

#[test]
fn a_library_found_at_the_first_try_is_no_search_however_many_there_are() {
    let mut tale = Tale::of_app();
    for number in 0..900 {
        tale.loading("openat", &format!("/usr/lib/lib{number}.so"), YES);
    }
    assert_eq!(tale.explained().storms, []);
}

#[test]
fn the_rpath_of_the_file_that_needs_a_library_comes_before_the_programs() {
    let (own, program) = (numbered("/own/p", 15), numbered("/program/p", 15));
    let mut tale = Tale::of_app();
    tale.loading("openat", "/program/p0/liba.so", YES);
    for directory in &own {
        for name in numbered("x", 20) {
            tale.loading("openat", &format!("{directory}/{name}.so"), NO);
        }
    }
    tale.image("/opt/app/bin/app", &["liba.so"], &program, &[]);
    let needed: Vec<_> = numbered("x", 20).iter().map(|name| format!("{name}.so")).collect();
    let needed: Vec<_> = needed.iter().map(String::as_str).collect();
    // Directories that both lists have are the first list's.
    tale.image("/program/p0/liba.so", &needed, &[own, program].concat(), &[]);
    let findings = tale.explained();
    let rpath = source(only(&findings, Storm::Loader), "rpath");
    let expected = (&"/program/p0/liba.so".into(), &30.into());
    assert_eq!((&rpath["file"], &rpath["directories"]), expected);
}

#[test]
fn beside_a_runpath_the_rpath_is_not_a_source_and_the_library_path_comes_first() {
    let directories = numbered("/both/p", 30);
    let list = directories.join(":");
    for (env, kind) in [(None, "runpath"), (Some(list.as_str()), "ld_library_path")] {
        let env: Vec<_> = env.map(|list| ("LD_LIBRARY_PATH", list)).into_iter().collect();
        let mut tale = Tale::of("/opt/app/bin/app", &["app"], &env);
        searched(&mut tale, &directories, 20);
        let needed: Vec<_> = numbered("lib", 20).iter().map(|name| format!("{name}.so")).collect();
        let needed: Vec<_> = needed.iter().map(String::as_str).collect();
        tale.image("/opt/app/bin/app", &needed, &directories, &directories);
        let findings = tale.explained();
        assert_eq!(source(only(&findings, Storm::Loader), kind)["directories"], 30, "{kind}");
    }
}

#[test]
fn a_file_with_a_runpath_does_not_search_the_programs_rpath() {
    let directories = numbered("/both/p", 30);
    let mut tale = Tale::of_app();
    tale.loading("openat", "/lib/liba.so", YES);
    for directory in &directories {
        numbered("x", 10).iter().for_each(|name| {
            tale.loading("openat", &format!("{directory}/{name}.so"), NO);
        });
    }
    tale.image("/opt/app/bin/app", &["liba.so"], &directories, &[]);
    let needed: Vec<_> = numbered("x", 10).iter().map(|name| format!("{name}.so")).collect();
    let needed: Vec<_> = needed.iter().map(String::as_str).collect();
    tale.image("/lib/liba.so", &needed, &[], &directories);
    let findings = tale.explained();
    assert_eq!(source(only(&findings, Storm::Loader), "runpath")["file"], "/lib/liba.so");
}

#[test]
fn the_rpath_of_a_file_holds_for_what_its_libraries_need() {
    let directories = numbered("/middle/p", 30);
    let mut tale = Tale::of_app();
    tale.loading("openat", "/lib/libmiddle.so", YES).loading("openat", "/lib/libleaf.so", YES);
    for directory in &directories {
        numbered("x", 10).iter().for_each(|name| {
            tale.loading("openat", &format!("{directory}/{name}.so"), NO);
        });
    }
    tale.image("/opt/app/bin/app", &["libmiddle.so"], &[], &[]);
    tale.image("/lib/libmiddle.so", &["libleaf.so"], &directories, &[]);
    let needed: Vec<_> = numbered("x", 10).iter().map(|name| format!("{name}.so")).collect();
    let needed: Vec<_> = needed.iter().map(String::as_str).collect();
    tale.image("/lib/libleaf.so", &needed, &[], &[]);
    let findings = tale.explained();
    let storm = only(&findings, Storm::Loader);
    assert_eq!(source(storm, "rpath")["file"], "/lib/libmiddle.so");
    assert_eq!(source(storm, "library")["needed_by"], "/lib/libleaf.so");
}

#[test]
fn a_library_path_is_named_with_its_directories_that_have_nothing() {
    let directories = [numbered("/z", 12), vec!["/m".to_owned(), "/a".to_owned()]].concat();
    let env = [("LD_LIBRARY_PATH", directories.join(":"))];
    let env: Vec<_> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut tale = Tale::of("/opt/app/bin/app", &["app"], &env);
    for (library, home) in numbered("lib", 20).iter().zip(["/m", "/a"].into_iter().cycle()) {
        for directory in directories.iter().take_while(|directory| *directory != home) {
            tale.loading("openat", &format!("{directory}/{library}.so"), NO);
        }
        tale.loading("openat", &format!("{home}/{library}.so"), YES);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Loader);
    assert_eq!(source(storm, "ld_library_path")["useless"], 12);
}

#[test]
fn sub_directories_for_processor_types_count_as_their_directory() {
    let mut tale = Tale::of_app();
    let directories = numbered("/store/p", 20);
    for directory in &directories {
        for sub in [
            "glibc-hwcaps/x86-64-v3",
            "glibc-hwcaps/x86-64-v2",
            "tls/haswell/x86_64",
            "tls/aarch64/cpuid",
            "tls",
        ] {
            tale.loading("openat", &format!("{directory}/{sub}/libc.so.6"), NO);
            tale.loading("stat", &format!("{directory}/{sub}"), NO);
        }
        tale.loading("openat", &format!("{directory}/libc.so.6"), NO);
        tale.loading("stat", directory, YES);
    }
    tale.image("/opt/app/bin/app", &["libc.so.6"], &directories, &[]);
    let findings = tale.explained();
    let storm = only(&findings, Storm::Loader);
    assert_eq!(source(storm, "library")["directories"], 20);
    assert_eq!(source(storm, "rpath")["metadata_ops"], 240);
    assert_eq!(source(storm, "glibc_hwcaps")["metadata_ops"], 200);
}

#[test]
fn what_the_loader_does_for_a_running_program_is_a_storm_of_its_own() {
    let mut tale = Tale::of_app();
    let directories = numbered("/plugins/p", 60);
    for number in 0..5 {
        for directory in &directories {
            tale.dlopening("openat", &format!("{directory}/plugin{number}.so"), NO);
        }
    }
    tale.dlopening("openat", "/plugins/host.so", YES);
    tale.image("/plugins/host.so", &[], &[], &directories);
    let findings = tale.explained();
    let storm = only(&findings, Storm::Dlopen);
    assert_eq!(storm.metadata_ops, 301);
    assert_eq!(source(storm, "runpath")["file"], "/plugins/host.so");
    assert_eq!(source(storm, "opened_by")["program"], "app");
}
