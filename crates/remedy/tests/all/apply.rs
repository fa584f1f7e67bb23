//! A plan that is applied, and undone, on an undisturbed system.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::scene::*;
use remedy::{Edit, Error, Seen, Status, Step};

/// A step of every kind.
fn every_kind(scene: &EditedFiles) -> Vec<Step> {
    let (a, gone) = (scene.file("a", "old bytes"), scene.file("gone", "to be removed"));
    std::os::unix::fs::symlink("a", scene.at("old-link")).unwrap();
    fs::create_dir(scene.at("empty")).unwrap();
    let cache = scene.file("cache", "an old cache, which is longer");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o604)).unwrap();
    std::os::unix::fs::symlink("a", scene.at("other-link")).unwrap();
    let kept = scene.file("kept", "what somebody may read");
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o604)).unwrap();
    vec![
        Step::Directory { path: scene.at("farm"), mode: 0o755 },
        Step::Directory { path: scene.at("farm/lib"), mode: 0o700 },
        Step::Link { path: scene.at("farm/lib/liba.so"), target: a.clone() },
        Step::Create { path: scene.at("farm/note"), mode: 0o640, content: b"note\n".to_vec() },
        patch(&a, "old", "new"),
        Step::Replace { path: cache, mode: 0o640, content: b"new".to_vec() },
        Step::Replace { path: scene.at("other-link"), mode: 0o600, content: b"file".to_vec() },
        Step::Rewrite { path: kept, content: b"new".to_vec() },
        Step::Remove { path: gone },
        Step::Remove { path: scene.at("old-link") },
        Step::Remove { path: scene.at("empty") },
    ]
}

#[test]
fn every_kind_of_step_is_applied_and_undone() {
    let scene = EditedFiles::new();
    let steps = every_kind(&scene);
    let before = scene.picture();
    let applied = scene.apply(steps).unwrap();
    assert_eq!(bytes(scene.at("a")), b"new bytes");
    assert_eq!(bytes(scene.at("farm/lib/liba.so")), b"new bytes");
    assert_eq!(bytes(scene.at("farm/note")), b"note\n");
    assert_eq!(fs::metadata(scene.at("farm/note")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(bytes(scene.at("cache")), b"new");
    assert_eq!(fs::metadata(scene.at("cache")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(bytes(scene.at("other-link")), b"file");
    assert_eq!(bytes(scene.at("kept")), b"new");
    let kept = fs::metadata(scene.at("kept")).unwrap();
    assert_eq!(kept.mode() & 0o7777, 0o604);
    assert!(kept.modified().unwrap().elapsed().unwrap().as_secs() < 600, "its times are new");
    assert_eq!(bytes(scene.at("a")), b"new bytes");
    for name in ["gone", "old-link", "empty"] {
        assert!(fs::symlink_metadata(scene.at(name)).is_err(), "{name}");
    }
    assert_eq!(litter(&scene.root()), [""; 0]);
    assert_eq!(scene.entries()[0].status, Status::Applied);
    let undone = scene.undo(&applied.id).unwrap();
    assert_eq!(undone.restored, applied.changed);
    scene.is_as(&before);
    assert_eq!(scene.entries()[0].status, Status::Undone);
    assert!(matches!(scene.undo(&applied.id), Err(Error::Undone { .. })));
}

#[test]
fn a_file_may_grow_at_its_end_and_shrinks_back() {
    let scene = EditedFiles::new();
    let long = "x".repeat(3 << 20);
    let file = scene.file("long", &long);
    let end = Edit { offset: (3 << 20) - 2, old: b"xx".to_vec(), new: b"yy grown".to_vec() };
    let across = Edit { offset: (1 << 20) - 2, old: b"xxxx".to_vec(), new: b"1234".to_vec() };
    let step = Step::Patch {
        path: file.clone(),
        also: vec![],
        seen: Seen::of(&file).unwrap(),
        edits: vec![across, end].into(),
    };
    let before = scene.picture();
    let applied = scene.apply(vec![step]).unwrap();
    let mut expected = long.into_bytes();
    expected[(1 << 20) - 2..(1 << 20) + 2].copy_from_slice(b"1234");
    expected.truncate((3 << 20) - 2);
    expected.extend_from_slice(b"yy grown");
    assert!(bytes(&file) == expected);
    scene.undo(&applied.id).unwrap();
    scene.is_as(&before);
}

#[test]
fn ten_thousand_files_are_patched_linked_and_undone() {
    let scene = EditedFiles::new();
    let mut steps = vec![Step::Directory { path: scene.at("farm"), mode: 0o755 }];
    for number in 0..5000 {
        let file = scene.file(format!("d{}/f{number}", number % 50), format!("old {number}"));
        steps.push(patch(&file, "old", "new"));
        let path = scene.at(format!("farm/{number}"));
        steps.push(Step::Link { path, target: file });
    }
    let before = scene.picture();
    let applied = scene.apply(steps).unwrap();
    assert_eq!(bytes(scene.at("farm/4321")), b"new 4321");
    assert_eq!(litter(&scene.root()), [""; 0]);
    scene.undo(&applied.id).unwrap();
    scene.is_as(&before);
}

#[test]
fn an_application_that_was_undone_can_be_made_again() {
    let scene = EditedFiles::new();
    let file = scene.file("a", "old");
    let first = scene.apply(vec![patch(&file, "old", "new")]).unwrap();
    scene.undo(&first.id).unwrap();
    let second = scene.apply(vec![patch(&file, "old", "new")]).unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(bytes(&file), b"new");
    assert_eq!(remedy::last(&scene.state()).unwrap().id, second.id);
}

#[test]
fn a_plan_that_changes_nothing_leaves_no_trace() {
    let scene = EditedFiles::new();
    assert!(matches!(scene.apply(vec![]), Err(Error::Empty)));
    fs::create_dir(scene.at("there")).unwrap();
    let there = Step::Directory { path: scene.at("there"), mode: 0o755 };
    assert!(matches!(scene.apply(vec![there]), Err(Error::Empty)));
    assert_eq!(scene.entries(), []);
}
