//! Somebody else who may write in the same directory exchanges what becalm has made there for
//! something of theirs: nothing is written elsewhere, and nothing stays half-written.
//!
//! strace stops the real program at a system call; what is exchanged is so before it goes on.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use remedy::Step;
use rustix::fs::{CWD, RenameFlags};

use crate::moments::*;
use crate::scene::*;

/// A directory of nobody else's, beside the files.
fn private(scene: &EditedFiles) -> PathBuf {
    let private = scene.root().join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    private
}

/// Nothing is in it, and its permissions are as they were.
#[track_caller]
fn is_untouched(private: &Path) {
    assert_eq!(fs::read_dir(private).unwrap().count(), 0);
    assert_eq!(fs::metadata(private).unwrap().permissions().mode() & 0o7777, 0o700);
}

fn exchange(one: &Path, other: &Path) {
    rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

/// The first file among the scene's with a name that begins and ends so.
fn named(scene: &EditedFiles, start: &str, end: &str) -> Option<PathBuf> {
    let mut names = fs::read_dir(scene.at("")).unwrap().map(|entry| entry.unwrap().path());
    names.find(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(start) && name.ends_with(end)
    })
}

/// Applies steps; the program stops once its first call of this name is done. Then, as soon as
/// there is a file with a name that begins and ends so, it is changed, and the program goes on.
/// What it says; it must fail.
#[track_caller]
fn applied_and_stopped(
    scene: &EditedFiles,
    steps: Vec<Step>,
    call: &str,
    (start, end): (&str, &str),
    change: impl FnOnce(&Path),
) -> String {
    write_plan(scene, steps);
    let ready = || named(scene, start, end);
    let change = |path: PathBuf| change(&path);
    let output = stopped_at(scene, &["plan"], (call, 1), ready, change);
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// A directory that is added, with a link in it.
fn farm(scene: &EditedFiles) -> Vec<Step> {
    vec![
        Step::Directory { path: scene.at("farm"), mode: 0o755 },
        Step::Link { path: scene.at("farm/liba.so"), target: "/theirs/liba.so".into() },
    ]
}

#[test]
fn a_link_in_the_place_of_a_new_directory_is_not_followed() {
    let scene = EditedFiles::new();
    let (private, lure) = (private(&scene), scene.at("lure"));
    symlink(&private, &lure).unwrap();
    let said = applied_and_stopped(&scene, farm(&scene), "mkdirat", (".becalm-", ""), |made| {
        exchange(made, &lure);
    });
    assert!(said.contains("was exchanged by somebody else while becalm was at work"), "{said}");
    is_untouched(&private);
    assert!(scene.entries().is_empty());
    assert!(!scene.at("farm").exists());
}

#[test]
fn what_is_in_a_directory_that_was_put_in_the_place_of_a_new_one_stays_secret() {
    let scene = EditedFiles::new();
    let secret = scene.at("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), "").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o700)).unwrap();
    let mut put = PathBuf::new();
    let said = applied_and_stopped(&scene, farm(&scene), "mkdirat", (".becalm-", ""), |made| {
        exchange(made, &secret);
        put = made.to_owned();
    });
    assert!(said.contains("was exchanged by somebody else"), "{said}");
    assert_eq!(fs::metadata(&put).unwrap().permissions().mode() & 0o7777, 0o700);
    assert!(put.join("key").exists());
}

#[test]
fn nothing_is_put_behind_a_link_in_the_place_of_a_directory_that_was_just_added() {
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    let (private, lure) = (private(&scene), scene.at("lure"));
    symlink(&private, &lure).unwrap();
    lchown(&lure, Some(NOBODY), None).unwrap();
    let said = applied_and_stopped(&scene, farm(&scene), "renameat2", ("farm", ""), |made| {
        exchange(made, &lure);
    });
    assert!(said.contains("farm: is a symbolic link that user 65534 may have put there"), "{said}");
    is_untouched(&private);
}

#[test]
fn a_file_in_the_place_of_a_new_version_is_not_given_its_name() {
    let scene = EditedFiles::new();
    let (file, theirs) = (scene.file("file", "old"), scene.file("theirs", "theirs"));
    let steps =
        vec![Step::Link { path: scene.at("link"), target: "/".into() }, patch(&file, "old", "new")];
    // The second new file is there long before the first is renamed: it waits for the link.
    let said = applied_and_stopped(&scene, steps, "renameat2", ("link", ""), |_| {
        exchange(&named(&scene, ".becalm-", "-1-0").unwrap(), &theirs);
    });
    assert!(said.contains("was exchanged by somebody else"), "{said}");
    assert_eq!(bytes(&file), b"old");
    assert!(scene.entries().is_empty());
    assert!(fs::symlink_metadata(scene.at("link")).is_err());
}

#[test]
fn a_new_version_that_somebody_has_written_to_is_not_given_its_name() {
    let scene = EditedFiles::new();
    let file = scene.file("file", "old");
    let steps =
        vec![Step::Link { path: scene.at("link"), target: "/".into() }, patch(&file, "old", "new")];
    let said = applied_and_stopped(&scene, steps, "renameat2", ("link", ""), |_| {
        let temporary = named(&scene, ".becalm-", "-1-0").unwrap();
        fs::File::options().write(true).open(temporary).unwrap().write_at(b"ill", 0).unwrap();
    });
    assert!(said.contains("changed while becalm was at work"), "{said}");
    assert_eq!(bytes(&file), b"old");
    assert_eq!(litter(&scene.root()), [""; 0]);
    assert!(scene.entries().is_empty());
}

#[test]
fn in_a_directory_that_was_moved_away_after_a_new_version_was_written_there_nothing_is_renamed() {
    let scene = EditedFiles::new();
    let file = scene.file("sub/file", "old");
    let steps =
        vec![Step::Link { path: scene.at("link"), target: "/".into() }, patch(&file, "old", "new")];
    let said = applied_and_stopped(&scene, steps, "renameat2", ("link", ""), |_| {
        fs::rename(scene.at("sub"), scene.at("moved")).unwrap();
        scene.file("sub/file", "old");
    });
    assert!(said.contains("sub/file: changed while becalm was at work"), "{said}");
    assert_eq!([bytes(&file), bytes(scene.at("moved/file"))], [b"old", b"old"]);
    assert_eq!(litter(&scene.root()), [""; 0]);
    assert!(scene.entries().is_empty());
}
