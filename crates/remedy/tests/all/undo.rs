//! When undoing refuses, and what it leaves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::scene::*;
use remedy::{Changed, Error, Status, Step, UndoOptions};

/// Why it is not undone, for each file.
#[track_caller]
fn changed(scene: &EditedFiles, id: &str) -> Vec<Changed> {
    let before = scene.picture();
    let Err(Error::Changed { changed }) = scene.undo(id) else { panic!("undone") };
    scene.is_as(&before);
    changed
}

#[test]
fn what_has_changed_since_in_any_way_is_not_undone() {
    type Way = (&'static str, fn(&Path));
    let ways: [Way; 6] = [
        ("has changed since becalm patched it", |file| fs::write(file, "odd").unwrap()),
        ("has changed since becalm patched it", |file| fs::write(file, "longer").unwrap()),
        ("is gone", |file| fs::remove_file(file).unwrap()),
        ("is no longer a regular file", |file| {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
        }),
        ("has other permissions", |file| {
            fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
        }),
        ("has a new name", |file| fs::hard_link(file, file.with_extension("more")).unwrap()),
    ];
    for (reason, way) in ways {
        let scene = EditedFiles::new();
        let (file, other) = (scene.file("file", "old"), scene.file("other", "old"));
        let steps = vec![patch(&file, "old", "new"), patch(&other, "old", "new")];
        let id = scene.apply(steps).unwrap().id;
        way(&file);
        let changed = changed(&scene, &id);
        assert_eq!(changed.len(), 1);
        assert!(changed[0].reason.contains(reason), "{changed:?}");
        assert_eq!(changed[0].path, file);
        let how = UndoOptions { skip_changed: true, ..UndoOptions::default() };
        remedy::undo(&id, &scene.options(), how).unwrap();
        assert_eq!(bytes(&other), b"old");
        assert_eq!(scene.entries()[0].status, Status::PartlyUndone);
    }
}

/// Two patched files, one of which cannot be replaced now: told by a dry run as by the real one,
/// and the other is undone all the same where that is asked for.
#[track_caller]
fn is_told_before(scene: &EditedFiles, id: &str, free: &Path, held: &Path, reason: &str) {
    let (before, options) = (scene.picture(), scene.options());
    for dry_run in [true, false] {
        let how = UndoOptions { dry_run, ..UndoOptions::default() };
        let Err(Error::Changed { changed }) = remedy::undo(id, &options, how) else {
            panic!("undone")
        };
        let [held_one] = &changed[..] else { panic!("{changed:?}") };
        assert_eq!(held_one.path, held);
        assert!(held_one.reason.contains(reason), "{changed:?}");
        scene.is_as(&before);
        assert_eq!(scene.entries()[0].status, Status::Applied);
    }
    let how = UndoOptions { skip_changed: true, ..UndoOptions::default() };
    assert_eq!(remedy::undo(id, &options, how).unwrap().restored.patched, 1);
    assert_eq!((bytes(free), bytes(held)), (b"old".to_vec(), b"new".to_vec()));
    assert_eq!(scene.entries()[0].status, Status::PartlyUndone);
}

#[test]
fn what_cannot_be_undone_now_is_told_before_anything_is_undone() {
    if !is_root() {
        return;
    }
    for (name, flag, reason) in [
        ("sub/held", "i", "is immutable (chattr +i)"),
        ("sub/held", "a", "is append-only (chattr +a)"),
        ("sub", "i", "cannot be taken back: "),
    ] {
        let scene = EditedFiles::new();
        let (free, held) = (scene.file("free", "old"), scene.file("sub/held", "old"));
        let steps = vec![patch(&free, "old", "new"), patch(&held, "old", "new")];
        let id = scene.apply(steps).unwrap().id;
        let named = scene.at(name).display().to_string();
        if !output(&["chattr", &format!("+{flag}"), &named]).status.success() {
            return;
        }
        is_told_before(&scene, &id, &free, &held, reason);
        run(&["chattr", &format!("-{flag}"), &named]);
        scene.undo(&id).unwrap();
        assert_eq!(bytes(&held), b"old");
    }
}

#[test]
fn what_is_partly_undone_is_the_last_only_where_there_is_no_other() {
    let scene = EditedFiles::new();
    let (first, second) = (scene.file("first", "old"), scene.file("second", "old"));
    let older = scene.apply(vec![patch(&first, "old", "new")]).unwrap().id;
    let newer = scene.apply(vec![patch(&second, "old", "new")]).unwrap().id;
    fs::write(&second, "odd").unwrap();
    let how = UndoOptions { skip_changed: true, ..UndoOptions::default() };
    remedy::undo(&newer, &scene.options(), how).unwrap();
    assert_eq!(remedy::last(&scene.state()).unwrap().id, older);
    scene.undo(&older).unwrap();
    assert_eq!(remedy::last(&scene.state()).unwrap().id, newer);
}

#[test]
fn what_a_later_application_changed_is_undone_after_that() {
    let scene = EditedFiles::new();
    let file = scene.file("file", "old");
    let first = scene.apply(vec![patch(&file, "old", "new")]).unwrap().id;
    let second = scene.apply(vec![patch(&file, "new", "two")]).unwrap().id;
    let changed = changed(&scene, &first);
    assert_eq!(changed[0].by.as_ref(), Some(&second));
    assert!(changed[0].reason.contains(&format!("by {second}; undo that first")));
    scene.undo(&second).unwrap();
    scene.undo(&first).unwrap();
    assert_eq!(bytes(&file), b"old");
}

#[test]
fn a_directory_that_is_not_empty_stays_and_what_was_put_in_the_place_of_a_link_too() {
    let scene = EditedFiles::new();
    let steps = vec![
        Step::Directory { path: scene.at("farm"), mode: 0o755 },
        Step::Link { path: scene.at("farm/link"), target: "x".into() },
    ];
    let id = scene.apply(steps).unwrap().id;
    fs::write(scene.at("farm/mine"), "mine").unwrap();
    let undone = scene.undo(&id).unwrap();
    assert_eq!(undone.left, [scene.at("farm")]);
    assert_eq!(bytes(scene.at("farm/mine")), b"mine");
    assert!(fs::symlink_metadata(scene.at("farm/link")).is_err());

    let link = Step::Link { path: scene.at("link"), target: "x".into() };
    let id = scene.apply(vec![link]).unwrap().id;
    fs::remove_file(scene.at("link")).unwrap();
    fs::write(scene.at("link"), "mine").unwrap();
    assert!(changed(&scene, &id)[0].reason.contains("has changed since becalm made it"));
}

#[test]
fn two_becalms_do_not_change_files_at_a_time() {
    let scene = EditedFiles::new();
    let file = scene.file("file", "old");
    scene.apply(vec![patch(&file, "old", "new")]).unwrap();
    let lock = fs::File::open(scene.state().join("lock")).unwrap();
    lock.lock().unwrap();
    let busy = scene.apply(vec![patch(&file, "new", "old")]);
    assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
    drop(lock);
    scene.apply(vec![patch(&file, "new", "old")]).unwrap();
}

#[test]
fn a_file_that_becalm_renews_stays_one_application_whose_undo_removes_it() {
    let scene = EditedFiles::new();
    let before = scene.picture();
    let path = scene.at("cache");
    assert_eq!(remedy::renew(&path, b"none there", &scene.options()).unwrap(), None);
    let create = Step::Create { path: path.clone(), mode: 0o644, content: b"first".to_vec() };
    let id = scene.apply(vec![create]).unwrap().id;
    for content in ["second", "the third"] {
        let renewed = remedy::renew(&path, content.as_bytes(), &scene.options()).unwrap();
        assert_eq!(renewed.as_ref(), Some(&id));
        assert_eq!(bytes(&path), content.as_bytes());
    }
    // What somebody else has written is not becalm's to renew, or to remove.
    fs::write(&path, "mine").unwrap();
    assert_eq!(remedy::renew(&path, b"fourth", &scene.options()).unwrap(), None);
    assert!(changed(&scene, &id)[0].reason.contains("has changed since becalm made it"));
    fs::write(&path, "the third").unwrap();
    scene.undo(&id).unwrap();
    assert_eq!((scene.picture(), scene.entries()[0].status), (before, Status::Undone));
}

/// What was added is as before where it is gone; but a tree that is not mounted, or has another name for a while, comes
/// back with it.
#[test]
fn what_was_added_in_a_tree_that_is_away_is_still_to_be_undone() {
    let scene = EditedFiles::new();
    let before = scene.picture();
    let file = scene.file("tree/file", "old");
    let with_file = scene.picture();
    let (own, below) = (scene.at("tree/.becalm"), scene.at("tree/.becalm/farm"));
    let link = Step::Link { path: below.join("link"), target: file.clone() };
    let directory = |path: &Path| Step::Directory { path: path.to_owned(), mode: 0o755 };
    let steps = vec![directory(&own), directory(&below), link, patch(&file, "old", "new")];
    let id = scene.apply(steps).unwrap().id;
    let (tree, away) = (scene.at("tree"), scene.at("away"));
    fs::rename(&tree, &away).unwrap();
    let mut gone: Vec<_> = changed(&scene, &id).into_iter().map(|changed| changed.path).collect();
    gone.sort_unstable();
    assert_eq!(gone, [own, file]);
    let how = UndoOptions { skip_changed: true, ..UndoOptions::default() };
    remedy::undo(&id, &scene.options(), how).unwrap();
    assert_eq!(scene.entries()[0].status, Status::PartlyUndone);
    fs::rename(&away, &tree).unwrap();
    scene.undo(&id).unwrap();
    scene.is_as(&with_file);
    assert_ne!(with_file, before);
}
