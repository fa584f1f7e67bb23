//! What can be done about each storm, on a recording that is told call by call; and where nothing
//! certain can be.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

#[path = "../../explain/tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};

use cure::{Cure, CureChange, CureOptions, CurePlan, FileWriter, Machine, ModuleCure, StormCures};
use explain::{ExplainOptions, Storm};
use recording::{Recording, StartCall};
use support::*;

/// A machine where all can be done.
const ABLE: Machine = Machine {
    takes_builtins: |_| true,
    file_writer: |_| FileWriter::You,
    can_mount: || true,
    why_no_image: |_| None,
    why_no_pack: |_| None,
    directories_below: |_, _| 10,
    files_below: |_, _| Some(Vec::new()),
    module_cure: |_| ModuleCure::Index { shell: "bash" },
};

/// The calm file and the image, as they are looked up and opened at a launch.
const LAUNCH: u64 = 7;

fn plan(recording: &Recording, machine: &Machine) -> CurePlan {
    let options = ExplainOptions { model: uncached(), ..ExplainOptions::default() };
    CurePlan::of(recording, &explained(recording), machine, &CureOptions::new(&options))
}

/// The cures of the only storm of a recording.
#[track_caller]
fn cures_of(recording: &Recording, storm: Storm, machine: &Machine) -> StormCures {
    only(&explained(recording), storm);
    plan(recording, machine).of_storm(storm).cloned().unwrap_or_default()
}

#[track_caller]
fn cures(tale: Tale, storm: Storm) -> StormCures {
    cures_of(&tale.told(), storm, &ABLE)
}

fn commands(cures: &StormCures) -> Vec<&str> {
    cures.steps().filter_map(|(_, command)| command).collect()
}

/// What the cure leaves of metadata operations and failed lookups, of how many.
fn counts(cure: &Cure) -> [u64; 4] {
    let (before, after) = (cure.predicted.before, cure.predicted.after);
    [before.metadata_ops, after.metadata_ops, before.enoent, after.enoent]
}

/// What one might do and should not.
fn refused(cures: &StormCures) -> Vec<&str> {
    cures.not_chosen.iter().map(|refused| &*refused.text).collect()
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
    let recording = tale.told();
    let all = cures_of(&recording, Storm::Loader, &ABLE);
    assert!(refused(&all)[0].starts_with("A shorter LD_LIBRARY_PATH"), "{all:#?}");
    // Its directories are searched on the node, one that may be edited aside.
    let [image] = &all.cures[..] else { panic!("{all:#?}") };
    assert_eq!(counts(image)[2..], [240, 0]);
    let refusing = |path: &Path| path.ends_with("z3").then(|| "no".to_owned());
    let machine = Machine { why_no_image: refusing, ..ABLE };
    let all = cures_of(&recording, Storm::Loader, &machine);
    assert!(all.cures[0].text.contains("11 directories of LD_LIBRARY_PATH (not of /z3: no)"));
    assert_eq!(counts(&all.cures[0])[2..], [240, 20]);
    // It takes nothing that the machine does not have.
    assert_eq!(cures_of(&recording, Storm::Loader, &Machine::unknown()).cures, []);
}

/// A program of a store, with so many libraries that are each looked for in two directories before.
fn of_a_store(store: &str, libraries: usize, env: &[(&str, &str)]) -> Tale {
    let program = format!("{store}/hash-app/bin/app");
    let mut tale = Tale::of(&program, &[&program], env);
    for library in numbered("lib", libraries) {
        for directory in ["a", "b"] {
            tale.loading("openat", &format!("{store}/hash-{directory}/lib/{library}.so"), NO);
        }
        tale.loading("openat", &format!("{store}/hash-{library}/lib/{library}.so"), YES);
    }
    tale
}

#[test]
fn a_start_with_many_libraries_of_an_immutable_store_is_put_into_one_file() {
    let packs = |tale: Tale, machine: &Machine| {
        let all = cures_of(&tale.told(), Storm::Loader, machine);
        let is_pack = |cure: &Cure| matches!(cure.change, CureChange::StartFromPack { .. });
        all.cures.into_iter().find(is_pack)
    };
    for store in ["/nix/store", "/home/me/.local/share/nix/root/nix/store", "/gnu/store"] {
        let cure = packs(of_a_store(store, 60, &[]), &ABLE).unwrap();
        let program = format!("{store}/hash-app/bin/app");
        let command = format!(
            "becalm elf pack --immutable {store} {program} -o app.pack && becalm run --pack app.pack \
             -- {program}"
        );
        assert_eq!(cure.command, Some(command));
        // The exec of it is all that is left, and what becalm asks.
        assert_eq!(counts(&cure), [181, 1 + 43, 120, 0]);
        assert!(!cure.is_appliable(), "becalm fix does not do it");
    }
    let refused = Machine { why_no_pack: |_| Some("it is static".into()), ..ABLE };
    let kept = [
        (of_a_store("/opt/spack/store", 60, &[]), ABLE),
        (of_a_store("/nix/store", 40, &[]), ABLE),
        (of_a_store("/nix/store", 60, &[("LD_LIBRARY_PATH", "/x")]), ABLE),
        (of_a_store("/nix/store", 60, &[]), refused),
    ];
    for (tale, machine) in kept {
        assert_eq!(packs(tale, &machine), None);
    }
}

#[test]
fn builtins_are_for_what_bash_certainly_does_itself() {
    let run = |words: &[&str]| {
        let mut tale = Tale::of("/usr/bin/bash", &["bash", "run.sh"], &[]);
        for _ in 0..60 {
            let child = tale.start(Some(0), StartCall::Fork);
            let program = format!("/usr/bin/{}", words[0].rsplit('/').next().unwrap());
            tale.exec(child, &program, &program, words, &[]);
            for library in ["/etc/ld.so.cache", "/lib/libc.so.6"].repeat(10) {
                tale.loading_of(child, library, YES);
            }
            tale.call_of(child, "mkdir", "/home/me/a", NO);
            tale.end(child, 500, 900);
        }
        cures(tale, Storm::Fork)
    };
    assert_eq!(run(&["/usr/bin/mkdir", "-p", "a"]).cures.len(), 1);
    let all = run(&["mkdir", "-p", "a"]);
    assert_eq!(commands(&all), ["becalm run --builtins -- bash run.sh"]);
    assert_eq!(all.cures[0].change, CureChange::RunBuiltins { processes: 60 });
    // Of each the look at the program and its own work are left; `becalm run` makes 120, bash 14 and its exec.
    let [before, after, ..] = counts(&all.cures[0]);
    assert_eq!([before, after], [60 * 22 + 1, 60 * 2 + 120 + 14 + 1]);
    // What hangs on the file, too, is not promised.
    let [by_file] = &run(&["cat", "list"]).cures[..] else { panic!() };
    assert!(by_file.text.contains(" up to 60 "), "{}", by_file.text);
    // Without the script's line nobody knows what tr would read.
    let others: [&[&str]; 5] = [
        &["tr", "a", "b"],
        &["basename", "-z", "a.c"],
        &["touch", "-d", "yesterday", "a"],
        &["ln", "-sf", "a", "b"],
        &["sed", "-i", "s/a/b/", "list"],
    ];
    for words in others {
        let all = run(words);
        let none = (&[][..], vec!["becalm run --builtins"]);
        assert_eq!((&*all.cures, refused(&all)), none, "{words:?}");
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
    let all = cures(tale, Storm::Path);
    assert_eq!((&*all.cures, refused(&all)), (&[][..], vec!["A shorter PATH"]));
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
    assert_eq!(counts(cure), [302, 2, 300, 0]);
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
    // Each file that is opened is looked at once, whether it has changed, and each directory; the program
    // is such a file, too.
    assert_eq!(counts(&all.cures[0]), [901, 301 + 10 + LAUNCH, 300, 0]);
    let unknown = cures_of(&importing("/venv").told(), Storm::Python, &Machine::unknown());
    assert_eq!(unknown.cures, []);
    assert_eq!(unknown.not_chosen[0].why, "/venv: nothing is known of the machine");
}

#[test]
fn of_bytecode_in_an_image_the_source_is_looked_at_and_the_directory_that_it_is_in() {
    let mut tale = Tale::of("/opt/bin/python3.11", &["python3", "run.py"], &[]);
    let packages = "/venv/lib/python3.11/site-packages/p";
    for number in 0..300 {
        let source = format!("{packages}/m{number}.py");
        tale.call("newfstatat", packages, YES);
        tale.call("newfstatat", &source, YES);
        tale.call("openat", &format!("{packages}/__pycache__/m{number}.cpython-311.pyc"), YES);
        // Each is looked at once, however it is come upon.
        tale.call("openat", &source, YES);
    }
    // One without a source is known by its directory.
    tale.call("openat", &format!("{packages}/__pycache__/alone.cpython-311.pyc"), YES);
    let all = cures(tale, Storm::Python);
    assert_eq!(counts(&all.cures[0])[..2], [1202, 1 + 300 + 1 + 10 + LAUNCH]);
}

#[test]
fn a_plan_holds_the_directorys_own_bytes_whatever_they_are() {
    for prefix in ["/a\tb/venv", "/a\nb/venv", r"/a\x09b/venv", "/a'b $(c)/venv"] {
        let plan = plan(&importing(prefix).told(), &ABLE);
        let (directories, taken) = plan.image().unwrap();
        assert_eq!(directories, [PathBuf::from(prefix)]);
        assert_eq!(taken.metadata_ops, 901, "{prefix:?}");
    }
}

/// A Python whose modules lie in directories of PYTHONPATH and in a base prefix.
#[test]
fn all_directories_that_are_searched_are_in_one_image() {
    let named = ["/home/me/deps", "/sw/numpy/lib/python3.11/site-packages"];
    let env = [("PYTHONPATH", &*named.join(":"))];
    let mut tale = Tale::of("/sw/python/bin/python3.11", &["python3", "run.py"], &env);
    let library = "/sw/python/lib/python3.11";
    for number in 0..100 {
        for directory in [named[0], named[1], library] {
            tale.call("newfstatat", directory, YES);
            tale.call("newfstatat", &format!("{directory}/m{number}.so"), NO);
            tale.call("openat", &format!("{directory}/m{number}.py"), YES);
        }
    }
    let recording = tale.told();
    let (directories, taken) = plan(&recording, &ABLE).image().unwrap();
    let expected = [named[0], named[1], "/sw/python"].map(PathBuf::from);
    assert_eq!(directories, expected);
    assert_eq!(taken.metadata_ops, 901);
    // One that may not be in an image is left out, and named: the others are worth one.
    let refusing = |path: &Path| (!path.starts_with("/home")).then(|| "no".to_owned());
    let machine = Machine { why_no_image: refusing, ..ABLE };
    let all = cures_of(&recording, Storm::Python, &machine);
    let CureChange::MountImage { directories } = &all.cures[0].change else { panic!("{all:#?}") };
    assert_eq!(directories.iter().map(|it| it.path()).collect::<Vec<_>>(), [Path::new(named[0])]);
    let says = "the environment (not of /sw/numpy/lib/python3.11/site-packages: no)";
    assert!(all.cures[0].text.contains(says), "{all:#?}");
}

#[test]
fn an_image_of_more_directories_than_the_start_makes_operations_is_no_gain() {
    let machine = Machine { directories_below: |_, most| most, ..ABLE };
    let all = cures_of(&importing("/venv").told(), Storm::Python, &machine);
    assert_eq!(all.cures, []);
    assert!(all.not_chosen[0].why.starts_with("/venv: becalm run looks at each"), "{all:#?}");
}

#[test]
fn what_the_command_writes_to_is_not_in_an_image() {
    let mut tale = importing("/venv");
    tale.call("mkdir", "/venv/lib/python3.11/site-packages/cache", YES);
    let all = cures(tale, Storm::Python);
    assert_eq!(all.cures, []);
    assert!(all.not_chosen[0].why.contains("writes below it"), "{all:#?}");
}

#[test]
fn the_systems_own_python_gets_no_image() {
    let recording = importing("/usr").told();
    assert_eq!(cures_of(&recording, Storm::Python, &ABLE).cures, []);
    assert_eq!(plan(&recording, &ABLE).image(), None);
}

/// `module avail` by this tool.
fn walking(program: &str, argv: &[&str]) -> Tale {
    let mut tale = Tale::of(program, argv, &[("MODULEPATH", "/opt/modules")]);
    for file in numbered("/opt/modules/gcc/", 300) {
        tale.call("newfstatat", &file, YES);
        tale.call("openat", &file, YES);
        tale.call("newfstatat", &file, YES);
    }
    tale
}

#[test]
fn a_modulepath_is_indexed_or_gets_a_cache_by_what_the_machine_has() {
    let avail = ["tclsh", "/usr/lib/modulecmd.tcl", "bash", "avail"];
    let with = |argv: &[&str], module_cure: fn(&Path) -> ModuleCure| {
        let recording = walking("/usr/bin/tclsh8.6", argv).told();
        cures_of(&recording, Storm::Modules, &Machine { module_cure, ..ABLE })
    };
    let look = "becalm modules status /opt/modules";
    let index = "becalm modules calm --apply /opt/modules && eval \"$(becalm modules hook bash)\"";
    assert_eq!(commands(&with(&avail, ABLE.module_cure)), [index, look]);
    let cache = "becalm modules calm --apply /opt/modules";
    assert_eq!(commands(&with(&avail, |_| ModuleCure::Cache)), [cache, look]);
    assert_eq!(commands(&with(&avail, |_| ModuleCure::Unknown)), [look]);
    let load = ["tclsh", "/usr/lib/modulecmd.tcl", "bash", "load", "x"];
    assert_eq!(commands(&with(&load, ABLE.module_cure)), [look], "load is not answered from one");
    let lmod = ["lua", "/opt/lmod/libexec/lmod", "bash", "avail"];
    let all = cures(walking("/usr/bin/lua5.3", &lmod), Storm::Modules);
    assert_eq!((commands(&all), refused(&all)), (vec![], vec!["becalm modules calm"]));
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
    walk.call("getdents64", "/data", YES);
    for number in 0..300 {
        locale.call("openat", &format!("/usr/lib/locale/de_AT.UTF-8/{number}"), NO);
        walk.call("getdents64", &format!("/data/{number}"), YES);
    }
    let all = cures(locale, Storm::Locale);
    assert_eq!((&*all.cures, refused(&all)), (&[][..], vec!["LC_ALL=C"]));
    let all = cures(walk, Storm::Walk);
    assert_eq!((&*all.cures, refused(&all)), (&[][..], vec!["An image of /data"]));
}
