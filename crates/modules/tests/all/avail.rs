//! Native `avail` beside the real command: the same bytes, or none.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::bench::Bench;
use crate::support::{Scene, sites};
use modules::avail::Unable;

/// The tree of Modules' cookbook.
fn cookbook(state: &str, directory: &Path) -> Vec<PathBuf> {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules/make");
    let output = Command::new(make).arg(state).arg(directory).output().unwrap();
    assert!(output.status.success());
    let paths = String::from_utf8(output.stdout).unwrap();
    std::env::split_paths(paths.trim_end()).collect()
}

/// Ways of asking.
const FORMS: [&[&str]; 17] = [
    &["avail"],
    &["avail", "-t"],
    &["avail", "-l"],
    &["avail", "-j"],
    &["avail", "-a"],
    &["avail", "-d"],
    &["avail", "-L"],
    &["avail", "-t", "-d"],
    &["avail", "--width=40"],
    &["avail", "--width=1"],
    &["avail", "-w", "333"],
    &["avail", "--color=always"],
    &["avail", "--color=always", "-t"],
    &["avail", "--color=always", "-l"],
    &["avail", "-a", "-t"],
    &["avail", "-C", "b"],
    &["avail", "-S", "lib"],
];

#[test]
fn the_cookbook_s_tree_is_shown_as_modules_shows_it() {
    for state in ["plain", "rc"] {
        let scene = Scene::new();
        let roots = cookbook(state, scene.path());
        for site in sites() {
            let bench = Bench::new(&site, &roots);
            for form in FORMS {
                bench.assert_same(form);
            }
            for pattern in [
                "liba",
                "lib",
                "liba/",
                "liba/1",
                "lib*",
                "*a",
                "*/1.0",
                "nosuch",
                "LIBA",
                "l?ba",
                "lib*/3",
                "libb/sym",
                "appb/default",
                "appb/latest",
                "libb/3.0",
                "appb/2",
                "b",
                "*b*/",
            ] {
                bench.assert_same(&["avail", pattern]);
                bench.assert_same(&["avail", "-t", "-d", pattern]);
                bench.assert_same(&["avail", "-t", "-L", pattern]);
                bench.assert_same(&["avail", "-C", pattern, "--color=always"]);
            }
            bench.assert_same(&["avail", "liba", "appa"]);
            bench.assert_same(&["avail", "-j", "liba", "appa"]);
            bench.assert_same(&["avail", "--color=always", "-t", "lib", "liba"]);
        }
    }
}

#[test]
fn a_tree_that_changed_is_left_to_modules() {
    let scene = Scene::new();
    let roots = cookbook("plain", scene.path());
    let site = &sites()[0];
    let bench = Bench::new(site, &roots);
    bench.assert_same(&["avail"]);
    scene.module("applications/appa/9.0");
    assert!(matches!(bench.native(&["avail"]), Err(Unable::Stale(_))));
    let bench = Bench::new(site, &roots);
    bench.assert_same(&["avail", "-t", "appa"]);
    fs::write(roots[0].join("liba/.modulerc"), "#%Module\nmodule-version liba/1.0 sym\n").unwrap();
    assert!(matches!(bench.native(&["avail"]), Err(Unable::Stale(_))));
}

#[test]
fn an_index_that_others_may_write_is_not_taken() {
    let scene = Scene::new();
    let roots = cookbook("plain", scene.path());
    let bench = Bench::new(&sites()[0], &roots);
    for entry in fs::read_dir(bench.directory.path()).unwrap() {
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o666)).unwrap();
    }
    assert!(matches!(bench.native(&["avail"]), Err(Unable::Index(_))));
}
