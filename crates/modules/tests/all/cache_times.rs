//! What a cache is as of, and the clocks that say so.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::support::{ModuleTree, sites};
use modules::cache::{self, FaultKind, NAME, Occasion};
use modules::site::ModulesSite;

/// One test at a time: becalm's helpers fork, and are called while nothing else runs.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tree with a cache that becalm has made of it.
fn built(scene: &ModuleTree, site: &ModulesSite) -> PathBuf {
    let tree = scene.at("tree");
    scene.module("tree/gcc/12");
    scene.file("tree/gcc/.version", "#%Module\nset ModulesVersion 12\n");
    let occasion = Occasion {
        journal: remedy::Options::new(scene.at("state")),
        is_upkeep: false,
        under: None,
    };
    cache::build(&tree, site, &[], &occasion, &|_, _| {}).unwrap();
    assert_eq!(cache::check(&tree, Some(site)).faults, []);
    tree
}

/// The cache, with other words for what it is as of; as if it had been written in an hour.
fn date(tree: &Path, as_of: &str) {
    let path = tree.join(NAME);
    let text = fs::read_to_string(&path).unwrap();
    let told = text.lines().nth(1).unwrap();
    assert!(told.starts_with("# becalm: as of "), "{told}");
    let crc = told.rsplit(' ').next().unwrap();
    fs::write(&path, text.replace(told, &as_of.replace("CRC", crc))).unwrap();
    let then = SystemTime::now() + Duration::from_secs(3600);
    fs::File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
}

/// Other bytes in a file, as many as before, and with its old time.
fn edit(path: &Path, from: &str, to: &str) {
    let then = path.metadata().unwrap().modified().unwrap();
    fs::write(path, fs::read_to_string(path).unwrap().replace(from, to)).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

fn stale(tree: &Path, site: &ModulesSite) -> Vec<Option<String>> {
    let faults = cache::check(tree, Some(site)).faults;
    assert!(faults.iter().all(|fault| fault.kind == FaultKind::Stale), "{faults:#?}");
    faults.into_iter().map(|fault| fault.name).collect()
}

#[test]
fn a_cache_that_does_not_say_when_its_files_were_read_is_held_against_all_of_them() {
    let _alone = alone();
    let scene = ModuleTree::new();
    let site = sites().pop().unwrap();
    let tree = built(&scene, &site);
    edit(&tree.join("gcc/.version"), "12", "13");
    edit(&tree.join("gcc/12"), "a module", "no modul");
    date(&tree, "# of nobody");
    assert_eq!(stale(&tree, &site).len(), 2);
}

#[test]
fn what_came_with_a_directory_is_read_however_old_it_is() {
    let _alone = alone();
    let scene = ModuleTree::new();
    let site = sites().pop().unwrap();
    scene.module("staged/gcc/12");
    scene.file("staged/gcc/.version", "#%Module\nset ModulesVersion 13\n");
    let tree = built(&scene, &site);
    fs::rename(tree.join("gcc"), scene.at("before")).unwrap();
    fs::rename(scene.at("staged/gcc"), tree.join("gcc")).unwrap();
    assert!(stale(&tree, &site).contains(&Some("gcc/.version".to_owned())));
}

#[test]
fn a_cache_that_was_altered_is_held_against_all_files() {
    let _alone = alone();
    let scene = ModuleTree::new();
    let site = sites().pop().unwrap();
    let tree = built(&scene, &site);
    edit(&tree.join(NAME), "ModulesVersion 12", "ModulesVersion 13");
    assert_eq!(stale(&tree, &site), [Some("gcc/.version".to_owned())]);
}

#[test]
fn a_file_of_another_filesystem_has_another_clock() {
    let _alone = alone();
    let scene = ModuleTree::new();
    let site = sites().pop().unwrap();
    let other = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::set_permissions(other.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if other.path().metadata().unwrap().dev() == scene.path().metadata().unwrap().dev() {
        return;
    }
    fs::write(other.path().join("13"), "#%Module\nsetenv GCC thirteen\n").unwrap();
    scene.module("tree/gcc/12");
    symlink(other.path().join("13"), scene.at("tree/gcc/13")).unwrap();
    let tree = built(&scene, &site);
    edit(&other.path().join("13"), "thirteen", "unlucky!");
    date(&tree, "# becalm: as of 9000000000000000000 CRC");
    assert_eq!(stale(&tree, &site), [Some("gcc/13".to_owned())]);
}

#[test]
fn a_link_is_for_everyone_only_if_each_of_its_steps_is() {
    let _alone = alone();
    let scene = ModuleTree::new();
    let site = sites().pop().unwrap();
    scene.file("open/13", "#%Module\nsetenv S3CRET {of mine}\n");
    fs::create_dir(scene.at("closed")).unwrap();
    fs::set_permissions(scene.at("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    symlink(scene.at("open/13"), scene.at("closed/step")).unwrap();
    scene.module("tree/gcc/12");
    symlink("../../closed/step", scene.at("tree/gcc/13")).unwrap();
    symlink("../../open/13", scene.at("tree/gcc/14")).unwrap();
    let tree = built(&scene, &site);
    let text = fs::read_to_string(tree.join(NAME)).unwrap();
    assert!(text.contains("limited-access-file gcc/13"), "{text}");
    assert_eq!(text.matches("S3CRET").count(), 1, "{text}");
}
