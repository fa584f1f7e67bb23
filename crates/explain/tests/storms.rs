//! Storms on a recording that is told call by call: when there is one, what it claims, and what the
//! sources of a storm of executed programs are.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod support;

use explain::{ForkSource, Storm, StormSource};
use recording::StartCall;
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

/// The first directory has what is found at once, and by no search.
#[test]
fn a_directory_that_had_another_command_is_not_said_to_have_had_none() {
    let env = [("PATH", "/a/bin:/b/bin:/c/bin:/usr/bin")];
    let mut tale = Tale::of("/usr/bin/bash", &["bash", "probe.sh"], &env);
    for number in 0..100 {
        for directory in ["/a/bin", "/b/bin", "/c/bin"] {
            tale.call("stat", &format!("{directory}/tool{number}"), NO);
        }
        tale.call("stat", &format!("/usr/bin/tool{number}"), YES);
    }
    for name in ["x", "y"] {
        tale.call("stat", &format!("/a/bin/{name}"), YES);
        tale.call("execve", &format!("/a/bin/{name}"), YES);
    }
    tale.call("stat", "/a/bin/z", NO);
    tale.call("stat", "/b/bin/z", YES);
    let findings = tale.explained();
    let storm = only(&findings, Storm::Path);
    let said: Vec<_> = storm.sources.iter().map(|it| it.sentence(storm.metadata_ops)).collect();
    for line in [
        "/a/bin was searched 100 times in vain and had 2 others",
        "/b/bin was searched 100 times in vain and had 1 other",
        "/c/bin was searched 100 times in vain and never had the command",
    ] {
        assert!(said.iter().any(|said| said == line), "{said:#?}");
    }
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
