//! `becalm modules cache` from the command line, with the real Modules.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn modulecmd() -> PathBuf {
    let command = testkit::installed::modern_modules().join("newest/modulecmd.tcl");
    assert!(command.exists(), "run setup/modern-modules");
    command
}

fn cache(verb: &str, tree: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_becalm"))
        .args(["modules", "cache", verb, "--modulecmd"])
        .arg(modulecmd())
        .env("BECALM_MODULES_INDEX", index(tree))
        .env("XDG_STATE_HOME", state(tree))
        .args(options)
        .arg(tree)
        .output()
        .unwrap()
}

/// Where the indexes of a tree are.
fn index(tree: &Path) -> PathBuf {
    tree.with_extension("index")
}

/// Where what was replaced is kept.
fn state(tree: &Path) -> PathBuf {
    tree.with_extension("state")
}

fn undo(tree: &Path, options: &[&str]) -> Output {
    let mut becalm = Command::new(env!("CARGO_BIN_EXE_becalm"));
    becalm.arg("undo").args(options).env("XDG_STATE_HOME", state(tree)).output().unwrap()
}

/// How often something was replaced so that it can be undone.
fn journals(tree: &Path) -> usize {
    json(&undo(tree, &["--list", "--json"]))["applied"].as_array().unwrap().len()
}

/// What `becalm modules avail -t` answers from the index; none if it has to ask Modules.
fn native_avail(tree: &Path) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_becalm"))
        .args(["modules", "avail", "-t"])
        .env_clear()
        .env("HOME", "/")
        .env("MODULES_CMD", modulecmd())
        .env("MODULEPATH", tree)
        .env("BECALM_MODULES_INDEX", index(tree))
        .output()
        .unwrap();
    match output.status.code() {
        Some(0) => Some(String::from_utf8(output.stderr).unwrap()),
        Some(75) => None,
        _ => panic!("{output:?}"),
    }
}

fn json(output: &Output) -> serde_json::Value {
    testkit::answer::parse(&output.stdout)
}

fn tree() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("gcc")).unwrap();
    fs::write(tree.join("gcc/13"), "#%Module\n").unwrap();
    (directory, tree)
}

#[test]
fn a_cache_is_built_checked_and_found_stale() {
    let (_directory, tree) = tree();
    let absent = cache("check", &tree, &["--json"]);
    assert_eq!(absent.status.code(), Some(1));
    assert_eq!(json(&absent)["caches"][0]["checked"]["faults"][0]["kind"], "absent");

    let built = cache("build", &tree, &["--json"]);
    assert_eq!(built.status.code(), Some(0), "{built:?}");
    json(&built);

    let good = cache("check", &tree, &[]);
    assert_eq!(good.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&good.stdout).contains("is good: 1 modulefile"), "{good:?}");

    fs::write(tree.join("gcc/14"), "#%Module\n").unwrap();
    assert_eq!(cache("check", &tree, &[]).status.code(), Some(1));
    assert_eq!(cache("refresh", &tree, &[]).status.code(), Some(0));
    assert_eq!(cache("check", &tree, &[]).status.code(), Some(0));
}

/// Content, permissions, time of change, and what a link says.
type AsItIs = (Vec<u8>, u32, [i64; 2], Option<PathBuf>);

/// All that a file has which a user would miss.
fn as_it_is(path: &Path) -> Option<AsItIs> {
    let there = path.symlink_metadata().ok()?;
    let content = fs::read(path).unwrap_or_default();
    let target = fs::read_link(path).ok();
    Some((content, there.mode(), [there.mtime(), there.mtime_nsec()], target))
}

#[test]
fn undo_brings_back_what_a_new_cache_replaced() {
    type Before = (&'static str, fn(&Path));
    let before: [Before; 3] = [
        ("nothing", |_| {}),
        ("somebody's file", |path| {
            fs::write(path, "#%Module5.3\n# somebody's own\n").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
            let then = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(1_700_000_000_123);
            fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
        }),
        ("a link", |path| std::os::unix::fs::symlink("../elsewhere", path).unwrap()),
    ];
    for (what, make) in before {
        let (_directory, tree) = tree();
        let path = tree.join(".modulecache");
        make(&path);
        let there = as_it_is(&path);
        let built = json(&cache("build", &tree, &["--json"]));
        let id = built["caches"][0]["built"]["journal"].as_str().unwrap_or_default().to_owned();
        assert!(cache("check", &tree, &[]).status.success(), "{what}: {built}");
        assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o7777, 0o644, "{what}");
        let undone = undo(&tree, &[&id]);
        assert!(undone.status.success(), "{what}: {undone:?}");
        assert_eq!(as_it_is(&path), there, "{what}");
    }
}

#[test]
fn upkeep_keeps_what_was_not_becalms_and_fills_no_journal() {
    let (_directory, tree) = tree();
    let path = tree.join(".modulecache");
    let add = |name: &str| fs::write(tree.join("gcc").join(name), "#%Module\n").unwrap();
    let refresh = || assert!(cache("refresh", &tree, &[]).status.success());
    fs::write(&path, "#%Module5.3\n# somebody's own\n").unwrap();
    refresh();
    assert_eq!(journals(&tree), 1);
    assert!(undo(&tree, &[]).status.success());
    assert_eq!(fs::read(&path).unwrap(), b"#%Module5.3\n# somebody's own\n");
    refresh();
    for number in 0..3 {
        add(&number.to_string());
        refresh();
    }
    assert_eq!(journals(&tree), 2);
    // Who asks for one has the one before kept, whoever built it.
    assert!(cache("build", &tree, &[]).status.success());
    assert_eq!(journals(&tree), 3);
}

#[test]
fn the_index_of_avail_is_made_with_the_cache_and_kept_true_by_refresh() {
    let (_directory, tree) = tree();
    let listed = |modules: &str| Some(format!("{}:\n{modules}", tree.display()));
    assert_eq!(native_avail(&tree), None);
    let built = json(&cache("build", &tree, &["--json"]));
    assert_eq!(built["caches"][0]["index"]["files"], 1, "{built}");
    assert_eq!(native_avail(&tree), listed("gcc/13\n"));
    // Nothing is made anew that is true.
    let again = json(&cache("refresh", &tree, &["--json"]));
    let again = &again["caches"][0];
    assert!(again["built"].is_null() && again["index"].is_null(), "{again}");

    fs::write(tree.join("gcc/14"), "#%Module\n").unwrap();
    assert_eq!(native_avail(&tree), None);
    let refreshed = cache("refresh", &tree, &[]);
    let text = String::from_utf8_lossy(&refreshed.stdout);
    assert!(text.contains("becalm modules avail answers from"), "{text}");
    assert_eq!(native_avail(&tree), listed("gcc/13\ngcc/14\n"));
}

#[test]
fn a_tree_that_has_no_index_has_its_cache_all_the_same() {
    let (_directory, tree) = tree();
    fs::write(tree.join("gcc/\u{e9}"), "#%Module\n").unwrap();
    let built = cache("build", &tree, &[]);
    assert_eq!(built.status.code(), Some(0), "{built:?}");
    let text = String::from_utf8_lossy(&built.stdout);
    assert!(text.contains("leaves this tree to Modules: "), "{text}");
}

#[test]
fn a_modules_without_caches_builds_none() {
    let (_directory, tree) = tree();
    let old = Command::new(env!("CARGO_BIN_EXE_becalm"))
        .args(["modules", "cache", "build"])
        .arg(&tree)
        .env("BECALM_MODULES_INDEX", index(&tree))
        .env_remove("MODULES_CMD")
        .env_remove("MODULESHOME")
        .output()
        .unwrap();
    assert_eq!(old.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&old.stdout).contains("has no caches"), "{old:?}");
    assert!(!tree.join(".modulecache").exists());
}
