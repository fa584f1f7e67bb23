//! Something comes in the way while files are changed or taken back: all else is as it was, and what is
//! not is told, and given back by the next undoing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use remedy::{Error, Status, Step, UndoOptions};

use crate::moments::*;
use crate::scene::*;

/// A directory that nothing can be changed in, until it is dropped. None where the filesystem has no such.
struct Immutable(PathBuf);

impl Immutable {
    fn make(directory: &Path) -> Option<Immutable> {
        let words = ["chattr", "+i", directory.to_str().unwrap()];
        output(&words).status.success().then(|| Immutable(directory.to_owned()))
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        run(&["chattr", "-i", self.0.to_str().unwrap()]);
    }
}

/// Files with old content, and steps that patch them in this order.
fn patched(scene: &EditedFiles, names: &[&str]) -> (Vec<PathBuf>, Vec<Step>) {
    let files: Vec<_> = names.iter().map(|name| scene.file(name, "old")).collect();
    let steps = files.iter().map(|file| patch(file, "old", "new")).collect();
    (files, steps)
}

/// Applies these steps, and does something once so many files are renamed; it must fail. What it says.
#[track_caller]
fn applied_until<R>(
    scene: &EditedFiles,
    steps: Vec<Step>,
    renamed: usize,
    last: &Path,
    change: impl FnOnce() -> R,
) -> (String, R) {
    write_plan(scene, steps);
    let is_new = || (bytes(last) == b"new").then_some(());
    let mut changed = None;
    let output = stopped_at(scene, &["plan"], ("renameat", renamed), is_new, |()| {
        changed = Some(change());
    });
    assert!(!output.status.success());
    (String::from_utf8(output.stderr).unwrap(), changed.unwrap())
}

/// Another's file comes to be at a path, by a rename.
fn replace(file: &Path) {
    fs::write(file.with_extension("theirs"), "theirs").unwrap();
    fs::rename(file.with_extension("theirs"), file).unwrap();
}

#[test]
fn a_directory_that_becomes_immutable_keeps_no_other_from_being_taken_back() {
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    let (files, steps) = patched(&scene, &["b/first", "a/second", "b/third", "c/fourth"]);
    let before = scene.picture();
    let (said, made) =
        applied_until(&scene, steps, 1, &files[0], || Immutable::make(&scene.at("b")));
    let Some(immutable) = made else { return };
    assert!(said.contains("b/third: rename: Operation not permitted"), "{said}");
    assert!(said.contains("all else is as it was, but "), "{said}");
    let contents = |files: &[PathBuf]| files.iter().map(bytes).collect::<Vec<_>>();
    assert_eq!(contents(&files), [b"new", b"old", b"old", b"old"]);
    let [entry] = &scene.entries()[..] else { panic!("{said}") };
    assert_eq!(entry.status, Status::Interrupted);

    // What was left there keeps nothing else from being changed.
    let other = scene.file("other", "old");
    let id = scene.apply(vec![patch(&other, "old", "new")]).unwrap().id;
    scene.undo(&id).unwrap();
    fs::remove_file(other).unwrap();

    let stays = |undone: remedy::Undone| -> Vec<(PathBuf, String)> {
        undone.skipped.into_iter().map(|stays| (stays.path, stays.reason)).collect()
    };
    let skipped = stays(scene.undo(&entry.id).unwrap());
    let (file, reason) = skipped.iter().find(|(path, _)| *path == files[0]).unwrap();
    assert!(reason.contains("is immutable (chattr +i)"), "{}: {reason}", file.display());
    let is_litter = |(path, _): &&(PathBuf, String)| path.starts_with(scene.at("b"));
    assert_eq!(skipped.iter().filter(is_litter).count(), skipped.len());
    assert!(skipped.len() > 1 && litter(&scene.root()).len() == 1, "{skipped:?}");
    assert_eq!(scene.entries()[0].status, Status::PartlyUndone);

    drop(immutable);
    assert_eq!(stays(scene.undo(&entry.id).unwrap()), []);
    assert_eq!((scene.picture(), scene.entries()[0].status), (before, Status::Undone));
}

#[test]
fn what_was_added_stays_as_often_as_it_is_undone_while_a_file_stays_changed() {
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    let (files, mut steps) = patched(&scene, &["b/first", "b/second"]);
    let link = scene.at("link");
    steps.insert(0, Step::Link { path: link.clone(), target: files[0].clone() });
    let before = scene.picture();
    let (said, made) =
        applied_until(&scene, steps, 1, &files[0], || Immutable::make(&scene.at("b")));
    let Some(immutable) = made else { return };
    let [entry] = &scene.entries()[..] else { panic!("{said}") };
    for _ in 0..3 {
        // A temporary that cannot be removed is told, too, and before the file.
        let undone = scene.undo(&entry.id).unwrap();
        assert!(undone.skipped.iter().any(|stays| stays.path == files[0]), "{undone:?}");
        assert!(link.is_symlink(), "{undone:?}");
    }
    drop(immutable);
    scene.undo(&entry.id).unwrap();
    assert_eq!((scene.picture(), scene.entries()[0].status), (before, Status::Undone));
}

/// A file with two names, of which the first is changed when the directory of the other becomes immutable.
fn stopped_between_names(scene: &EditedFiles) -> Option<([PathBuf; 2], String)> {
    let files = [scene.file("a/first", "old"), scene.at("b/second")];
    fs::create_dir(scene.at("b")).unwrap();
    fs::hard_link(&files[0], &files[1]).unwrap();
    let Step::Patch { path, seen, edits, .. } = patch(&files[0], "old", "new") else { panic!() };
    let steps = vec![Step::Patch { path, also: vec![files[1].clone()], seen, edits }];
    let (said, made) =
        applied_until(scene, steps, 1, &files[0], || Immutable::make(&scene.at("b")));
    drop(made?);
    assert_eq!([bytes(&files[0]), bytes(&files[1])], [b"new", b"old"], "{said}");
    Some((files, said))
}

#[test]
fn names_of_one_file_are_one_file_again_though_each_has_its_old_bytes() {
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    let Some((files, said)) = stopped_between_names(&scene) else { return };
    let mode = fs::metadata(&files[1]).unwrap().permissions();
    // As an undoing leaves it that is killed after its first rename.
    fs::remove_file(&files[0]).unwrap();
    fs::write(&files[0], "old").unwrap();
    fs::set_permissions(&files[0], mode).unwrap();
    let inode = |file: &PathBuf| fs::metadata(file).unwrap().ino();
    assert_ne!(inode(&files[0]), inode(&files[1]));
    let [entry] = &scene.entries()[..] else { panic!("{said}") };
    assert_eq!(scene.undo(&entry.id).unwrap().skipped.len(), 0);
    assert_eq!(inode(&files[0]), inode(&files[1]));
    assert_eq!([bytes(&files[0]), bytes(&files[1])], [b"old", b"old"]);
    assert_eq!(litter(&scene.root()), [""; 0]);
    assert_eq!(scene.entries()[0].status, Status::Undone);
}

#[test]
fn a_copy_with_other_permissions_is_not_made_one_file_with_another_name() {
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    let Some((files, said)) = stopped_between_names(&scene) else { return };
    fs::remove_file(&files[0]).unwrap();
    fs::write(&files[0], "old").unwrap();
    run(&["chmod", "600", files[0].to_str().unwrap()]);
    let [entry] = &scene.entries()[..] else { panic!("{said}") };
    let undone = scene.undo(&entry.id).unwrap();
    assert_eq!(undone.skipped[0].path, files[0]);
    assert!(undone.skipped[0].reason.contains("no longer one file"), "{undone:?}");
    assert_eq!(scene.entries()[0].status, Status::PartlyUndone);
}

#[test]
fn of_a_file_with_several_names_the_one_that_stays_changed_is_named() {
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    let Some((files, said)) = stopped_between_names(&scene) else { return };
    let [entry] = &scene.entries()[..] else { panic!("{said}") };
    fs::rename(&files[1], scene.at("elsewhere")).unwrap();
    let undone = scene.undo(&entry.id).unwrap();
    let skipped: Vec<_> = undone.skipped.iter().map(|stays| &stays.path).collect();
    assert!(skipped.contains(&&files[0]) && skipped.contains(&&files[1]), "{undone:?}");
}

#[test]
fn a_link_of_another_that_leads_to_the_old_bytes_is_not_the_file_that_was_changed() {
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    let (files, steps) = patched(&scene, &["theirs/file"]);
    let id = scene.apply(steps).unwrap().id;
    fs::rename(scene.at("theirs"), scene.at("aside")).unwrap();
    scene.file("copy/file", "old");
    std::os::unix::fs::symlink(scene.at("copy"), scene.at("theirs")).unwrap();
    std::os::unix::fs::lchown(scene.at("theirs"), Some(65534), Some(65534)).unwrap();
    let Err(Error::Changed { changed }) = scene.undo(&id) else { panic!() };
    assert_eq!(changed[0].path, files[0]);
    assert!(changed[0].reason.contains("is not followed"), "{}", changed[0].reason);
    assert_eq!(scene.entries()[0].status, Status::Applied);
}

#[test]
fn what_another_replaced_before_it_was_changed_is_not_ours_to_take_back() {
    let scene = EditedFiles::new();
    let (files, steps) = patched(&scene, &["first", "second"]);
    let (said, ()) = applied_until(&scene, steps, 1, &files[0], || replace(&files[1]));
    assert!(said.contains("second: changed while becalm was at work"), "{said}");
    assert!(!said.contains("becalm undo"), "{said}");
    assert_eq!([bytes(&files[0]), bytes(&files[1])], [&b"old"[..], b"theirs"]);
    assert!(scene.entries().is_empty());
    assert_eq!(litter(&scene.root()), [""; 0]);
}

#[test]
fn what_another_replaced_after_it_was_changed_is_named_and_the_rest_taken_back() {
    let scene = EditedFiles::new();
    let (files, steps) = patched(&scene, &["first", "second", "third"]);
    let (said, ()) = applied_until(&scene, steps, 2, &files[1], || {
        replace(&files[1]);
        replace(&files[2]);
    });
    assert!(said.contains("third: changed while becalm was at work; all else is as it was, but "));
    assert!(said.contains("second: has changed since becalm patched it. Once"), "{said}");
    let all = || files.iter().map(bytes).collect::<Vec<_>>();
    assert_eq!(all(), [&b"old"[..], b"theirs", b"theirs"]);
    let id = &scene.entries()[0].id;
    assert_eq!(scene.entries()[0].status, Status::Interrupted);
    // The third was never changed, and the first is another's affair now.
    replace(&files[0]);
    let skipped = scene.undo(id).unwrap().skipped;
    assert_eq!(skipped.iter().map(|stays| &stays.path).collect::<Vec<_>>(), [&files[1]]);
    assert_eq!(scene.entries()[0].status, Status::PartlyUndone);
    assert_eq!(all(), [&b"theirs"[..], b"theirs", b"theirs"]);
    fs::write(&files[1], "old").unwrap();
    assert!(scene.undo(id).unwrap().skipped.is_empty());
    assert_eq!(scene.entries()[0].status, Status::Undone);
}

/// Two files and a link in a directory that is added, killed when the first is changed.
fn killed() -> (EditedFiles, Vec<PathBuf>, String) {
    let scene = EditedFiles::new();
    let (files, mut steps) = patched(&scene, &["first", "second", "third"]);
    steps.push(Step::Directory { path: scene.at("farm"), mode: 0o755 });
    steps.push(Step::Link { path: scene.at("farm/link"), target: "/".into() });
    write_plan(&scene, steps);
    let died = under_strace(&scene, &["-e", "inject=renameat:signal=KILL:when=3"], &["plan"]);
    assert!(!died.status.success());
    let id = scene.entries()[0].id.clone();
    (scene, files, id)
}

#[test]
fn what_is_in_pieces_is_given_back_as_far_as_it_can_be_with_what_the_rest_may_need_left() {
    let (scene, files, id) = killed();
    fs::write(&files[0], "theirs").unwrap();
    let how = UndoOptions { dry_run: true, ..UndoOptions::default() };
    let told = remedy::undo(&id, &scene.options(), how).unwrap();
    let undone = scene.undo(&id).unwrap();
    assert_eq!(undone, told, "a dry run tells the same");
    assert_eq!(undone.restored.patched, 1);
    let skipped: Vec<_> = undone.skipped.iter().map(|stays| stays.path.clone()).collect();
    assert_eq!(skipped, [files[0].clone(), scene.at("farm")]);
    assert!(undone.skipped[1].reason.ends_with("first stays changed and may need it"));
    assert!(scene.at("farm/link").symlink_metadata().is_ok());
    assert_eq!(files.iter().map(bytes).collect::<Vec<_>>(), [&b"theirs"[..], b"old", b"old"]);
    assert_eq!(scene.entries()[0].status, Status::PartlyUndone);
    let how = UndoOptions { skip_changed: true, ..UndoOptions::default() };
    remedy::undo(&id, &scene.options(), how).unwrap();
    assert!(!scene.at("farm").exists());
    assert_eq!(bytes(&files[0]), b"theirs");
}

#[test]
fn an_addition_that_was_taken_back_is_no_part_of_what_is_undone_later() {
    let scene = EditedFiles::new();
    let (files, mut steps) = patched(&scene, &["first", "second", "third"]);
    let id = scene.apply(vec![steps.remove(0)]).unwrap().id;
    write_plan(&scene, steps);
    let is_new = || (bytes(&files[1]) == b"new").then_some(());
    let words = ["--extend", &id, "plan"];
    let failed = stopped_at(&scene, &words, ("renameat", 1), is_new, |()| replace(&files[2]));
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(said.contains("third: changed while becalm was at work"), "{said}");
    assert_eq!(scene.entries()[0].status, Status::Applied);
    assert_eq!(scene.undo(&id).unwrap().restored.patched, 1);
    let all: Vec<_> = files.iter().map(bytes).collect();
    assert_eq!(all, [&b"old"[..], b"old", b"theirs"]);
}

#[test]
fn what_is_applied_as_a_whole_stays_whole_where_one_file_has_changed() {
    let scene = EditedFiles::new();
    let (files, steps) = patched(&scene, &["first", "second"]);
    let id = scene.apply(steps).unwrap().id;
    replace(&files[0]);
    assert!(matches!(scene.undo(&id), Err(Error::Changed { .. })));
    assert_eq!(bytes(&files[1]), b"new");
    assert_eq!(scene.entries()[0].status, Status::Applied);
}

#[test]
fn a_directory_that_is_moved_away_once_all_is_renamed_is_synced_where_it_is() {
    let scene = EditedFiles::new();
    let (files, steps) = patched(&scene, &["sub/file"]);
    write_plan(&scene, steps);
    let is_new = || (bytes(&files[0]) == b"new").then_some(());
    let applied = stopped_at(&scene, &["plan"], ("renameat", 1), is_new, |()| {
        fs::rename(scene.at("sub"), scene.at("moved")).unwrap();
    });
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    assert_eq!(bytes(scene.at("moved/file")), b"new");
    assert_eq!(scene.entries()[0].status, Status::Applied);
}

/// What is done in one directory while another's file is renamed first.
#[track_caller]
fn time_is_kept(others: impl FnOnce(&Path), is_kept: bool) {
    let scene = EditedFiles::new();
    let (files, steps) = patched(&scene, &["a/first", "b/second"]);
    let directory = files[1].parent().unwrap();
    run(&["touch", "-m", "-d", "2001-02-03 04:05:06.123456789", directory.to_str().unwrap()]);
    let before = fs::metadata(directory).unwrap().modified().unwrap();
    write_plan(&scene, steps);
    let is_new = || (bytes(&files[0]) == b"new").then_some(());
    let applied = stopped_at(&scene, &["plan"], ("renameat", 1), is_new, |()| others(directory));
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    assert_eq!(bytes(&files[1]), b"new");
    let after = fs::metadata(directory).unwrap().modified().unwrap();
    assert_eq!(after == before, is_kept, "{before:?} {after:?}");
}

#[test]
fn a_directory_that_somebody_else_changes_meanwhile_keeps_the_time_of_that() {
    time_is_kept(|directory| fs::write(directory.join("theirs"), "").unwrap(), false);
    time_is_kept(|_| (), true);
}

#[test]
fn a_directory_that_could_not_be_opened_once_it_was_made_leaves_no_new_time_above_it() {
    let prepared = || {
        let scene = EditedFiles::new();
        let (_, mut steps) = patched(&scene, &["file"]);
        steps.insert(0, Step::Directory { path: scene.at("new"), mode: 0o755 });
        write_plan(&scene, steps);
        scene
    };
    let scene = prepared();
    assert!(under_strace(&scene, &["-e", "trace=openat"], &["plan"]).status.success());
    let calls = fs::read_to_string(scene.root().join("log")).unwrap().lines().count();
    let mut failed = 0;
    // After the loader's.
    for at in calls.saturating_sub(30)..=calls {
        let scene = prepared();
        let changed = || fs::metadata(scene.at("")).unwrap().modified().unwrap();
        let before = changed();
        let inject = format!("inject=openat:error=EMFILE:when={at}");
        let applied = under_strace(&scene, &["-e", "trace=openat", "-e", &inject], &["plan"]);
        if !applied.status.success() && scene.entries().is_empty() {
            failed += 1;
            assert_eq!(changed(), before, "{at}: {}", String::from_utf8_lossy(&applied.stderr));
        }
    }
    assert!(failed > 3, "{failed}");
}

#[test]
fn what_a_plan_relies_on_is_what_was_seen_when_all_is_written() {
    let scene = EditedFiles::new();
    let (files, mut steps) = patched(&scene, &["file"]);
    let named = scene.file("named", "named");
    let before = scene.picture();
    steps.push(Step::Rely { path: named.clone(), seen: remedy::Seen::of(&named).unwrap() });
    write_plan(&scene, steps.clone());
    // By its name only: who reads the new file changes its access time.
    let is_written = || {
        let mut names = fs::read_dir(scene.at("")).unwrap().map(|entry| entry.unwrap().file_name());
        names.find(|name| name.to_string_lossy().starts_with(".becalm-")).map(drop)
    };
    let failed = stopped_at(&scene, &["plan"], ("utimensat", 1), is_written, |()| replace(&named));
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(said.contains("named: has changed since the plan was made, which names it"), "{said}");
    assert!(!failed.status.success());
    assert_eq!((bytes(&files[0]), litter(&scene.root())), (b"old".to_vec(), Vec::new()));
    assert!(scene.entries().is_empty());
    // Told before anything is written, too.
    let said = scene.apply(steps.clone()).unwrap_err().to_string();
    assert!(said.contains("named: has changed since the plan was made"), "{said}");
    fs::write(&named, "named").unwrap();
    steps[1] = Step::Rely { path: named.clone(), seen: remedy::Seen::of(&named).unwrap() };
    let id = scene.apply(steps).unwrap().id;
    assert_eq!(bytes(&files[0]), b"new");
    scene.undo(&id).unwrap();
    assert_eq!(scene.picture().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

/// A filesystem without nanoseconds, mounted until it is dropped.
struct WholeSeconds(PathBuf);

impl WholeSeconds {
    fn mount(scene: &EditedFiles) -> Option<WholeSeconds> {
        let (image, place) = (scene.root().join("image"), scene.root().join("disk"));
        fs::create_dir(&place).unwrap();
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        run(&["mkfs.ext4", "-q", "-I", "128", image.to_str().unwrap()]);
        let words = ["mount", "-o", "loop", image.to_str().unwrap(), place.to_str().unwrap()];
        output(&words).status.success().then_some(WholeSeconds(place))
    }
}

impl Drop for WholeSeconds {
    fn drop(&mut self) {
        run(&["umount", self.0.to_str().unwrap()]);
    }
}

#[test]
fn a_change_within_the_second_in_which_a_file_was_read_is_seen_where_times_have_no_nanoseconds() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    let Some(disk) = WholeSeconds::mount(&scene) else { return };
    let file = disk.0.join("file");
    fs::write(&file, "old text").unwrap();
    let seen = fs::metadata(&file).unwrap();
    assert_eq!((seen.ctime_nsec(), seen.mtime_nsec()), (0, 0));
    let link = Step::Link { path: disk.0.join("link"), target: "/".into() };
    write_plan(&scene, vec![link, patch(&file, "old", "new")]);
    let is_linked = || disk.0.join("link").symlink_metadata().ok();
    let failed = stopped_at(&scene, &["plan"], ("renameat2", 1), is_linked, |_| {
        fs::File::options().write(true).open(&file).unwrap().write_at(b"old TEXT", 0).unwrap();
    });
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(said.contains("file: changed while becalm was at work"), "{said}");
    assert_eq!(bytes(&file), b"old TEXT");
    assert_eq!(litter(&disk.0), [""; 0]);
}

/// What has the file's name would not get what is written to the old one.
#[test]
fn what_is_open_for_writing_is_refused_until_it_is_closed() {
    let scene = EditedFiles::new();
    let (file, other) = (scene.file("file", "old"), scene.file("other", "old"));
    let steps = || vec![patch(&file, "old", "new"), patch(&other, "old", "new")];
    let open = fs::File::options().append(true).open(&file).unwrap();
    let [obstacle] = &remedy::obstacles(&plan(steps()), &scene.options())[..] else {
        panic!("one of two")
    };
    assert!(obstacle.error.to_string().contains("file: is being written"), "{obstacle:?}");
    let said = scene.apply(steps()).unwrap_err().to_string();
    assert!(said.contains("file: is being written"), "{said}");
    assert_eq!([bytes(&file), bytes(&other)], [b"old", b"old"]);
    drop(open);
    scene.apply(steps()).unwrap();
    assert_eq!([bytes(&file), bytes(&other)], [b"new", b"new"]);
}
