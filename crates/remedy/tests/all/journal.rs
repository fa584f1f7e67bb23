//! Journals that are cut, damaged or hostile: never a wrong byte in a user's file, never a panic.

use std::fs;
use std::path::PathBuf;

use crate::scene::*;
use remedy::{Error, Status, Step};

/// An application of a few kinds of steps, and its journal's file.
fn applied() -> (EditedFiles, String, PathBuf) {
    let scene = EditedFiles::new();
    let (a, gone) = (scene.file("a", "old a"), scene.file("gone", "gone"));
    let steps = vec![
        Step::Link { path: scene.at("link"), target: a.clone() },
        Step::Create { path: scene.at("note"), mode: 0o600, content: b"note".to_vec() },
        patch(&a, "old a", "new, longer"),
        Step::Remove { path: gone },
    ];
    let id = scene.apply(steps).unwrap().id;
    let journal = scene.state().join("journals").join(&id).join("journal");
    (scene, id, journal)
}

/// After any attempt to undo, each file is as before or as applied.
#[track_caller]
fn each_is_old_or_new(scene: &EditedFiles, what: &str) {
    let a = bytes(scene.at("a"));
    assert!([&b"old a"[..], b"new, longer"].contains(&a.as_slice()), "{what}: {a:?}");
    for (name, content) in [("gone", "gone"), ("note", "note")] {
        if let Ok(there) = fs::read(scene.at(name)) {
            assert_eq!(there, content.as_bytes(), "{what}: {name}");
        }
    }
}

#[test]
fn a_journal_cut_anywhere_undoes_all_or_says_that_it_cannot() {
    let (scene, id, journal) = applied();
    let (whole, new) = (bytes(&journal), scene.picture());
    let line_ends = whole.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(line_ends, 9, "begin, temporaries, 4 changes, ready, directories, applied");
    let told = whole.windows(5).position(|bytes| bytes == b"ready").unwrap();
    let (mut undone, mut refused) = (0, 0);
    for cut in 0..=whole.len() {
        fs::write(&journal, &whole[..cut]).unwrap();
        let entries = scene.entries();
        assert_eq!(entries.len(), 1, "cut at {cut}");
        match scene.undo(&id) {
            Ok(_) => {
                assert!(cut > told, "cut at {cut}");
                assert_eq!(bytes(scene.at("a")), b"old a", "cut at {cut}");
                assert_eq!(bytes(scene.at("gone")), b"gone", "cut at {cut}");
                assert!(!scene.at("note").exists() && !scene.at("link").exists(), "cut at {cut}");
                undone += 1;
                reapply(&scene);
            }
            Err(Error::Damaged { .. }) => {
                scene.is_as(&new);
                refused += 1;
            }
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
    assert!(undone > 20 && refused > 100, "{undone} {refused}");
}

/// Makes the files new again, as they were when the journal was whole.
fn reapply(scene: &EditedFiles) {
    fs::write(scene.at("a"), "new, longer").unwrap();
    fs::write(scene.at("note"), "note").unwrap();
    fs::set_permissions(scene.at("note"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    std::os::unix::fs::symlink(scene.at("a"), scene.at("link")).unwrap();
    fs::remove_file(scene.at("gone")).unwrap();
}

#[test]
fn a_journal_with_any_byte_changed_never_restores_anything_wrong() {
    let (scene, id, journal) = applied();
    let whole = bytes(&journal);
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, b'\n' ^ whole[at]] {
            let mut changed = whole.clone();
            changed[at] ^= flip;
            fs::write(&journal, &changed).unwrap();
            let what = format!("byte {at} ^ {flip:#x}");
            scene.entries();
            let done = scene.undo(&id);
            each_is_old_or_new(&scene, &what);
            if done.is_ok_and(|done| done.restored != Default::default()) {
                assert_eq!(bytes(scene.at("a")), b"old a", "{what}");
                reapply(&scene);
            }
        }
    }
}

#[test]
fn a_journal_that_lies_with_the_right_checksums_cannot_make_undo_write_other_bytes() {
    let (scene, id, journal) = applied();
    let whole = String::from_utf8(bytes(&journal)).unwrap();
    // Other old bytes, an edit out of the file, a size that is none: all well-formed.
    let lies = [
        ("\"old\":\"old a\"", "\"old\":\"lie a\""),
        ("\"offset\":0", "\"offset\":18446744073709551615"),
        ("\"offset\":0", "\"offset\":3"),
        ("\"size\":5", "\"size\":18446744073709551615"),
        ("\"names\":[", "\"names\":[],\"nothing\":["),
    ];
    for (truth, lie) in lies {
        assert!(whole.contains(truth), "{truth} in {whole}");
        let lines = whole.lines().map(|line| {
            let body = line[9..].replace(truth, lie);
            format!("{:08x} {body}\n", crc32fast::hash(body.as_bytes()))
        });
        fs::write(&journal, lines.collect::<String>()).unwrap();
        scene.entries();
        let done = scene.undo(&id);
        each_is_old_or_new(&scene, lie);
        if done.is_ok() {
            reapply(&scene);
        }
    }
}

#[test]
fn a_file_in_the_place_of_a_journal_is_told_as_damaged_or_not_at_all() {
    let (scene, id, journal) = applied();
    for junk in [&b"\0"[..], b"\n\n\n", b"00000000 0 {}\n", &[b'x'; 100_000]] {
        fs::write(&journal, junk).unwrap();
        assert!(matches!(scene.entries()[0].status, Status::Interrupted | Status::Damaged));
        let _ = scene.undo(&id);
        each_is_old_or_new(&scene, "junk");
    }
    for name in ["20261121-1", "20261121-01", "x", "20261121--1", "99999999999999999999-1"] {
        fs::create_dir_all(scene.state().join("journals").join(name)).unwrap();
    }
    assert_eq!(scene.entries().len(), 2, "only what is named as an id is one");
}

#[test]
fn plans_of_another_version_or_with_unknown_steps_are_refused() {
    let scene = EditedFiles::new();
    let file = scene.root().join("plan");
    let read = |json: &str| {
        fs::write(&file, json).unwrap();
        remedy::Plan::read(&file).unwrap_err().to_string()
    };
    let other = r#"{"schema":"becalm.plan/2","title":1,"steps":[{"do":"dance"}]}"#;
    assert!(
        read(other).contains("its schema is becalm.plan/2, not becalm.plan/1"),
        "{}",
        read(other)
    );
    let step = r#"{"schema":"becalm.plan/1","title":"t","steps":[{"do":"dance"}]}"#;
    assert!(read(step).contains("unknown variant `dance`"), "{}", read(step));
    let more =
        r#"{"schema":"becalm.plan/1","title":"t","steps":[{"do":"remove","path":"/x","if":1}]}"#;
    assert!(read(more).contains("unknown field `if`"), "{}", read(more));
    for junk in ["", "{", "[]", "{\"schema\":1}", "\u{0}"] {
        assert!(read(junk).contains("is no plan"), "{junk}");
    }
}

#[test]
fn the_plan_in_the_documentation_is_one() {
    let document = include_str!("../../../../docs/schema/becalm.plan.md");
    let example = document.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let scene = EditedFiles::new();
    let file = scene.root().join("plan");
    fs::write(&file, example).unwrap();
    let mut written = Vec::new();
    remedy::Plan::read(&file).unwrap().write(&mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), example);
}
