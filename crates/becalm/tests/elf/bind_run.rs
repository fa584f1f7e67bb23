//! `becalm elf bind --run`: what running programs open is found without a search, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::bound::{Site, changed, reason, says, start};
use testkit::run;

/// Directories that have nothing.
const NONE: [&str; 6] = ["n", "m", "o", "p", "q", "r"];

/// A list of directories that have nothing, then of these.
fn behind<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&NONE[..], more].concat()
}

/// A program in `prefix` that opens `libplug.so.1` by name, which needs `libbase.so.1` and has no list:
/// the program's DT_RPATH leads to both.
fn program(site: &Site, prefix: &str, base: &str) -> String {
    let list = site.rpath(&behind(&[&format!("{prefix}/lib"), "plugins/lib", base]));
    let host = site.host(prefix, "host", "plug", &[]);
    site.ask(prefix, &[&list, &host])
}

fn plug(site: &Site, base: &str) -> String {
    site.part("plugins", "plug", &[base])
}

/// What `becalm elf bind --json --run` answers.
fn bind_run(site: &Site, options: &[&str], command: &[&str]) -> Value {
    let words = [&["elf", "bind", "--json", "--run"], options, &["--"], command].concat();
    let ran = run(&mut site.becalm(&words));
    assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
    serde_json::from_str(&ran.out()).unwrap()
}

pub fn readelf(what: &str, file: &str) -> String {
    run(Command::new("readelf").args([what, file])).out()
}

fn names(file: &str) -> String {
    readelf("-dW", file)
}

#[test]
fn a_plugin_that_inherits_its_list_is_bound_to_what_the_program_finds_and_undone() {
    let site = Site::new();
    let base = site.part("deep", "base", &[]);
    let plug = plug(&site, &base);
    let app = program(&site, "app", "deep/lib");
    let before = (says(&app, &["host"]), start(&app, &["host"]), site.snapshot());
    assert!(before.0.contains("plug of plugins"), "{}", before.0);

    let alone = site.bind_at(&plug, &["--dry-run"]);
    assert_eq!(changed(&alone), [""; 0], "nothing is known of it alone");

    let bound = bind_run(&site, &[&plug], &[&app, "host"]);
    assert_eq!(changed(&bound), [&plug]);
    assert!(names(&plug).contains(&format!("[{base}]")), "{}", names(&plug));
    let told = &bound["programs"][0];
    let counted = |when: &str| {
        let count = |what: &str| told[when][what].as_u64().unwrap();
        count("failed_opens") + count("failed_stats")
    };
    assert_eq!(counted("before"), before.1.in_vain());
    let after = start(&app, &["host"]);
    assert_eq!(counted("after"), after.in_vain());
    assert!(after.in_vain() < before.1.in_vain());
    assert_eq!(says(&app, &["host"]), before.0);

    // All that was loaded, where no path is named.
    let all = bind_run(&site, &[], &[&app, "host"]);
    assert!(changed(&all).contains(&&*app), "{all}");
    assert_eq!(says(&app, &["host"]), before.0);
    assert_eq!(changed(&bind_run(&site, &[], &[&app, "host"])), [""; 0], "a second run");
    site.undo();
    site.undo();
    site.snapshot().assert_is(&before.2);
}

#[test]
fn a_name_that_two_programs_find_in_two_places_stays_a_name() {
    let site = Site::new();
    let base = site.part("deep", "base", &[]);
    site.part("other", "base", &[]);
    let plug = plug(&site, &base);
    let (one, two) = (program(&site, "one", "deep/lib"), program(&site, "two", "other/lib"));
    let both = format!("{one} host && {two} host");
    let bound = bind_run(&site, &[&plug], &["sh", "-c", &both]);
    assert_eq!(changed(&bound), [""; 0]);
    assert_eq!(bound["conflicts"][0]["name"], "libbase.so.1", "{bound}");
}

#[test]
fn a_recording_that_files_no_longer_agree_with_binds_nothing_that_was_opened_and_says_why() {
    let site = Site::new();
    let base = site.part("deep", "base", &[]);
    let plug = plug(&site, &base);
    let app = program(&site, "app", "deep/lib");
    let recording = site.scene.at("run.becalm");
    assert_eq!(run(&mut site.becalm(&["record", "-o", &recording, "--", &app, "host"])).code(), 0);
    let bind = || site.bind_at(&plug, &["--dry-run", "--recording", &recording]);
    assert_eq!(changed(&bind()), [&plug]);
    fs::create_dir_all(site.at("n")).unwrap();
    fs::copy(&base, site.at("n/libbase.so.1")).unwrap();
    let bound = bind();
    assert_eq!(changed(&bound), [""; 0]);
    assert!(
        reason(&bound, &app).starts_with("what it opened while it ran is not bound"),
        "{bound}"
    );
}

#[test]
fn a_tree_that_finds_itself_stays_movable_though_versions_are_asked_of_what_it_names() {
    let site = Site::new();
    let versions = site.at("versions");
    fs::write(&versions, "V1 { global: *; };").unwrap();
    let versions = format!("-Wl,--version-script={versions}");
    let base = site.part("tree/deep", "base", &[&versions]);
    let list = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../../none:$ORIGIN/../../deep/lib";
    let source = site.scene.at("plug.c");
    fs::write(&source, "char *base(void);\nchar *plug(void) { return base(); }\n").unwrap();
    let usual = ["-shared", "-fPIC", "-Wl,-soname,libplug.so.1"];
    let words = [&[&*source, list, &base], &usual[..]].concat();
    let plug = site.build("tree/plugins/lib/libplug.so.1", &words);
    assert!(readelf("-VW", &plug).contains("File: libbase.so.1"));
    let host = site.host("app", "host", "plug", &[]);
    let app = site.ask("app", &[&site.rpath(&["app/lib", "tree/plugins/lib"]), &host]);
    let before = (says(&app, &["host"]), start(&app, &["host"]), site.snapshot());

    let bound = bind_run(&site, &[&site.at("tree")], &[&app, "host"]);
    assert_eq!(changed(&bound), [&plug]);
    let named = names(&plug);
    assert!(named.contains("[$ORIGIN/../../deep/lib/libbase.so.1]"), "{named}");
    // libc.so.6 stays a name, which is not to be looked for where the program's DT_RPATH leads.
    assert!(named.contains("Library runpath: []"), "{named}");
    assert_eq!(says(&app, &["host"]), before.0);
    assert!(start(&app, &["host"]).in_vain() < before.1.in_vain());
    assert_eq!(changed(&bind_run(&site, &[&site.at("tree")], &[&app, "host"])), [""; 0]);

    site.undo();
    site.snapshot().assert_is(&before.2);
}

#[test]
fn fix_binds_what_the_command_opens_and_the_tree_stays_movable() {
    let site = Site::new();
    let base = site.part("tree/deep", "base", &[]);
    let none = NONE.map(|name| format!("$ORIGIN/../../{name}")).join(":");
    let list = format!("-Wl,--enable-new-dtags,-rpath,{none}:$ORIGIN/../../deep/lib");
    let plug = site.part("tree/plugins", "plug", &[&list, &base]);
    let host = site.host("app", "host", "plug", &[]);
    let app = site.ask("app", &[&site.rpath(&["app/lib", "tree/plugins/lib"]), &host]);
    let before = (says(&app, &["host"]), start(&app, &["host"]), site.snapshot());

    let ran = run(&mut site.becalm(&["fix", "--apply", "--runs", "2", "--", &app, "host"]));
    assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
    assert!(names(&plug).contains("[$ORIGIN/../../deep/lib/libbase.so.1]"), "{}", ran.err());
    assert_eq!(says(&app, &["host"]), before.0);
    assert!(start(&app, &["host"]).in_vain() * 4 < before.1.in_vain(), "{}", ran.err());
    site.undo();
    site.snapshot().assert_is(&before.2);
}

/// Failed lookups of libraries by a python that imports numpy from there, by strace.
fn numpy_in_vain(packages: &Path) -> Vec<String> {
    let code = "import numpy; assert numpy.linalg.inv(numpy.eye(2))[0, 0] == 1";
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=openat", "-o", "/dev/stdout", "/usr/bin/python3", "-c", code]);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("PYTHONPATH", packages);
    let ran = run(command.env("PYTHONDONTWRITEBYTECODE", "1"));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let out = ran.out();
    let is_in_vain = |line: &&str| line.contains(".so") && line.contains("ENOENT");
    out.lines().filter(is_in_vain).map(str::to_owned).collect()
}

#[test]
fn numpy_is_imported_without_a_search_in_a_wheel_that_can_still_be_moved() {
    let site = Site::new();
    let packages = Path::new(&site.tree()).to_owned();
    let venv = testkit::installed::venv().join("lib/python3.11/site-packages");
    for part in ["numpy", "numpy.libs"] {
        let copied = Command::new("cp").arg("-a").arg(venv.join(part)).arg(&packages).status();
        assert!(copied.unwrap().success());
    }
    let before = (numpy_in_vain(&packages), site.snapshot());
    // How many there are the processor decides: on Intel's the loader tries more sub-directories.
    // And libquadmath, the third library of the wheel's own, is x86's alone.
    let (in_vain, own) = if cfg!(target_arch = "x86_64") { (8, 3) } else { (7, 2) };
    assert!(before.0.len() >= in_vain, "{:?}", before.0);
    let mut bind = site.becalm(&["elf", "bind", "--json", "--run"]);
    bind.args([&*site.tree(), "--", "/usr/bin/python3", "-B", "-c", "import numpy"]);
    let ran = run(bind.env("PYTHONPATH", &packages));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let bound: Value = serde_json::from_str(&ran.out()).unwrap();
    let named = bound["changes"].as_array().unwrap().iter();
    let named = named.flat_map(|change| change["needed"].as_array().unwrap());
    assert!(named.clone().count() >= own, "{bound}");
    assert!(named.clone().all(|name| name["new"].as_str().unwrap().starts_with("$ORIGIN/")));

    let moved = PathBuf::from(site.scene.at("moved"));
    fs::rename(&packages, &moved).unwrap();
    assert_eq!(numpy_in_vain(&moved), [""; 0]);
    fs::rename(&moved, &packages).unwrap();
    assert_eq!(numpy_in_vain(&packages), [""; 0]);
    site.undo();
    site.snapshot().assert_is(&before.1);
}

#[test]
fn of_two_copies_of_a_library_another_order_loads_the_other_so_its_name_stays() {
    let site = Site::new();
    let base = site.part("tree/deep", "base", &[]);
    let list = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../../none:$ORIGIN/../../deep/lib";
    let source = site.scene.at("plug.c");
    fs::write(&source, "char *base(void);\nchar *plug(void) { return base(); }\n").unwrap();
    let words = [&source, list, &base, "-shared", "-fPIC", "-Wl,-soname,libplug.so.1"];
    let plug = site.build("tree/plugins/lib/libplug.so.1", &words);
    let host = site.host("app", "host", "plug", &[]);
    let app = site.ask("app", &[&site.rpath(&["app/lib", "tree/plugins/lib"]), &host]);
    let dry = ["--dry-run", &*plug];
    assert_eq!(changed(&bind_run(&site, &dry, &[&app, "host"])), [&plug]);
    // As the directory that another wheel brings lies beside.
    fs::create_dir(site.at("tree/deep/other.libs")).unwrap();
    fs::copy(&base, site.at("tree/deep/other.libs/libbase.so.1")).unwrap();
    assert_eq!(changed(&bind_run(&site, &dry, &[&app, "host"])), [""; 0]);
    let named = ["--dry-run", "--name-copies", &*plug];
    assert_eq!(changed(&bind_run(&site, &named, &[&app, "host"])), [&plug]);
    fs::remove_dir_all(site.at("tree/deep/other.libs")).unwrap();
    site.part("tree/elsewhere/far", "base", &[]);
    let tree = site.at("tree");
    assert_eq!(changed(&bind_run(&site, &["--dry-run", &tree], &[&app, "host"])), [""; 0]);
}

#[test]
fn a_command_that_is_stopped_has_nothing_bound_and_one_that_fails_is_told() {
    let site = Site::new();
    let base = site.part("deep", "base", &[]);
    plug(&site, &base);
    let app = program(&site, "app", "deep/lib");
    let before = site.snapshot();
    for (how, status) in [("kill -INT $$", 130), ("kill -SEGV $$", 139), ("exit 143", 143)] {
        let command = format!("{app} host; {how}");
        let ran = run(&mut site.becalm(&["elf", "bind", "--run", "--", "sh", "-c", &command]));
        assert_eq!(ran.code(), status, "{}", ran.err());
        assert!(ran.err().contains("nothing is bound"), "{}", ran.err());
        site.snapshot().assert_is(&before);
    }
    let command = format!("{app} host; exit 3");
    let words = ["elf", "bind", "--dry-run", "--run", "--", "sh", "-c", &command];
    let ran = run(&mut site.becalm(&words));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.err().contains("ended with status 3"), "{}", ran.err());
    assert!(ran.err().contains("to be bound"), "where: {}", ran.err());
}

#[test]
fn a_path_that_is_not_there_is_told_before_the_command_runs() {
    let site = Site::new();
    let made = site.scene.at("made");
    let (status, line) =
        site.fails(&["elf", "bind", "--run", "/no/such/tree", "--", "touch", &made]);
    assert_eq!(status, 1, "{line}");
    assert!(line.contains("/no/such/tree"), "{line}");
    assert!(!Path::new(&made).exists());
}

#[test]
fn without_a_run_what_comes_behind_two_dashes_is_a_path() {
    let site = Site::new();
    let app = site.store(3, &[]);
    let words = ["elf", "bind", "--json", "--dry-run", "--", &site.tree()];
    let ran = run(&mut site.becalm(&words));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let answer: Value = serde_json::from_str(&ran.out()).unwrap();
    assert!(changed(&answer).contains(&&*app), "{answer}");
}
