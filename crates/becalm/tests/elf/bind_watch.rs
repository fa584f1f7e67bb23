//! `becalm elf bind --watch`: what is installed is bound once nothing is written any more.

use std::fs;

use testkit::Live;
use testkit::bound::{Site, start};

/// Watches the tree, in which a second without a change is the end of an installation.
fn watch(site: &Site, options: &[&str]) -> Live {
    let words = ["elf", "bind", "--watch", "--quiet=1"];
    Live::start(&mut site.becalm(&[&words[..], options, &[&site.tree()]].concat()))
}

/// Waits for a line that begins so.
#[track_caller]
fn wait_for(watching: &mut Live, beginning: &str) {
    while !watching.line().starts_with(beginning) {}
}

#[test]
fn each_installation_is_bound_once_it_is_over_also_in_directories_that_are_new() {
    let site = Site::new();
    let mut watching = watch(&site, &[]);
    wait_for(&mut watching, "Nothing to bind");
    let app = site.store(20, &[]);
    wait_for(&mut watching, "Bound ");
    while start(&app, &[]).in_vain() > 0 {
        // The machine was so busy that the compilers were quiet in between.
        wait_for(&mut watching, "Bound ");
    }
    let x = site.part("a/new/prefix", "x", &[]);
    let other = site.ask("a/new/prefix", &[&site.rpath(&["n", "a/new/prefix/lib"]), &x]);
    wait_for(&mut watching, "Bound ");
    assert_eq!(start(&other, &["x"]).in_vain(), 0);
    drop(watching);
    site.undo();
    assert!(start(&other, &["x"]).in_vain() > 0);
    assert_eq!(start(&app, &[]).in_vain(), 0, "each binding is a change of its own");
}

#[test]
fn a_program_that_was_built_anew_is_bound_anew() {
    let site = Site::new();
    let words = [site.rpath(&["n", "m", "x/lib"]), site.part("x", "x", &[])];
    let words = [&*words[0], &*words[1]];
    let app = site.ask("app", &words);
    let mut watching = watch(&site, &["--json"]);
    wait_for(&mut watching, "}");
    assert_eq!(start(&app, &["x"]).in_vain(), 0);
    site.ask("app", &words);
    assert!(start(&app, &["x"]).in_vain() > 0);
    wait_for(&mut watching, "}");
    assert_eq!(start(&app, &["x"]).in_vain(), 0);
}

#[test]
fn it_ends_with_one_line_where_the_tree_is_gone_or_none() {
    let site = Site::new();
    let mut watching = watch(&site, &[]);
    wait_for(&mut watching, "Nothing to bind");
    fs::rename(site.tree(), site.scene.at("moved")).unwrap();
    let ended = watching.end();
    assert_ne!(ended.code(), 0);
    assert!(
        ended.err().ends_with("tree: moved or removed, and no longer watched\n"),
        "{}",
        ended.err()
    );
    let (_, said) = site.fails(&["elf", "bind", "--watch", "/nowhere"]);
    assert!(said.contains("/nowhere"), "{said}");
}
