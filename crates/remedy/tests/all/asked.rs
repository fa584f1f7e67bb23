//! Asked to end, at whichever moment: every file is as it was, nothing lies beside it, and the same can be done
//! again.

use std::sync::atomic::{AtomicUsize, Ordering};

use remedy::{Error, Options, Plan, Status, UndoOptions, Undone};

use crate::moments::*;
use crate::scene::*;

fn written_plan(scene: &EditedFiles) -> Plan {
    Plan::read(&scene.root().join("plan")).unwrap()
}

/// Does something that is asked to end once it has looked whether it is so many times; what came of it, and
/// whether it was asked.
fn asked<R>(
    scene: &EditedFiles,
    after: usize,
    work: impl FnOnce(&Options) -> Result<R, Error>,
) -> (Result<R, Error>, bool) {
    let looked = AtomicUsize::new(0);
    let is_asked_to_end = || looked.fetch_add(1, Ordering::Relaxed) >= after;
    let done = work(&Options { threads: 1, is_asked_to_end: &is_asked_to_end, ..scene.options() });
    (done, looked.load(Ordering::Relaxed) > after)
}

fn undone(scene: &EditedFiles, options: &Options) -> Result<Undone, Error> {
    remedy::undo(&scene.entries()[0].id, options, UndoOptions::default())
}

/// All but what is becalm's own and comes to be a file: it may be gone.
fn without_taken(scene: &EditedFiles) -> Picture {
    let mut picture = scene.picture();
    picture.retain(|path, _| ![".image", ".second"].map(|taken| scene.at(taken)).contains(path));
    picture
}

#[test]
fn an_application_leaves_nothing_changed_and_no_journal() {
    for after in 0.. {
        let scene = scene_with_plan();
        let (before, plan) = (scene.picture(), written_plan(&scene));
        let (done, was_asked) = asked(&scene, after, |options| remedy::apply(&plan, options));
        if !was_asked {
            assert!(after > 10, "it looks only {after} times");
            done.unwrap();
            return;
        }
        assert!(matches!(done, Err(Error::AskedToEnd)), "{after}: {done:?}");
        scene.is_as(&before);
        assert_eq!(scene.entries(), [], "{after}");
        remedy::apply(&plan, &scene.options()).unwrap();
    }
}

#[test]
fn what_is_added_to_an_application_is_not_and_that_stays_applied() {
    for after in 0.. {
        let scene = scene_to_extend();
        let (before, id) = (without_taken(&scene), scene.entries()[0].id.clone());
        let more = Plan::read(&scene.root().join("more")).unwrap();
        let (done, was_asked) = asked(&scene, after, |options| remedy::extend(&id, &more, options));
        if !was_asked {
            assert!(after > 3, "it looks only {after} times");
            done.unwrap();
            return;
        }
        assert!(matches!(done, Err(Error::AskedToEnd)), "{after}: {done:?}");
        assert_eq!(without_taken(&scene), before, "{after}");
        assert_eq!(scene.entries()[0].status, Status::Applied, "{after}");
    }
}

#[test]
fn an_undoing_leaves_all_applied() {
    for after in 0.. {
        let scene = scene_with_plan();
        remedy::apply(&written_plan(&scene), &scene.options()).unwrap();
        let applied = scene.picture();
        let (done, was_asked) = asked(&scene, after, |options| undone(&scene, options));
        if !was_asked {
            assert!(after > 10, "it looks only {after} times");
            assert_eq!(done.unwrap().skipped, []);
            return;
        }
        assert!(matches!(done, Err(Error::AskedToEnd)), "{after}: {done:?}");
        scene.is_as(&applied);
        assert_eq!(scene.entries()[0].status, Status::Applied, "{after}");
        assert_eq!(undone(&scene, &scene.options()).unwrap().skipped, [], "{after}");
    }
}

#[test]
fn what_is_in_pieces_stays_so_with_nothing_beside_it() {
    for after in 0.. {
        let scene = scene_with_plan();
        let died = under_strace(&scene, &["-e", "inject=renameat:signal=KILL:when=3"], &["plan"]);
        assert!(!died.status.success());
        // What lies beside is removed first.
        let (first, _) = asked(&scene, 0, |options| undone(&scene, options));
        assert!(matches!(first, Err(Error::AskedToEnd)), "{first:?}");
        assert_eq!(litter(&scene.root()), [""; 0]);
        let pieces = scene.picture();
        let (done, was_asked) = asked(&scene, after, |options| undone(&scene, options));
        if !was_asked {
            assert!(after > 10, "it looks only {after} times");
            assert_eq!(done.unwrap().skipped, []);
            return;
        }
        assert!(matches!(done, Err(Error::AskedToEnd)), "{after}: {done:?}");
        scene.is_as(&pieces);
        // A program that a test beside this one starts has the lock, too, until it is executed.
        let status = || scene.entries()[0].status;
        testkit::live::wait_until("the lock is free", || status() != Status::Running);
        assert_eq!(status(), Status::Interrupted, "{after}");
        assert_eq!(undone(&scene, &scene.options()).unwrap().skipped, [], "{after}");
    }
}
