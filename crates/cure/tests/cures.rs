//! What can be done about each storm, on a recording that is told call by call; and where nothing
//! certain can be.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

#[path = "../../explain/tests/support/mod.rs"]
mod support;

use cure::{CureActor, CureChange, CurePlan, Machine, StormCures, TakenAway};
use explain::Storm;
use recording::{Recording, StartCall};
use support::*;

/// A machine where all can be done.
const ABLE: Machine =
    Machine { takes_builtins: |_| true, can_change: |_| true, can_mount_image: |_| true };

/// The cures of the only storm of a recording.
#[track_caller]
fn cures_of(recording: &Recording, storm: Storm, machine: &Machine) -> StormCures {
    let findings = explained(recording);
    cure::cures(recording, only(&findings, storm), machine)
}

#[track_caller]
fn cures(tale: Tale, storm: Storm) -> StormCures {
    cures_of(&tale.told(), storm, &ABLE)
}

fn commands(cures: &StormCures) -> Vec<&str> {
    cures.steps().filter_map(|(_, command)| command).collect()
}

/// A program whose 20 libraries are each found in the last of 30 directories.
fn searching() -> Tale {
    let directories = numbered("/store/p", 30);
    let mut tale = Tale::of_app();
    for library in numbered("lib", 20) {
        for (at, directory) in directories.iter().enumerate() {
            let outcome = if at + 1 == directories.len() { YES } else { NO };
            tale.loading("openat", &format!("{directory}/{library}.so"), outcome);
        }
    }
    tale.image("/opt/app/bin/app", &[], &directories, &[]);
    tale.image("/usr/lib/libc.so.6", &[], &[], &[]);
    tale
}

#[test]
fn a_long_rpath_is_bound_in_files_that_are_not_the_systems() {
    let all = cures(searching(), Storm::Loader);
    let [cure] = &all.cures[..] else { panic!("{all:#?}") };
    assert_eq!(cure.command.as_deref(), Some("becalm fix --apply -- app"));
    assert_eq!(cure.actor, CureActor::Owner);
    let CureChange::BindFiles { files } = &cure.change else { panic!("{cure:#?}") };
    let names: Vec<_> = files.iter().map(|file| file.to_string()).collect();
    assert_eq!(names, ["/opt/app/bin/app"]);
}

#[test]
fn what_nothing_is_known_of_the_machine_for_is_no_cure() {
    let recording = searching().told();
    let all = cures_of(&recording, Storm::Loader, &Machine::unknown());
    assert_eq!(all, StormCures::default());
}

#[test]
fn a_library_path_is_not_shortened_for_others_may_need_it() {
    let directories = numbered("/z", 12);
    let list = directories.join(":");
    let mut tale = Tale::of("/opt/app/bin/app", &["app"], &[("LD_LIBRARY_PATH", &list)]);
    for library in numbered("lib", 20) {
        for directory in &directories {
            tale.loading("openat", &format!("{directory}/{library}.so"), NO);
        }
    }
    assert_eq!(cures(tale, Storm::Loader), StormCures::default());
}

#[test]
fn builtins_are_for_what_bash_certainly_does_itself() {
    let run = |words: &[&str]| {
        let mut tale = Tale::of("/usr/bin/bash", &["bash", "run.sh"], &[]);
        for _ in 0..60 {
            let child = tale.start(Some(0), StartCall::Fork);
            let program = format!("/usr/bin/{}", words[0].rsplit('/').next().unwrap());
            tale.exec(child, &program, &program, words, &[]);
            tale.end(child, 500, 900);
        }
        cures(tale, Storm::Fork)
    };
    let all = run(&["mkdir", "-p", "a"]);
    assert_eq!(commands(&all), ["becalm run --builtins -- bash run.sh"]);
    assert_eq!(all.cures[0].change, CureChange::RunBuiltins { processes: 60 });
    let others: [&[&str]; 6] = [
        &["/usr/bin/mkdir", "-p", "a"],
        &["cat", "list"],
        &["tr", "a", "b"],
        &["basename", "-s", ".c", "a.c"],
        &["touch", "-d", "yesterday", "a"],
        &["ln", "-sf", "a", "b"],
    ];
    for words in others {
        assert_eq!(run(words), StormCures::default(), "{words:?}");
    }
}

#[test]
fn a_command_that_is_nowhere_has_no_full_path_and_path_is_left_alone() {
    let env = [("PATH", "/a/bin:/b/bin:/c/bin:/usr/bin")];
    let mut tale = Tale::of("/usr/bin/bash", &["bash", "probe.sh"], &env);
    for number in 0..100 {
        for directory in ["/a/bin", "/b/bin", "/c/bin"] {
            tale.call("stat", &format!("{directory}/tool{number}"), NO);
        }
        tale.call("stat", &format!("/usr/bin/tool{number}"), YES);
    }
    assert_eq!(cures(tale, Storm::Path), StormCures::default());
}

#[test]
fn a_command_that_is_searched_often_is_named_by_its_full_path() {
    let mut tale = Tale::of("/usr/bin/env", &["env"], &[]);
    for _ in 0..300 {
        tale.call("execve", "/a/bin/solver", NO);
    }
    tale.call("execve", "/opt/bin/solver", YES);
    let all = cures(tale, Storm::Path);
    let [cure] = &all.cures[..] else { panic!("{all:#?}") };
    assert!(cure.text.ends_with("`solver` is /opt/bin/solver"), "{}", cure.text);
    assert_eq!(cure.predicted, Some(TakenAway { metadata_ops: 300, enoent: None }));
}

/// A Python that searches an environment.
fn importing(prefix: &str) -> Tale {
    let mut tale = Tale::of(&format!("{prefix}/bin/python3.11"), &["python3", "run.py"], &[]);
    let packages = format!("{prefix}/lib/python3.11/site-packages");
    for number in 0..300 {
        tale.call("newfstatat", &packages, YES);
        tale.call("newfstatat", &format!("{packages}/m{number}.so"), NO);
        tale.call("openat", &format!("{packages}/m{number}.py"), YES);
    }
    tale
}

#[test]
fn an_environment_that_most_is_searched_in_gets_an_image() {
    let all = cures(importing("/venv"), Storm::Python);
    let expected = [
        "becalm image build -o env.sqsh /venv -- python3 run.py && becalm run --image env.sqsh -- \
         python3 run.py",
        "becalm python scan -- python3 run.py",
    ];
    assert_eq!(commands(&all), expected);
    // The exec of its own Python lies in it, too.
    let predicted = TakenAway { metadata_ops: 901, enoent: Some(300) };
    assert_eq!(all.cures[0].predicted, Some(predicted));
    let on_an_unknown_machine =
        cures_of(&importing("/venv").told(), Storm::Python, &Machine::unknown());
    assert_eq!(on_an_unknown_machine.cures, []);
}

#[test]
fn a_plan_holds_the_directorys_own_bytes_whatever_they_are() {
    for prefix in ["/a\tb/venv", "/a\nb/venv", r"/a\x09b/venv", "/a'b $(c)/venv"] {
        let recording = importing(prefix).told();
        let plan = CurePlan::of(&recording, &explained(&recording));
        let (directory, taken) = plan.image().unwrap();
        assert_eq!(directory.bytes(), prefix.as_bytes());
        assert_eq!(taken.metadata_ops, 901, "{prefix:?}");
    }
}

#[test]
fn the_systems_own_python_gets_no_image() {
    let recording = importing("/usr").told();
    assert_eq!(cures_of(&recording, Storm::Python, &ABLE).cures, []);
    assert_eq!(CurePlan::of(&recording, &explained(&recording)).image(), None);
}

#[test]
fn the_audit_is_of_environment_modules_and_not_of_lmod() {
    let tools = [
        ("/usr/bin/tclsh8.6", ["tclsh", "/usr/lib/modulecmd.tcl", "bash", "avail"], true),
        ("/usr/bin/lua5.3", ["lua", "/opt/lmod/libexec/lmod", "bash", "avail"], false),
    ];
    for (program, argv, has_audit) in tools {
        let mut tale = Tale::of(program, &argv, &[("MODULEPATH", "/opt/modules")]);
        for file in numbered("/opt/modules/gcc/", 300) {
            tale.call("openat", &file, YES);
        }
        let all = cures(tale, Storm::Modules);
        assert_eq!(all.cures, [], "the audit says what can be changed");
        let expected: &[_] = if has_audit { &["becalm modules audit /opt/modules"] } else { &[] };
        assert_eq!(commands(&all), expected);
    }
}

#[test]
fn a_time_zone_that_is_read_over_and_over_is_named() {
    let mut tale = Tale::of_app();
    tale.times(500, "newfstatat", "/etc/localtime", YES);
    assert_eq!(commands(&cures(tale, Storm::Repeat)), ["TZ=:/etc/localtime app"]);
}

#[test]
fn locales_and_walks_have_no_cure_that_is_certain() {
    let mut locale = Tale::of("/usr/bin/app", &["app"], &[("LANG", "de_AT.UTF-8")]);
    let mut walk = Tale::of("/usr/bin/find", &["find", "/data"], &[]);
    for number in 0..300 {
        locale.call("openat", &format!("/usr/lib/locale/de_AT.UTF-8/{number}"), NO);
        walk.call("getdents64", &format!("/data/{number}"), YES);
    }
    assert_eq!(cures(locale, Storm::Locale), StormCures::default());
    assert_eq!(cures(walk, Storm::Walk), StormCures::default());
}
