//! `becalm modules explain`: the real command's calls, by what they are for.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::scene::site::{Site, VERSIONS};

/// The calls and the paths of each purpose.
fn purposes(answer: &Value) -> BTreeMap<&str, (u64, u64)> {
    let all = answer["purposes"].as_array().unwrap().iter();
    let number = |sum: &Value, name| sum[name].as_u64().unwrap();
    all.map(|sum| (sum["purpose"].as_str().unwrap(), (number(sum, "calls"), number(sum, "paths"))))
        .collect()
}

#[test]
fn the_calls_of_avail_are_those_that_strace_counts_each_with_what_it_is_for() {
    for version in VERSIONS {
        let site = Site::cookbook(version).of_a_user();
        let (status, answer) = site.answer(&["explain", "avail"]);
        assert_eq!(status, 0, "{version}");
        let told = purposes(&answer);
        let all: u64 = told.values().map(|(calls, _)| calls).sum();
        assert_eq!(answer["calls"], all, "{version}");
        let modulecmd = site.modulecmd.to_str().unwrap();
        let counted = site.calls(&["tclsh", modulecmd, "bash", "avail"]) as u64;
        // becalm counts processes, too, and not what only names a descriptor's mode.
        assert!(all.abs_diff(counted) * 20 < counted, "{version}: {all}, and strace {counted}");
        assert_eq!(told["directories"].1, 32, "{version}: two modulepaths with 15 names: {told:?}");
        assert_eq!(told["rc_files"].1, if version == "5.2" { 30 } else { told["rc_files"].1 });
        assert!(told["cookies"].1 >= 128 && told["cookies"].0 >= 4 * 124, "{version}: {told:?}");
        assert!(told["interpreter"].0 > 50 && told["modules_code"].0 > 50, "{version}: {told:?}");
        assert!(!told.contains_key("siblings"), "{version}: {told:?}");
        assert!(answer["next"].as_str().unwrap().starts_with("becalm modules calm "));
    }
}

#[test]
fn a_load_is_of_one_modulefile_and_its_siblings_and_what_was_asked_for_is_told_apart() {
    for (version, siblings) in [("5.2", 3), ("5.5", 3), ("newest", 0)] {
        let site = Site::cookbook(version).of_a_user();
        let (status, answer) = site.answer(&["explain", "load", "appa/1.0"]);
        assert_eq!(status, 0, "{version}");
        let told = purposes(&answer);
        let paths = |name| told.get(name).map_or(0, |(_, paths)| *paths);
        assert_eq!(paths("modulefiles"), 1, "{version}: {told:?}");
        let read = paths("siblings");
        assert!(read >= siblings && read <= 3, "{version}: {told:?}");
        assert!(!told.contains_key("cookies"), "{version}: {told:?}");
        assert!(answer["next"].as_str().unwrap().starts_with("becalm modules status "));
    }
}

#[test]
fn what_would_write_is_refused_and_writes_nothing() {
    let site = Site::cookbook("5.2").of_a_user();
    for words in [&["save", "mine"][..], &["cachebuild"], &["initadd", "appa"], &["-t"]] {
        let ran = site.becalm(&[&["modules", "explain", "--"], words].concat());
        assert_eq!(ran.code(), 2, "{words:?}: {}", ran.err());
        assert_eq!(ran.err().lines().count(), 1, "{words:?}: {}", ran.err());
    }
    assert!(!Path::new(&site.scene.at("home/.module")).exists());
}

#[test]
fn what_fails_says_so_and_a_fifo_is_not_waited_for() {
    let mut site = Site::empty("5.2");
    site.module("m/gcc/13");
    let ran = site.becalm(&["modules", "explain", "load", "nosuch"]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(
        ran.out().contains("! ERROR: Unable to locate a modulefile for 'nosuch'"),
        "{}",
        ran.out()
    );
    // What a modulefile's name and a user's files are made of breaks nothing.
    fs::write(site.scene.at("m/gcc/14 'x' [exec false]"), "#%Module\n").unwrap();
    assert_eq!(site.answer(&["explain", "avail"]).0, 0);
    let fifo = site.scene.at("m/gcc/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let ran = site.becalm(&["modules", "explain", "avail"]);
    assert_eq!(ran.code(), 1);
    assert_eq!(
        ran.err(),
        format!("becalm: {fifo} is a FIFO or a device: Modules would wait for it for ever\n")
    );
}

#[test]
fn what_is_loaded_is_known_when_it_is_unloaded() {
    let mut site = Site::empty("newest").of_a_user();
    site.module("m/gcc/12");
    site.module("m/gcc/13");
    let becalm = site.scene.at("becalm");
    let line = format!(
        "eval \"$(tclsh \"$MODULES_CMD\" bash load gcc/12)\"; {becalm} modules explain --json unload gcc/12"
    );
    let ran = testkit::run(&mut site.command(&["bash", "-c", &line]));
    let answer = testkit::answer::parse(ran.out());
    assert_eq!(purposes(&answer)["modulefiles"].1, 1, "{answer}");
}
