//! A disk that is full or broken, at every system call: all is applied, or nothing is.

use std::fs;
use std::process::Command;

use crate::moments::*;
use crate::scene::*;

/// Applied as a whole or not at all, and told which.
#[track_caller]
fn all_or_nothing(error: &str) {
    let untouched = portrait(&scene_with_plan());
    let applied = scene_with_plan();
    let plan = remedy::Plan::read(&applied.root().join("plan")).unwrap();
    remedy::apply(&plan, &applied.options()).unwrap();
    let applied = portrait(&applied);
    let what = format!("error={error}");
    let moments = at_each(&what, scene_with_plan, &apply_words, |scene, moment, output| {
        let said = String::from_utf8_lossy(&output.stderr);
        if portrait(scene) == applied {
            // The message itself may be what could not be written.
            assert!(output.status.success() || moment.contains("write number"), "{moment}: {said}");
        } else {
            assert_eq!(portrait(scene), untouched, "{moment}: {said}");
            assert!(!output.status.success(), "{moment}");
            assert!(scene.entries().is_empty(), "{moment}: {said}");
        }
    });
    assert!(moments > 100, "{moments}");
}

#[test]
fn an_error_of_the_disk_at_any_system_call_leaves_all_old_or_all_new() {
    all_or_nothing("EIO");
}

#[test]
fn a_full_disk_at_any_system_call_leaves_all_old_or_all_new() {
    all_or_nothing("ENOSPC");
}

/// A tmpfs of its own in a mount namespace, for a command of bash in it.
fn in_a_small_disk(scene: &Scene, script: &str) -> String {
    let disk = scene.root().join("disk");
    fs::create_dir(&disk).unwrap();
    let script =
        format!("set -e; mount -t tmpfs -o size=1m none {0}; cd {0}; {script}", disk.display());
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "bash", "-c", &script])
        .env("XDG_STATE_HOME", scene.state_home())
        .env("APPLY", apply_program())
        .output()
        .expect("unshare: setup/install-test-tools");
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A plan that patches `file` in the working directory: it is made there, of what is there.
const PLAN: &str = r#"
printf 'old%.0s' {1..200000} > file
stat=$(stat -c '"size":%s,"inode":%i' file)
cat > plan <<END
{"schema":"becalm.plan/1","title":"t","steps":[{"do":"patch","path":"$PWD/file",
"seen":{$stat,"mtime_ns":0,"ctime_ns":0,"digest":"$(sha256sum file | cut -d' ' -f1)"},
"edits":[{"offset":0,"old":"old","new":"new"}]}]}
END
"#;

#[test]
fn a_disk_without_room_for_a_second_copy_is_refused_before_anything_is_written() {
    let scene = Scene::new();
    let said = in_a_small_disk(&scene, &format!("{PLAN} $APPLY plan || head -c 3 file; ls -A"));
    assert!(said.contains("its filesystem lacks room: "), "{said}");
    assert!(said.contains("oldfile\nplan\n"), "{said}");
}

#[test]
fn a_disk_for_the_state_that_is_full_is_refused_as_well() {
    let scene = Scene::new();
    let fill = "export XDG_STATE_HOME=$PWD/state; head -c 2M /dev/zero > fill || true";
    let there = scene.file("f/file", "");
    let directory = there.parent().unwrap().display().to_string();
    let script = format!(
        "cd {directory}; {PLAN} cd - >/dev/null; {fill}; $APPLY {directory}/plan || head -c 3 {directory}/file"
    );
    let said = in_a_small_disk(&scene, &script);
    assert!(said.starts_with("old"), "{said}");
    assert!(said.contains("write the journal: No space left on device"), "{said}");
    assert_eq!(litter(&scene.root()), [""; 0]);
}
