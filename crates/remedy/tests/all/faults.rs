//! A disk that is full or broken, at every system call: all is applied, or nothing is.

use std::fs;
use std::process::Command;

use crate::moments::*;
use crate::scene::*;

/// Applied as a whole or not at all, and told which.
#[track_caller]
fn all_or_nothing(error: &str, words: fn(&EditedFiles) -> Vec<String>) {
    let untouched = portrait(&scene_with_plan());
    let applied = scene_with_plan();
    let plan = remedy::Plan::read(&applied.root().join("plan")).unwrap();
    remedy::apply(&plan, &applied.options()).unwrap();
    let applied = portrait(&applied);
    let what = format!("error={error}");
    let moments = at_each(&what, scene_with_plan, &words, |scene, moment, output| {
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
    all_or_nothing("EIO", apply_words);
}

#[test]
fn an_error_leaves_files_that_were_read_before_all_old_or_all_new() {
    all_or_nothing("EIO", read_words);
}

#[test]
fn a_full_disk_at_any_system_call_leaves_all_old_or_all_new() {
    all_or_nothing("ENOSPC", apply_words);
}

/// A tmpfs of its own in a mount namespace, for a command of bash in it.
fn in_a_small_disk(scene: &EditedFiles, script: &str) -> String {
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

/// A plan that patches files in the working directory: they are made there, of what is there.
fn plan_for(files: &str, repeated: usize) -> String {
    let script = r#"
steps=
for file in FILES; do
printf 'old%.0s' {1..REPEATED} > $file
stat=$(stat -c '"size":%s,"inode":%i' $file)
steps+="${steps:+,}{\"do\":\"patch\",\"path\":\"$PWD/$file\",
\"seen\":{$stat,\"mtime_ns\":0,\"ctime_ns\":0,\"digest\":\"$(sha256sum $file | cut -d' ' -f1)\"},
\"edits\":[{\"offset\":0,\"old\":\"old\",\"new\":\"new\"}]}"
done
echo "{\"schema\":\"becalm.plan/1\",\"title\":\"t\",\"steps\":[$steps]}" > plan
"#;
    script.replace("FILES", files).replace("REPEATED", &repeated.to_string())
}

#[test]
fn a_disk_without_room_for_a_second_copy_is_refused_before_anything_is_written() {
    let (scene, plan) = (EditedFiles::new(), plan_for("file", 200_000));
    let said = in_a_small_disk(&scene, &format!("{plan} $APPLY plan || head -c 3 file; ls -A"));
    assert!(said.contains("its filesystem lacks room: "), "{said}");
    assert!(said.contains("oldfile\nplan\n"), "{said}");
}

#[test]
fn a_disk_that_has_filled_since_is_named_once_and_all_is_taken_back_when_it_has_room() {
    let scene = EditedFiles::new();
    let plan = plan_for("file other", 20_000);
    let script = format!(
        "{plan} $APPLY plan > said; head -c 2M /dev/zero > fill || true; id=$(head -1 said); \
         $APPLY --undo $id || rm fill; head -c 3 file other; $APPLY --undo $id; head -c 3 file other"
    );
    let said = in_a_small_disk(&scene, &script);
    assert_eq!(said.matches("its filesystem lacks room: ").count(), 1, "{said}");
    assert!(!said.contains("cannot be taken back"), "{said}");
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text}: {said}"));
    assert!(at("==> file <==\nnew") < at("undid ") && at("undid ") < at("==> file <==\nold"));
    assert!(said.contains("==> other <==\nnew") && said.contains("==> other <==\nold"), "{said}");
}

#[test]
fn a_disk_for_the_state_that_is_full_is_refused_as_well() {
    let scene = EditedFiles::new();
    let fill = "export XDG_STATE_HOME=$PWD/state; head -c 2M /dev/zero > fill || true";
    let there = scene.file("f/file", "");
    let directory = there.parent().unwrap().display().to_string();
    let plan = plan_for("file", 200_000);
    let script = format!(
        "cd {directory}; {plan} cd - >/dev/null; {fill}; $APPLY {directory}/plan || head -c 3 {directory}/file"
    );
    let said = in_a_small_disk(&scene, &script);
    assert!(said.starts_with("old"), "{said}");
    assert!(said.contains("write the journal: No space left on device"), "{said}");
    assert_eq!(litter(&scene.root()), [""; 0]);
}
