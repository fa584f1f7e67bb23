//! Files that were read, and directories that are held open, before a plan is applied: what has become of
//! them meanwhile is noticed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

use remedy::{Applied, CheckedFiles, Error, Options, Step};

use crate::scene::*;

/// Looks at a file as those do who plan.
fn look(checked: &CheckedFiles, path: &Path) {
    let file = File::open(path).unwrap();
    checked.look(path, &file, &file.metadata().unwrap());
}

/// Applies a step to a file that was read and checked before something happens to it.
fn applied_after(
    scene: &EditedFiles,
    step: Step,
    happens: impl FnOnce(),
) -> Result<Applied, Error> {
    let checked = CheckedFiles::default();
    let Step::Patch { path, .. } = &step else { panic!("patches nothing") };
    look(&checked, path);
    let plan = plan(vec![step]);
    let options = Options { checked: Some(&checked), ..scene.options() };
    assert!(remedy::obstacles(&plan, &options).is_empty());
    happens();
    remedy::apply(&plan, &options)
}

#[test]
fn a_file_that_was_read_before_is_patched_and_undone_as_any_other() {
    let scene = EditedFiles::new();
    let file = scene.file("sub/file", "old text");
    let before = scene.picture();
    let id = applied_after(&scene, patch(&file, "old", "new"), || {}).unwrap().id;
    assert_eq!(bytes(&file), b"new text");
    scene.undo(&id).unwrap();
    scene.is_as(&before);
}

#[test]
fn a_file_that_grows_at_its_end_is_written_whole() {
    let scene = EditedFiles::new();
    let file = scene.file("file", "old");
    let before = scene.picture();
    let id = applied_after(&scene, patch(&file, "old", "new and longer"), || {}).unwrap().id;
    assert_eq!(bytes(&file), b"new and longer");
    scene.undo(&id).unwrap();
    scene.is_as(&before);
}

#[test]
fn a_file_that_has_changed_since_it_was_read_stays_as_it_is() {
    let scene = EditedFiles::new();
    let file = scene.file("file", "old text");
    let said = applied_after(&scene, patch(&file, "old", "new"), || {
        let_time_tick();
        let open = File::options().write(true).open(&file).unwrap();
        open.write_all_at(b"old TEXT", 0).unwrap();
    });
    assert!(said.unwrap_err().to_string().contains("changed while becalm was at work"));
    assert_eq!(bytes(&file), b"old TEXT");
    assert_eq!(litter(&scene.root()), [""; 0]);
    assert!(scene.entries().is_empty());
}

#[test]
fn nothing_is_written_in_a_directory_that_was_moved_away_since_it_was_looked_at() {
    let scene = EditedFiles::new();
    let file = scene.file("sub/file", "old text");
    let said = applied_after(&scene, patch(&file, "old", "new"), || {
        fs::rename(scene.at("sub"), scene.at("moved")).unwrap();
        scene.file("sub/file", "old text of others");
    });
    assert!(said.unwrap_err().to_string().contains("changed while becalm was at work"));
    assert_eq!(bytes(&file), b"old text of others");
    assert_eq!(bytes(scene.at("moved/file")), b"old text");
    assert_eq!(litter(&scene.root()), [""; 0]);
}

/// Does something in a thread that is told of nobody who writes to a file of others, as on a filesystem without
/// leases.
fn without_leases(does: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective.remove(rustix::thread::CapabilitySet::LEASE);
        rustix::thread::set_capabilities(None, sets).unwrap();
        does();
    });
    thread.join().unwrap();
}

/// Whoever has a file mapped, and has written to a page of it before, writes to that without a sign.
#[test]
fn what_is_written_without_a_sign_after_it_was_read_is_not_lost() {
    if is_root() {
        without_leases(written_without_a_sign);
    }
}

fn written_without_a_sign() {
    const MAPS: &str = "import mmap, sys
file = open(sys.argv[1], 'r+b')
mapped = mmap.mmap(file.fileno(), 0)
mapped[0:3] = b'old'
print('mapped', flush=True)
sys.stdin.readline()
mapped[4:8] = b'TEXT'
print('written', flush=True)
sys.stdin.readline()
";
    let scene = EditedFiles::new();
    let file = scene.file("file", "old text");
    std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", MAPS]).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    let mut said = BufReader::new(python.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "mapped");
    let before = fs::metadata(&file).unwrap();
    applied_after(&scene, patch(&file, "old", "new"), || {
        python.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        assert_eq!(said.next().unwrap().unwrap(), "written");
        let after = fs::metadata(&file).unwrap();
        assert_eq!((after.ctime(), after.ctime_nsec()), (before.ctime(), before.ctime_nsec()));
    })
    .unwrap();
    assert_eq!(bytes(&file), b"new TEXT");
    scene.undo(&scene.entries()[0].id).unwrap();
    assert_eq!(bytes(&file), b"old TEXT");
    drop(python.stdin.take());
    python.wait().unwrap();
}

#[test]
fn more_directories_than_a_process_may_open_are_changed_as_well() {
    let scene = EditedFiles::new();
    let files: Vec<_> = (0..40).map(|number| scene.file(format!("{number}/file"), "old")).collect();
    let before = scene.picture();
    let steps = files.iter().map(|file| patch(file, "old", "new")).collect();
    plan(steps).write(&mut File::create(scene.root().join("plan")).unwrap()).unwrap();
    let applied = Command::new("sh")
        .args(["-c", "ulimit -n 32; exec \"$0\" --read plan"])
        .arg(apply_program())
        .current_dir(scene.root())
        .env("XDG_STATE_HOME", scene.state_home())
        .output()
        .unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    assert!(files.iter().all(|file| bytes(file) == b"new"));
    scene.undo(&scene.entries()[0].id).unwrap();
    scene.is_as(&before);
}
