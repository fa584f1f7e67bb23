//! What two runs of `becalm elf bind` share: to undo the first may take away what the second holds by.

use std::fs;
use std::process::Command;

use testkit::bound::{Site, shown};
use testkit::live::wait_until;
use testkit::run;

const MODES: [&str; 3] = ["needed", "closure", "farm"];

/// Two programs with the same list, which open a library by name, each bound by itself: the links, or the closure's
/// library, are there already when the second is.
#[test]
fn what_another_bound_program_uses_is_not_undone_before_that_one() {
    for mode in MODES {
        let site = Site::new();
        let part = site.part("a", "part", &[]);
        site.part("b", "plug", &[]);
        let host = site.host("h", "host", "plug", &[]);
        let list = site.rpath(&["n", "m", "h/lib", "b/lib", "a/lib"]);
        let ask =
            |name: &str| site.build(name, &["ask.c", "-ldl", "-rdynamic", &list, &host, &part]);
        let programs = [ask("bin/one"), ask("bin/two")];
        let before = site.snapshot();
        let seen = || programs.each_ref().map(|program| shown(program, &["host", "part"]));
        let said = seen();
        assert!(said[0].says.contains("plug of b"), "{}", said[0].says);
        let mode = format!("--mode={mode}");
        let ids = programs.each_ref().map(|program| {
            let bound = site.bind_at(program, &["--absolute", &mode]);
            bound["applied"].as_str().unwrap_or_else(|| panic!("{bound:#}")).to_owned()
        });
        assert_eq!(seen(), said, "{mode}");
        let (status, why) = site.fails(&["undo", &ids[0]]);
        assert_eq!(status, 1);
        let used =
            format!(" used by what {} has changed; undo that first; nothing was undone", ids[1]);
        assert!(why.contains(&used), "{mode}: {why}");
        assert_eq!(seen(), said, "{mode}, not undone");
        site.says(&["undo", &ids[1]]);
        assert_eq!(seen(), said, "{mode}, the second");
        site.says(&["undo", &ids[0]]);
        site.snapshot().assert_is(&before);
    }
}

/// A library is bound with the first program, and so the second one's list, by which it would find what it needs,
/// goes.
#[test]
fn a_library_stays_bound_for_the_program_whose_list_is_gone_because_it_is() {
    let site = Site::new();
    let deep = site.part("a", "deep", &[]);
    let part = site.part("b", "part", &[&deep]);
    let list = site.rpath(&["n", "m", "b/lib", "a/lib"]);
    let programs = ["one", "two"].map(|name| site.build(name, &["ask.c", &list, &part]));
    let before = site.snapshot();
    let two = || shown(&programs[1], &["part", "deep"]);
    let said = two();
    let first = site.says(&["elf", "bind", "--json", "--absolute", &programs[0], &part]);
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    let second = site.bind_at(&programs[1], &["--absolute"]);
    assert_eq!(two(), said, "{first:#} {second:#}");
    let id = |bound: &serde_json::Value| bound["applied"].as_str().unwrap().to_owned();
    assert_eq!(site.fails(&["undo", &id(&first)]).0, 1);
    site.says(&["undo", "--skip-changed", &id(&first)]);
    assert_eq!(two(), said, "in part");
    site.says(&["undo", &id(&second)]);
    site.says(&["undo", &id(&first)]);
    site.snapshot().assert_is(&before);
}

/// A process keeps what it has loaded; what it opens by name later, it looks for then.
#[test]
fn who_runs_what_is_bound_or_undone_is_named() {
    let site = Site::new();
    let part = site.part(
        "a",
        "part",
        &[&site.runpath(&["n", "m", "b/lib"]), &site.part("b", "deep", &[])],
    );
    let host = site.host("h", "host", "plug", &[]);
    site.part("p", "plug", &[]);
    let list = site.rpath(&["n", "m", "h/lib", "p/lib", "a/lib"]);
    site.ask("app", &["-ldl", "-rdynamic", &list, &host, &part]);
    let mut runs = Command::new("sleep").arg("600").env("LD_PRELOAD", &part).spawn().unwrap();
    let pid = runs.id();
    let has_loaded =
        || fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().contains("libpart");
    wait_until("it has loaded the library", has_loaded);
    let said = |words: &[&str]| {
        let ran = run(&mut site.becalm(words));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        ran.err()
    };
    let line = format!("PID {pid} has loaded what changes: ");
    let tree = site.tree();
    assert!(said(&["elf", "bind", "--dry-run", &tree]).contains(&line));
    assert!(said(&["elf", "bind", &tree]).contains(&line));
    // It runs the file of before: what is undone is another.
    let undone = said(&["undo", "--dry-run"]);
    runs.kill().unwrap();
    runs.wait().unwrap();
    assert!(undone.is_empty(), "{undone}");
    let mut runs = Command::new("sleep").arg("600").env("LD_PRELOAD", &part).spawn().unwrap();
    let line = format!("PID {} has loaded what changes: ", runs.id());
    wait_until("it is named", || said(&["undo", "--dry-run"]).contains(&line));
    assert!(said(&["undo"]).contains(&line));
    runs.kill().unwrap();
    runs.wait().unwrap();
    assert_eq!(said(&["elf", "bind", &tree]), "");
}
