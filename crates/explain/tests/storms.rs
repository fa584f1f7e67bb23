//! Each storm, on a recording that is told call by call: when it is one, what it claims, what its
//! sources are.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod support;

use explain::{Findings, ForkSource, LoaderSource, Storm, StormSource};
use recording::{Outcome, StartCall};
use support::*;

/// An app that looks one name of the root directory up so many times, each of which takes
/// half a millisecond.
fn looks_up(names: usize) -> Tale {
    let mut tale = Tale::of_app();
    // The first one is none too many.
    tale.times(names + 1, "stat", "/input", YES);
    tale
}

#[test]
fn a_storm_begins_at_a_tenth_of_a_second_of_avoidable_wait() {
    for (names, storms) in [(198, 0), (202, 1)] {
        let findings = looks_up(names).explained();
        assert_eq!(findings.storms.len(), storms, "{names}");
        for storm in &findings.storms {
            assert!(storm.avoidable_wait >= 0.1, "{}", storm.avoidable_wait);
        }
    }
}

#[test]
fn what_is_a_small_part_of_a_long_wait_is_no_storm_until_it_is_very_long() {
    for (repeats, storms) in [(400, 0), (5_010, 1)] {
        let mut tale = looks_up(repeats);
        for number in 0..repeats * 25 {
            tale.call("stat", &format!("/{number}"), YES);
        }
        assert_eq!(tale.explained().storms.len(), storms, "{repeats}");
    }
}

#[test]
fn an_operation_belongs_to_one_storm_and_none_is_lost() {
    let mut tale = Tale::of("/usr/bin/bash", &["bash", "all.sh"], &[("PATH", "/x:/y:/usr/bin")]);
    for number in 0..300 {
        for directory in ["/x", "/y", "/usr/bin"] {
            let outcome = if directory == "/usr/bin" { YES } else { NO };
            tale.call("stat", &format!("{directory}/tool{number}"), outcome);
        }
        tale.child(0, "/usr/bin/dirname", &[("/usr/lib/locale/C/LC_CTYPE", NO), ("/x", YES)]);
        tale.call("stat", "/data/input", YES);
        tale.loading("openat", &format!("/a/lib{number}.so"), NO);
    }
    let findings = tale.explained();
    let storms: Vec<_> = findings.storms.iter().map(|finding| finding.storm).collect();
    for storm in [Storm::Path, Storm::Fork, Storm::Loader, Storm::Repeat] {
        assert!(storms.contains(&storm), "{storms:?}");
    }
    assert_eq!(storms.len(), 4);
    let claimed: u64 = findings.storms.iter().map(|finding| finding.metadata_ops).sum();
    let rest: u64 = findings.rest.iter().map(|part| part.count.metadata_ops).sum();
    assert_eq!(claimed + rest, findings.totals.metadata_ops);
    assert!(findings.storms.iter().map(|finding| finding.share).sum::<f64>() <= 1.0);
    assert!(
        findings
            .storms
            .is_sorted_by(|a, b| { a.predicted_wait.all_ranks >= b.predicted_wait.all_ranks })
    );
}

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
        for sub in ["glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2", "tls/haswell/x86_64", "tls"]
        {
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
    assert_eq!(source(storm, "rpath")["metadata_ops"], 200);
    assert_eq!(source(storm, "glibc_hwcaps")["metadata_ops"], 160);
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

#[test]
fn a_program_started_over_and_over_is_named_with_its_parent_count_and_cpu() {
    let mut tale = Tale::of("/usr/bin/bash", &["bash", "/home/me/unpack.sh"], &[]);
    for _ in 0..50 {
        tale.child(0, "/usr/bin/dirname", &[("/etc/ld.so.cache", YES), ("/nowhere", NO)]);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Fork);
    assert_eq!(storm.title, "dirname was run 50 times by unpack.sh (bash)");
    let forks = source(storm, "forks");
    assert_eq!(
        (&forks["parent"], &forks["program"]),
        (&"unpack.sh (bash)".into(), &"dirname".into())
    );
    assert_eq!((&forks["processes"], &forks["cpu_us"]), (&50.into(), &(50 * 900).into()));
    assert_eq!((storm.metadata_ops, storm.enoent), (150, 50), "execve and two opens each");
    let headline = "unpack.sh and the 50 processes it forked: 151 metadata operations, 50 failed \
                    lookups (ENOENT)";
    assert_eq!(findings.headline, headline);
}

#[test]
fn forty_nine_starts_are_calm() {
    let mut tale = Tale::of("/usr/bin/bash", &["bash", "unpack.sh"], &[]);
    for _ in 0..49 {
        tale.child(0, "/usr/bin/dirname", &[]);
    }
    assert_eq!(tale.explained().storms, []);
}

#[test]
fn subshells_alone_are_a_storm_from_a_tenth_of_a_second_of_cpu_on() {
    for (cpu, is_storm) in [(1_000, false), (2_000, true)] {
        let mut tale = Tale::of("/usr/bin/bash", &["bash", "unpack.sh"], &[]);
        for _ in 0..60 {
            let subshell = tale.start(Some(0), StartCall::Fork);
            tale.end(subshell, 10, cpu);
        }
        let storms = tale.explained().storms;
        assert_eq!(storms.iter().any(|found| found.storm == Storm::Fork), is_storm, "{cpu}");
    }
}

#[test]
fn a_subshell_that_starts_a_program_is_the_script_that_starts_it() {
    let mut tale = Tale::of("/usr/bin/bash", &["bash", "unpack.sh"], &[]);
    for _ in 0..60 {
        let subshell = tale.start(Some(0), StartCall::Fork);
        tale.child(subshell, "/usr/bin/sed", &[]);
        tale.end(subshell, 10, 100);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Fork);
    let forks = storm.sources.iter().filter_map(|source| match source {
        StormSource::Fork(ForkSource::Forks { program, processes, .. }) => {
            Some((program.as_deref(), *processes))
        }
        _ => None,
    });
    assert_eq!(forks.collect::<Vec<_>>(), [(None, 60), (Some("sed"), 60)], "none is a subshell");
}

#[test]
fn what_the_children_of_a_repeated_program_ask_belongs_to_the_same_storm() {
    let mut tale = Tale::of("/usr/bin/make", &["make"], &[]);
    for number in 0..60 {
        let rule = tale.start(Some(0), StartCall::Vfork);
        tale.exec(rule, "/usr/bin/sh", "/usr/bin/dash", &["sh", "-c", "x"], &[]);
        tale.child(rule, &format!("/usr/bin/once{number}"), &[("/only/once", YES)]);
        tale.end(rule, 10, 100);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Fork);
    // Of each rule two execve and one open; the command's own execve is not a start's.
    assert_eq!((storm.metadata_ops, findings.totals.metadata_ops), (180, 181));
    assert_eq!(source(storm, "forks")["program"], "sh -c");
}

#[test]
fn programs_that_run_long_are_worth_their_start() {
    let mut tale = Tale::of("/usr/bin/mpirun", &["mpirun"], &[]);
    for _ in 0..64 {
        let rank = tale.start(Some(0), StartCall::Vfork);
        tale.exec(rank, "/opt/app/bin/solver", "/opt/app/bin/solver", &["solver"], &[]);
        tale.end(rank, 2_000_000, 2_000_000);
    }
    assert_eq!(tale.explained().storms, []);
}

#[test]
fn a_search_over_path_names_the_directories_that_never_have_it() {
    let env = [("PATH", "/a/bin:/b/bin:/c/bin:/usr/bin:/never/searched")];
    let mut tale = Tale::of("/usr/bin/bash", &["bash", "probe.sh"], &env);
    for number in 0..100 {
        for directory in ["/a/bin", "/b/bin", "/c/bin"] {
            tale.call("stat", &format!("{directory}/tool{number}"), NO);
        }
        tale.call("stat", &format!("/usr/bin/tool{number}"), YES);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Path);
    assert_eq!((storm.metadata_ops, storm.avoidable), (400, 300));
    assert_eq!(storm.title, "programs were searched in up to 4 directories of PATH");
    assert_eq!(source(storm, "path_entry")["failed"], 100);
}

#[test]
fn failed_execve_calls_are_a_search_whoever_makes_them() {
    let mut tale = Tale::of("/usr/bin/env", &["env"], &[]);
    for number in 0..100 {
        tale.call("execve", &format!("/a/bin/x{number}"), NO);
        tale.call("execve", &format!("/b/bin/x{number}"), DENIED);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Path);
    assert_eq!((storm.metadata_ops, storm.enoent, storm.inferred), (200, 100, 0));
    assert_eq!(source(storm, "command")["executed"], serde_json::Value::Null, "it is nowhere");
}

#[test]
fn one_lookup_of_a_file_in_a_directory_of_path_is_no_search() {
    let env = [("PATH", "/a/bin:/usr/bin")];
    let mut tale = Tale::of("/usr/bin/bash", &["bash", "probe.sh"], &env);
    for number in 0..300 {
        tale.call("stat", &format!("/usr/bin/tool{number}"), NO);
    }
    assert_eq!(tale.explained().storms, []);
}

#[test]
fn each_directory_of_pythonpath_has_its_price() {
    let directories = numbered("/spack/p", 20);
    let path = directories.join(":");
    let env = [("PYTHONPATH", path.as_str())];
    let mut tale = Tale::of("/usr/bin/python3.11", &["python3", "run.py"], &env);
    for module in numbered("mod", 30) {
        for directory in &directories {
            tale.call("newfstatat", directory, YES);
        }
        tale.call("newfstatat", &format!("/spack/p19/{module}.py"), YES);
        tale.call("openat", &format!("/spack/p19/__pycache__/{module}.cpython-311.pyc"), YES);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Python);
    assert_eq!((storm.metadata_ops, storm.avoidable), (660, 630));
    let path = source(storm, "pythonpath");
    assert_eq!((&path["named"], &path["metadata_ops_each"]), (&20.into(), &30.into()));
    let worst = source(storm, "sys_path_entry");
    assert_eq!((&worst["directory"], &worst["metadata_ops"]), (&"/spack/p19".into(), &90.into()));
    assert_eq!(source(storm, "importer")["files"], 30);
}

#[test]
fn bytecode_that_is_written_at_a_start_is_told() {
    let mut tale = Tale::of("/venv/bin/python3.11", &["python3", "run.py"], &[]);
    for number in 0..100 {
        let cache = "/venv/lib/python3.11/site-packages/p/__pycache__";
        tale.call("openat", &format!("/venv/lib/python3.11/site-packages/p/m{number}.py"), YES);
        tale.call("openat", &format!("{cache}/m{number}.cpython-311.pyc.140001"), YES);
        tale.call("rename", &format!("{cache}/m{number}.cpython-311.pyc.140001"), YES);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Python);
    assert_eq!(source(storm, "bytecode")["written"], 100);
    assert_eq!(source(storm, "environment")["directory"], "/venv");
}

#[test]
fn a_realpath_in_python_is_a_repeat_and_not_an_import() {
    let mut tale = Tale::of("/venv/bin/python3.11", &["python3", "run.py"], &[]);
    for number in 0..300 {
        let package = "/venv/lib/python3.11/site-packages";
        tale.call("lstat", package, YES);
        tale.call_with("newfstatat", "/venv/lib/python3.11", YES, NOFOLLOW);
        tale.call("lstat", &format!("{package}/m{number}.py"), YES);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Repeat);
    assert_eq!((storm.metadata_ops, storm.distinct), (600, 2));
}

#[test]
fn a_python_program_that_walks_directories_does_not_import_them() {
    let mut tale = Tale::of("/usr/bin/python3.11", &["python3", "walk.py"], &[]);
    for directory in numbered("/usr/lib/python3/dist-packages/d", 100) {
        tale.call_with("openat", &directory, YES, O_DIRECTORY);
        tale.call("getdents64", &directory, Outcome::Returned(80));
        tale.call("getdents64", &directory, Outcome::Returned(0));
    }
    let findings = tale.explained();
    assert_eq!(only(&findings, Storm::Walk).metadata_ops, 300);
}

#[test]
fn the_module_tool_is_told_with_its_sub_command_and_modulepath() {
    let argv = ["tclsh", "/usr/lib/modulecmd.tcl", "bash", "--terse", "avail"];
    let env = [("MODULEPATH", "/opt/modules:/opt/other")];
    let mut tale = Tale::of("/usr/bin/tclsh8.6", &argv, &env);
    tale.call("openat", "/usr/share/tcltk/init.tcl", YES);
    for package in 0..60 {
        let directory = format!("/opt/modules/p{package}");
        tale.call("stat", &directory, YES);
        tale.call("openat", &directory, YES);
        tale.call("getdents64", &directory, Outcome::Returned(80));
        tale.call("openat", &format!("{directory}/.modulerc"), YES);
        tale.call("openat", &format!("{directory}/1.0"), YES);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Modules);
    assert_eq!(storm.title, "`module avail` opened 60 modulefiles in 60 directories");
    assert_eq!((storm.metadata_ops, storm.avoidable), (301, 300));
    let path = source(storm, "modulepath");
    assert_eq!((&path["directory"], &path["metadata_ops"]), (&"/opt/modules".into(), &300.into()));
    assert_eq!(source(storm, "modulefiles")["rc_files"], 60);
}

#[test]
fn what_is_below_a_modulepath_within_another_is_the_inner_ones() {
    let argv = ["tclsh", "/usr/lib/modulecmd.tcl", "bash", "avail"];
    let env = [("MODULEPATH", "/opt/modules:/opt/modules/core")];
    let mut tale = Tale::of("/usr/bin/tclsh8.6", &argv, &env);
    for file in numbered("/opt/modules/core/gcc/", 300) {
        tale.call("openat", &file, YES);
    }
    let findings = tale.explained();
    let path = source(only(&findings, Storm::Modules), "modulepath");
    let expected = (&"/opt/modules/core".into(), &300.into());
    assert_eq!((&path["directory"], &path["metadata_ops"]), expected);
}

#[test]
fn lmod_is_told_from_environment_modules() {
    let argv = ["lua", "/opt/lmod/libexec/lmod", "bash", "avail"];
    let env = [("MODULEPATH", "/opt/modules")];
    let mut tale = Tale::of("/usr/bin/lua5.3", &argv, &env);
    for file in numbered("/opt/modules/gcc/", 300) {
        tale.call("openat", &file, YES);
    }
    let findings = tale.explained();
    assert_eq!(source(only(&findings, Storm::Modules), "modulefiles")["tool"], "lmod");
}

#[test]
fn a_locale_that_is_not_installed_is_named_with_the_variable_that_asks_for_it() {
    let env = [("LANG", "de_AT.UTF-8")];
    let mut tale = Tale::of("/usr/bin/app", &["app"], &env);
    for number in 0..20 {
        for category in
            ["LC_TIME", "LC_CTYPE", "LC_NUMERIC", "LC_COLLATE", "LC_MONETARY", "LC_NAME"]
        {
            tale.call("openat", &format!("/usr/lib/locale/de_AT.UTF-8/{category}"), NO);
            tale.call("openat", &format!("/usr/lib/locale/de_AT.utf8/{category}"), NO);
        }
        tale.call("openat", &format!("/usr/share/locale/de/LC_MESSAGES/{number}.mo"), YES);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Locale);
    assert_eq!(storm.inferred, storm.metadata_ops);
    assert_eq!(source(storm, "locale_variable")["setting"], "LANG=de_AT.UTF-8");
    let locale = source(storm, "locale");
    assert_eq!(locale["locale"], "de_AT.utf8", "both spellings are one locale");
    assert_eq!(locale["enoent"], locale["metadata_ops"], "it is not there");
}

#[test]
fn a_walk_that_comes_back_by_dot_dot_is_one_walk() {
    let mut tale = Tale::of("/usr/bin/find", &["find", "/data/tree"], &[]);
    tale.call_with("openat", "/data/tree", YES, O_DIRECTORY);
    tale.call("getdents64", "/data/tree", YES);
    for number in 0..99 {
        // fts(3) enters a directory from the one before it.
        let directory = match number {
            0 => "/data/tree/d0".to_owned(),
            _ => format!("/data/tree/d{}/../d{number}", number - 1),
        };
        tale.call_with("openat", &directory, YES, O_DIRECTORY);
        tale.call("getdents64", &directory, YES);
        tale.call("newfstatat", &format!("{directory}/file"), YES);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Walk);
    assert_eq!(storm.title, "find listed 100 directories");
    assert_eq!(source(storm, "walked_tree")["directory"], "/data/tree");
    assert_eq!(storm.metadata_ops, 2 + 3 * 99);
}

#[test]
fn forty_nine_directories_are_no_walk() {
    let mut tale = Tale::of("/usr/bin/find", &["find", "/data"], &[]);
    for directory in numbered("/data/d", 49) {
        tale.call_with("openat", &directory, YES, O_DIRECTORY);
        tale.times(9, "getdents64", &directory, YES);
    }
    assert_eq!(tale.explained().storms, []);
}

#[test]
fn the_same_path_of_many_processes_is_no_repeat() {
    let mut tale = Tale::of("/usr/bin/bash", &["bash", "run.sh"], &[]);
    for _ in 0..49 {
        tale.child(0, "/usr/bin/app", &[("/etc/app.conf", YES); 9]);
    }
    assert_eq!(tale.explained().storms, []);
}

#[test]
fn a_path_looked_up_over_and_over_is_named() {
    let mut tale = Tale::of_app();
    tale.times(500, "newfstatat", "/etc/localtime", YES);
    let findings = tale.explained();
    let storm = only(&findings, Storm::Repeat);
    assert_eq!(storm.title, "/etc/localtime was looked up 500 times");
    let path = source(storm, "repeated_path");
    assert_eq!((&path["path"], &path["operation"]), (&"/etc/localtime".into(), &"stat".into()));
}

#[test]
fn thousands_of_files_that_are_opened_once_each_are_a_storm_by_their_trees() {
    let mut tale = Tale::of_app();
    for number in 0..600 {
        tale.call("openat", &format!("/data/set/part{}/{number}.json", number % 7), YES);
    }
    for number in 0..20 {
        tale.call("openat", &format!("/opt/app/share/{number}"), YES);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Files);
    assert_eq!(storm.title, "app opened 620 files, one by one");
    assert_eq!(storm.metadata_ops, 620);
    let tree = source(storm, "files_tree");
    assert_eq!((&tree["directory"], &tree["files"]), (&"/data/set".into(), &600.into()));
}

#[test]
fn what_git_asks_of_its_index_is_many_files_and_what_it_lists_is_not() {
    let mut tale = Tale::of("/usr/bin/git", &["git", "status"], &[]);
    tale.call("openat", "/w/.git/index", YES);
    for number in 0..800 {
        tale.call("lstat", &format!("/w/src/{number}.c"), YES);
    }
    // The directories on the way are no files.
    tale.call("lstat", "/w/src", YES);
    let findings = tale.explained();
    let storm = only(&findings, Storm::Files);
    assert_eq!(storm.title, "git compared 800 files with its index, one by one");
    assert_eq!(source(storm, "files_reader")["index_of_git"], true);
    assert_eq!(source(storm, "files_tree")["directory"], "/w/src");
}

#[test]
fn a_configuration_that_is_looked_for_in_many_places_is_named() {
    let mut tale = Tale::of_app();
    for number in 0..100 {
        for place in ["/etc/xdg", "/site/etc", "/home/me/.config"] {
            tale.call("openat", &format!("{place}/tool{number}rc"), NO);
        }
        tale.call("openat", &format!("/home/me/.tool{number}rc"), YES);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Configuration);
    assert_eq!(
        storm.title,
        "the configuration tool0rc was looked for in 4 directories, and 99 others likewise"
    );
    assert_eq!((storm.metadata_ops, storm.avoidable, storm.inferred), (400, 300, 400));
    let first = source(storm, "configuration");
    assert_eq!(first["found"][0], "/home/me/.tool0rc");
}

#[test]
fn a_repeat_says_why_only_where_the_recording_tells() {
    let reason = |path: &str, name: &str| {
        let mut tale = Tale::of_app();
        tale.times(500, name, path, YES);
        let findings = tale.explained();
        source(only(&findings, Storm::Repeat), "repeated_path")["reason"].clone()
    };
    assert_eq!(reason("/etc/localtime", "newfstatat")["kind"], "time_zone");
    assert_eq!(reason("/etc/nsswitch.conf", "openat")["kind"], "name_service");
    assert_eq!(reason("/data/input", "stat"), serde_json::Value::Null);
    let mut tale = Tale::of_app();
    for number in 0..300 {
        tale.call("lstat", "/data", YES);
        tale.call("lstat", &format!("/data/{number}"), YES);
    }
    let findings = tale.explained();
    let path = source(only(&findings, Storm::Repeat), "repeated_path");
    assert_eq!(path["reason"]["kind"], "components");
}

#[test]
fn a_path_that_a_hundred_processes_look_up_is_repeated() {
    let mut tale = Tale::of("/usr/bin/make", &["make"], &[]);
    for number in 0..300 {
        // Each of another name, so that none is run over and over.
        let child = tale.start(Some(0), StartCall::Fork);
        let program = format!("/opt/tools/tool{number}");
        tale.exec(child, &program, &program, &["tool"], &[]);
        tale.call_of(child, "stat", "/site/license", YES);
        tale.end(child, 500, 900);
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::Repeat);
    assert_eq!((storm.metadata_ops, storm.avoidable), (300, 299));
    assert_eq!(source(storm, "repeated_path")["processes"], 300);
}

/// A Python that looks into 100 distributions after it opened this module, with this call.
fn asks_distributions(module: &str, lists: bool) -> Findings {
    let packages = "/usr/lib/python3/dist-packages";
    let mut tale = Tale::of("/usr/bin/python3.11", &["python3", "app.py"], &[]);
    tale.call("openat", &format!("/usr/lib/python3.11/{module}/__pycache__/__init__.pyc"), YES);
    for number in 0..100 {
        let directory = format!("{packages}/p{number}-1.0.dist-info");
        if lists {
            tale.call_with("openat", &directory, YES, O_DIRECTORY);
            tale.call("getdents64", &directory, YES);
        }
        tale.call("openat", &format!("{directory}/entry_points.txt"), NO);
        tale.call("openat", &format!("{directory}/METADATA"), YES);
    }
    tale.call("openat", &format!("{packages}/__pycache__/later.cpython-311.pyc"), YES);
    tale.explained()
}

#[test]
fn the_module_that_asks_each_distribution_is_named() {
    for (module, lists, name) in [
        ("importlib/metadata", false, "importlib.metadata"),
        ("pkg_resources", true, "pkg_resources"),
    ] {
        let findings = asks_distributions(module, lists);
        let storm = only(&findings, Storm::Walk);
        assert_eq!(storm.title, format!("app.py's module {name} looked into 100 directories"));
    }
    let findings = asks_distributions("json", false);
    let walker = source(only(&findings, Storm::Walk), "walker");
    assert_eq!(walker["module"], serde_json::Value::Null, "json does not");
    assert_eq!(walker["imports"]["after"], "json");
    assert_eq!(walker["imports"]["before"], "later");
}
