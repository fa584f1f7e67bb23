//! Storms of what programs do with files by themselves (imports, modules, locales, walks, repeats, many
//! files), on a recording that is told call by call.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod support;

use explain::{Findings, Storm};
use recording::{Outcome, StartCall};
use support::*;

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

/// A Java that opens so many jars of its class path.
fn opens_jars(jars: usize, argv: &[&str], env: &[(&str, &str)]) -> Findings {
    let mut tale = Tale::of("/usr/bin/java", argv, env);
    for jar in numbered("/w/lib/j", jars) {
        tale.call("stat", &format!("{jar}.jar"), YES);
        tale.call("openat", &format!("{jar}.jar"), YES);
    }
    tale.explained()
}

#[test]
fn the_jars_of_a_class_path_are_many_files_and_what_names_them_is_told() {
    let list: Vec<_> = numbered("/w/lib/j", 200).iter().map(|jar| format!("{jar}.jar")).collect();
    let list = list.join(":");
    let told = |argv: &[&str], env: &[(&str, &str)]| {
        let findings = opens_jars(200, argv, env);
        let storm = only(&findings, Storm::Files);
        assert_eq!(storm.metadata_ops, 400);
        let list = source(storm, "files_list");
        assert_eq!(list["files"], 200);
        (storm.title.clone(), list["list"].clone())
    };
    let (title, list_of) = told(&["java", "-cp", &list, "Main"], &[]);
    assert_eq!(title, "java opened 200 files of -cp, one by one");
    assert_eq!(list_of["option"], "-cp");
    let (_, list_of) = told(&["java", "Main"], &[("CLASSPATH", &list)]);
    assert_eq!(list_of["variable"], "CLASSPATH");
    let (title, _) = told(&["java", "-cp", "/w/lib/*", "Main"], &[]);
    assert_eq!(title, "java opened 200 files of -cp, one by one");
    assert_eq!(opens_jars(200, &["java", "Main"], &[]).storms, [], "no list, and few files");
    assert_eq!(opens_jars(20, &["java", "-cp", &list, "Main"], &[]).storms, [], "few of it");
}
