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
    let mut environment = Environment::default();
    let lmod =
        fs::canonicalize(modern_modules().join("lmod/lmod")).expect("run setup/modern-modules");
    environment.set("LMOD_DIR", lmod.parent().unwrap());
    lmod::tool(&environment).unwrap()
}

fn built(scene: &ModuleTree) -> (PathBuf, PathBuf) {
    scene.module("tree/gcc/12.2");
    scene.module("tree/gcc/13");
    scene.file("tree/llvm/17.lua", "whatis(\"Name: \\\"llvm\\\"\")\nhelp([[two\nlines]])\n");
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
    let before = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let (directory, stamp) = built(&scene);
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
