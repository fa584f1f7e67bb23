//! Lmod's system cache, built by the real Lmod.
#![allow(clippy::unwrap_used)]

#[path = "all/support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use modules::cache::{Checked, FaultKind, lmod};
use modules::site::Environment;
use support::{ModuleTree, modern_modules};

/// One test at a time: becalm's helpers fork, and are called while nothing else runs.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tool() -> PathBuf {
    tool_of("lmod")
}

fn tool_of(name: &str) -> PathBuf {
    let mut environment = Environment::default();
    let lmod = fs::canonicalize(modern_modules().join(name).join("lmod"));
    let lmod = lmod.expect("run setup/modern-modules");
    environment.set("LMOD_DIR", lmod.parent().unwrap());
    lmod::tool(&environment).unwrap()
}

fn built(scene: &ModuleTree) -> (PathBuf, PathBuf) {
    tree(scene);
    cached(scene)
}

fn tree(scene: &ModuleTree) {
    scene.module("tree/gcc/12.2");
    scene.module("tree/gcc/13");
    scene.file("tree/llvm/17.lua", "whatis(\"Name: \\\"llvm\\\"\")\nhelp([[two\nlines]])\n");
}

fn cached(scene: &ModuleTree) -> (PathBuf, PathBuf) {
    let (directory, stamp) = (scene.at("cache"), scene.at("cache/timestamp"));
    lmod::build(&tool(), &directory, &stamp, &[scene.at("tree")]).unwrap();
    (directory, stamp)
}

fn kinds(checked: &Checked) -> Vec<FaultKind> {
    checked.faults.iter().map(|fault| fault.kind).collect()
}

fn date(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn what_lmod_builds_is_good_until_its_tree_changes() {
    let _alone = alone();
    let scene = ModuleTree::new();
    let (directory, stamp) = built(&scene);
    let checked = lmod::check(&directory, Some(&stamp));
    assert_eq!(checked.faults, []);
    assert_eq!(checked.entries.modulefiles, 3);
    scene.module("tree/gcc/14");
    scene.file("tree/llvm/18.lua", "");
    fs::remove_file(scene.at("tree/gcc/13")).unwrap();
    date(&scene.at("tree/gcc/12.2"), SystemTime::now() + Duration::from_secs(9));
    assert_eq!(kinds(&lmod::check(&directory, Some(&stamp))), [FaultKind::Stale; 4]);
}

#[test]
fn what_lmod_8_7_builds_is_good_and_built_anew_when_its_tree_changes() {
    let _alone = alone();
    let scene = ModuleTree::new();
    scene.module("tree/gcc/12.2");
    let (directory, stamp) = (scene.at("cache"), scene.at("elsewhere/timestamp"));
    let build = || {
        lmod::build(&tool_of("lmod-8.7"), &directory, &stamp, &[scene.at("tree")]).unwrap();
        lmod::check(&directory, Some(&stamp))
    };
    assert_eq!(build().faults, []);
    scene.module("tree/gcc/13");
    assert_eq!(kinds(&lmod::check(&directory, Some(&stamp))), [FaultKind::Stale]);
    let checked = build();
    assert_eq!((checked.faults, checked.entries.modulefiles), (vec![], 2));
    let left: Vec<_> = fs::read_dir(&directory).unwrap().flatten().collect();
    let is_beside =
        |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(".becalm");
    assert!(!left.iter().any(is_beside), "{left:?}");
}

#[test]
fn the_cache_of_lmod_6_6_is_read() {
    let _alone = alone();
    let scene = ModuleTree::new();
    let core = scene.at("tree");
    let mpi = scene.file("mpi/openmpi/4.lua", "");
    scene.file(
        "tree/gcc/12.lua",
        &format!("prepend_path(\"MODULEPATH\", \"{}\")\n", scene.at("mpi").display()),
    );
    // As a user's Lmod writes it, whose spider needs an older json than Debian 12's.
    let lmod = std::process::Command::new(modern_modules().join("lmod-6.6/lmod"))
        .args(["bash", "avail"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", scene.at("home"))
        .env("MODULEPATH", &core)
        .env("LMOD_SHORT_TIME", "0")
        .output()
        .unwrap();
    assert!(lmod.status.success(), "{lmod:?}");
    let written = fs::read_dir(scene.at("home/.lmod.d/.cache")).unwrap().flatten();
    let text = written.map(|entry| entry.path()).find(|path| path.extension().unwrap() == "lua");
    fs::create_dir(scene.at("cache")).unwrap();
    fs::copy(text.unwrap(), scene.at("cache/moduleT.lua")).unwrap();
    let checked = lmod::check(&scene.at("cache"), None);
    assert_eq!((checked.faults, checked.entries.modulefiles), (vec![], 2));
    fs::remove_file(mpi).unwrap();
    assert_eq!(kinds(&lmod::check(&scene.at("cache"), None)), [FaultKind::Stale]);
}

fn close(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o750)).unwrap();
}

#[test]
fn a_modulepath_with_what_not_everyone_may_read_is_in_no_cache() {
    let _alone = alone();
    let scene = ModuleTree::new();
    scene.module("open/gcc/12.2");
    let private = scene.module("private/secret/1").parent().unwrap().to_owned();
    close(&private);
    let (directory, stamp) = (scene.at("cache"), scene.at("timestamp"));
    let paths = [scene.at("open"), scene.at("private")];
    let left_out = lmod::build(&tool(), &directory, &stamp, &paths).unwrap();
    assert_eq!(left_out, [lmod::PrivateModulepath { modulepath: scene.at("private"), private }]);
    let text = fs::read_to_string(directory.join("spiderT.lua")).unwrap();
    assert!(text.contains("gcc/12.2") && !text.contains("secret"), "{text}");
    assert_eq!(lmod::check(&directory, Some(&stamp)).faults, []);

    // A private modulepath that a modulefile of an open one adds. What is root's, Lmod leaves out
    // by itself.
    let _ = std::os::unix::fs::chown(scene.at("private/secret"), Some(65_534), None);
    scene.file(
        "open/more/1.lua",
        &format!("prepend_path(\"MODULEPATH\", \"{}\")\n", scene.at("private").display()),
    );
    let refused = lmod::build(&tool(), &directory, &stamp, &paths);
    let refused = refused.expect_err(&fs::read_to_string(directory.join("spiderT.lua")).unwrap());
    assert!(matches!(refused, lmod::LmodError::Private(_)), "{refused}");
    assert_eq!(fs::read_to_string(directory.join("spiderT.lua")).unwrap(), text);
}

#[test]
fn a_cache_that_shows_what_not_everyone_may_read_is_named() {
    let _alone = alone();
    let scene = ModuleTree::new();
    let (directory, stamp) = built(&scene);
    close(&scene.at("tree/gcc"));
    let faults = |stamp| lmod::check(&directory, Some(stamp)).faults;
    assert_eq!(faults(&stamp).first().map(|fault| fault.kind), Some(FaultKind::Disclosing));
    fs::set_permissions(scene.at("tree/gcc"), fs::Permissions::from_mode(0o755)).unwrap();
    close(&scene.at("tree"));
    assert_eq!(faults(&stamp).first().map(|fault| fault.kind), Some(FaultKind::Disclosing));
}

#[test]
fn a_modulefile_that_was_changed_with_an_old_time_is_named() {
    let _alone = alone();
    let scene = ModuleTree::new();
    let (directory, stamp) = built(&scene);
    date(&scene.module("tree/gcc/12.2"), SystemTime::now() - Duration::from_secs(90_000));
    assert_eq!(kinds(&lmod::check(&directory, Some(&stamp))), [FaultKind::Stale]);
}

#[test]
fn under_any_umask_what_lmod_builds_is_for_everyone() {
    use rustix::fs::Mode;
    let _alone = alone();
    let scene = ModuleTree::new();
    tree(&scene);
    let before = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let (directory, stamp) = cached(&scene);
    assert_eq!(rustix::process::umask(before), Mode::RWXG | Mode::RWXO);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&directory), mode(&stamp)), (0o755, 0o644));
    assert_eq!(mode(&directory.join("spiderT.lua")), 0o644);
}

#[test]
fn a_cache_that_lmod_passes_over_is_named() {
    let _alone = alone();
    let scene = ModuleTree::new();
    let (directory, stamp) = built(&scene);
    date(&stamp, SystemTime::now() + Duration::from_secs(9));
    assert_eq!(kinds(&lmod::check(&directory, Some(&stamp))), [FaultKind::Unused]);
    let old = SystemTime::now() - Duration::from_secs(90_000);
    date(&directory.join("spiderT.lua"), old);
    assert!(kinds(&lmod::check(&directory, None)).contains(&FaultKind::Unused));
}

#[test]
fn a_hostile_cut_or_open_cache_is_named() {
    let _alone = alone();
    let scene = ModuleTree::new();
    let (directory, stamp) = built(&scene);
    let cache = directory.join("spiderT.lua");
    let whole = fs::read_to_string(&cache).unwrap();
    let first = || lmod::check(&directory, Some(&stamp)).faults.first().map(|fault| fault.kind);
    for code in ["os.execute('x')\n", "spiderT = f()\n", "x = { a = os.exit }\n", "x = 'a' .. b\n"]
    {
        fs::write(&cache, format!("{whole}{code}")).unwrap();
        assert_eq!(first(), Some(FaultKind::Hostile), "{code}");
    }
    fs::write(&cache, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(first(), Some(FaultKind::Partial));
    fs::write(&cache, "{".repeat(100_000)).unwrap();
    assert!(first().is_some());
    fs::write(&cache, format!("x = {}", "{".repeat(100_000))).unwrap();
    assert_eq!(first(), Some(FaultKind::Hostile));
    fs::write(&cache, &whole).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(first(), Some(FaultKind::Untrusted));
}
