//! `becalm elf bind --watch`: what is installed is bound once nothing is written any more.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::bound::{Site, changed, start};
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Live, run};

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

/// The next answer of `--json`.
#[track_caller]
fn binding(watching: &mut Live) -> Value {
    let lines = std::iter::from_fn(|| Some(watching.line()).filter(|line| line != "}"));
    let said = lines.collect::<String>() + "}";
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Waits for the binding of a program. On a busy machine compilers are quiet in between: what they have made until
/// then is bound before.
#[track_caller]
fn wait_for_binding_of(watching: &mut Live, program: &str) {
    while !changed(&binding(watching)).contains(&program) {}
}

#[test]
fn each_installation_is_bound_once_it_is_over_also_in_directories_that_are_new() {
    let site = Site::new();
    let mut watching = watch(&site, &["--json"]);
    assert!(changed(&binding(&mut watching)).is_empty());
    let app = site.store(20, &[]);
    wait_for_binding_of(&mut watching, &app);
    assert_eq!(start(&app, &[]).in_vain(), 0);
    let x = site.part("a/new/prefix", "x", &[]);
    let other = site.ask("a/new/prefix", &[&site.rpath(&["n", "a/new/prefix/lib"]), &x]);
    wait_for_binding_of(&mut watching, &other);
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

/// What has a new file's name is not what is still written to: all that comes would be lost.
#[test]
fn what_is_open_for_writing_is_bound_once_it_is_closed_and_loses_nothing() {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let app = site.ask("app", &[&site.rpath(&["n", "m", "x/lib"]), &x]);
    let whole = fs::read(&app).unwrap();
    fs::remove_file(&app).unwrap();
    let mut watching = watch(&site, &["--json"]);
    assert!(changed(&binding(&mut watching)).is_empty());
    let mut copying = File::create(&app).unwrap();
    copying.write_all(&whole).unwrap();
    copying.set_permissions(Permissions::from_mode(0o755)).unwrap();
    assert!(!watching.says_anything_within(Duration::from_secs(4)), "it is not over");
    copying.write_all(b"what follows").unwrap();
    drop(copying);
    wait_for_binding_of(&mut watching, &app);
    assert_eq!(start(&app, &["x"]).in_vain(), 0);
    assert!(fs::read(&app).unwrap().ends_with(b"what follows"));
}

/// What may not be read is not watched, until it may.
#[test]
fn what_is_installed_in_a_directory_that_was_closed_at_first_is_bound_each_time() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let becalm = scene.at("becalm");
    let site = Site::of(scene);
    let x = site.part("x", "x", &[]);
    let app = site.ask("shut", &[&site.rpath(&["n", "m", "x/lib"]), &x]);
    let (shut, state) = (site.at("shut"), site.scene.subdirectory("state"));
    run(Command::new("chown").args(["-R", "65534:65534", &site.tree(), &state]));
    let unbound = site.scene.at("unbound");
    run(Command::new("cp").args(["--preserve", &app, &unbound]));
    fs::set_permissions(&shut, Permissions::from_mode(0o000)).unwrap();
    let words = [&*becalm, "elf", "bind", "--watch", "--quiet=1", "--json", &site.tree()];
    let mut watching = Live::start(as_a_user(&words).env("XDG_STATE_HOME", &state));
    assert!(changed(&binding(&mut watching)).is_empty());
    fs::set_permissions(&shut, Permissions::from_mode(0o755)).unwrap();
    wait_for_binding_of(&mut watching, &app);
    let again = format!("{app}.new");
    run(Command::new("cp").args(["--preserve", &unbound, &again]));
    fs::rename(&again, &app).unwrap();
    wait_for_binding_of(&mut watching, &app);
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
