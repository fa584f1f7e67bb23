//! A tree is walked without falling into its traps.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::ModuleTree;
use modules::site::User;
use modules::tree::{Cookie, ModulepathTree, Rc, TreeEntryKind, WalkLimits, walk};

fn kind<'a>(tree: &'a ModulepathTree, name: &str) -> &'a TreeEntryKind {
    &tree.entries.iter().find(|entry| entry.name == Path::new(name)).unwrap().kind
}

#[test]
fn each_name_is_what_it_is_to_modules() {
    let scene = ModuleTree::new();
    scene.module("gcc/12.2");
    scene.file("gcc/.version", "#%Module\nset ModulesVersion 12.2\n");
    scene.file(".version", "#%Module\nset ModulesVersion gcc\n");
    scene.file(".modulerc", "#%Module\n");
    scene.file(".modulecache", "#%Module5.3\n");
    scene.file("README", "hello");
    scene.file("empty", "");
    scene.file("gcc/11~", "#%Module");
    scene.file("new/9", "#%Module9.9\n");
    scene.module(".git/x");
    scene.module("with space/{brace} $x/é");
    let tree = walk(scene.path(), WalkLimits::default());
    assert_eq!(*kind(&tree, "gcc/12.2"), TreeEntryKind::File(Cookie::Version("1.0".into())));
    assert_eq!(*kind(&tree, "gcc/.version"), TreeEntryKind::Rc(Rc::Version, Cookie::Plain));
    assert_eq!(*kind(&tree, ".version"), TreeEntryKind::IgnoredFile);
    assert_eq!(*kind(&tree, ".modulerc"), TreeEntryKind::Rc(Rc::Modulerc, Cookie::Plain));
    assert_eq!(*kind(&tree, ".modulecache"), TreeEntryKind::Cache);
    assert_eq!(*kind(&tree, "README"), TreeEntryKind::File(Cookie::Missing));
    assert_eq!(*kind(&tree, "empty"), TreeEntryKind::File(Cookie::Missing));
    assert_eq!(*kind(&tree, "gcc/11~"), TreeEntryKind::IgnoredFile);
    assert_eq!(*kind(&tree, "new/9"), TreeEntryKind::File(Cookie::Version("9.9".into())));
    assert_eq!(*kind(&tree, ".git"), TreeEntryKind::IgnoredDirectory);
    assert_eq!(*kind(&tree, "gcc"), TreeEntryKind::Directory { names: 3 });
    assert!(matches!(kind(&tree, "with space/{brace} $x/é"), TreeEntryKind::File(_)));
    assert!(tree.entries.iter().all(|entry| entry.name != Path::new(".git/x")));
}

#[test]
fn fifos_loops_and_dangling_links_are_named_and_not_followed() {
    let scene = ModuleTree::new();
    scene.module("a/1");
    let made = std::process::Command::new("mkfifo").arg(scene.at("a/pipe")).status().unwrap();
    assert!(made.success());
    symlink("..", scene.at("a/loop")).unwrap();
    symlink("/", scene.at("root")).unwrap();
    symlink("nowhere", scene.at("gone")).unwrap();
    symlink("itself", scene.at("itself")).unwrap();
    symlink("a", scene.at("b")).unwrap();
    let tree = walk(scene.path(), WalkLimits::default());
    assert_eq!(*kind(&tree, "a/pipe"), TreeEntryKind::Special);
    assert_eq!(*kind(&tree, "a/loop"), TreeEntryKind::Loop { to: PathBuf::new() });
    assert_eq!(*kind(&tree, "root"), TreeEntryKind::Loop { to: "/".into() });
    assert_eq!(*kind(&tree, "gone"), TreeEntryKind::Dangling);
    assert_eq!(*kind(&tree, "itself"), TreeEntryKind::Dangling);
    assert!(
        matches!(kind(&tree, "b/1"), TreeEntryKind::File(_)),
        "a link to a directory beside it is followed"
    );
}

#[test]
fn a_walk_stops_at_its_limit_and_says_so() {
    let scene = ModuleTree::new();
    for number in 0..20 {
        scene.module(&format!("a/{number}"));
    }
    let tree = walk(scene.path(), WalkLimits { entries: 10, cookies: false });
    assert!(tree.is_cut && tree.entries.len() <= 10);
    assert!(!walk(scene.path(), WalkLimits { entries: 21, cookies: false }).is_cut);
}

#[test]
fn a_modulepath_that_is_a_file_or_missing_is_a_fact() {
    let scene = ModuleTree::new();
    let file = scene.module("file");
    assert!(matches!(walk(&file, WalkLimits::default()).top.kind, TreeEntryKind::File(_)));
    assert_eq!(walk(&scene.at("no"), WalkLimits::default()).top.kind, TreeEntryKind::Dangling);
    assert!(!walk(&file, WalkLimits::default()).is_listed());
}

#[test]
fn another_user_sees_what_he_may_see() {
    let scene = ModuleTree::new();
    let secret = scene.module("a/secret");
    scene.module("private/1");
    for (path, mode) in [(secret, 0o600), (scene.at("private"), 0o700)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    if scene.owner() != 0 {
        assert!(std::env::var_os("CI").is_none(), "this test needs root");
        return;
    }
    let nobody = User::named("nobody").unwrap();
    assert_eq!((nobody.user, nobody.name.as_str()), (65534, "nobody"));
    let stage = launch::Stage::new();
    let tree = nobody.play(&stage, || walk(scene.path(), WalkLimits::default())).unwrap();
    let unreadable: Vec<_> =
        tree.unreadable().map(|(entry, why)| (entry.name.clone(), why.0)).collect();
    assert_eq!(unreadable, [("a/secret".into(), 13), ("private".into(), 13)]);
    assert!(User::named("no-such-user-here").is_err());
    assert_eq!(User::named("54321").unwrap().user, 54321);
}
