//! A machine without room for anything: temporary directories are full or not there, the rest
//! cannot be written to, and the user has no home. Commands run all the same.

use std::process::Command;

use testkit::user::{is_root, scene_for_a_user};
use testkit::{Ran, Scene, run};

/// Temporary directories in which no file can be made, or that are gone.
const FULL: &str = "for place in /tmp /var/tmp /dev/shm; do \
                    mount -t tmpfs -o size=4k,nr_inodes=1 full $place || exit 99; done";
const GONE: &str = "mkdir -p /mnt/none && for place in /tmp /var/tmp /dev/shm; do \
                    mount --bind -o ro /mnt/none $place || exit 99; done";

/// Runs words where there is no room: the scene is the only directory that can be written to, and
/// is found at `/mnt`. The mounts are in a namespace of their own, and go with it.
fn without_room(scene: &Scene, room: &str, user: &[&str], words: &[&str]) -> Ran {
    let script = format!(
        "mount --bind {} /mnt || exit 99; {room}; mount -o remount,bind,ro / || exit 99; \
         cd /mnt && exec env -u HOME -u TMPDIR -u XDG_RUNTIME_DIR XDG_STATE_HOME=/proc/none \"$@\"",
        scene.directory().display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).args(user).args(words);
    run(&mut command)
}

const NOBODY: &[&str] = &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];

#[test]
fn where_there_is_no_room_for_anything_a_command_runs_and_its_status_passes() {
    if !is_root() {
        return;
    }
    let verbs: &[&[&str]] = &[
        &["check"],
        &["check", "--json"],
        &["record", "-o", "rec"],
        &["record", "-o", "/dev/null"],
        &["fork", "lines"],
        &["python", "scan"],
        &["lab", "profile"],
        &["run", "--aslr", "off"],
    ];
    for room in [FULL, GONE] {
        for user in [&[][..], NOBODY] {
            let (scene, _) = scene_for_a_user(&[]);
            for verb in verbs {
                let command = ["--", "sh", "-c", "echo ran; exit 7"];
                let words = [&["/mnt/becalm"], *verb, &command].concat();
                let ran = without_room(&scene, room, user, &words);
                assert_eq!(ran.code(), 7, "{user:?} {verb:?}: {}\n{}", ran.out(), ran.err());
                let said = ran.out() + &ran.err();
                assert!(said.lines().any(|line| line == "ran"), "{verb:?}: {said}");
            }
            let same =
                ["/mnt/becalm", "prove", "--runs", "5", "--before", "true", "--after", "true"];
            let proven = without_room(&scene, room, user, &same);
            assert_eq!(proven.code(), 1, "{user:?}: {}", proven.err());
            let fixed = without_room(&scene, room, user, &["/mnt/becalm", "fix", "--", "true"]);
            assert_eq!(fixed.code(), 1, "{user:?}: {}", fixed.err());
            // One queue is of all clients of the node: without it the times would be wrong.
            let slowed = ["/mnt/becalm", "rehearse", "--profile", "nfs", "--by", "tracer", "/mnt"];
            let slowed = [&slowed[..], &["--", "sh", "-c", "echo ran"]].concat();
            let refused = without_room(&scene, room, user, &slowed);
            assert_eq!((refused.code(), refused.out()), (125, String::new()), "{}", refused.err());
            assert!(refused.err().starts_with("becalm: /dev/shm/"), "{}", refused.err());
            assert!(refused.err().contains("; it needs "), "{}", refused.err());
        }
    }
}

#[test]
fn the_report_is_of_the_whole_run_where_there_is_no_room_for_a_recording() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let loop_of = "for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done";
    let check = ["/mnt/becalm", "check", "--json", "--", "sh", "-c", loop_of];
    // No state, none that can be written, and one on a full disk.
    for state in ["-uXDG_STATE_HOME", "XDG_STATE_HOME=/proc/none", "XDG_STATE_HOME=/tmp"] {
        let words = [&["env", state], &check[..]].concat();
        let ran = without_room(&scene, FULL, NOBODY, &words);
        let answer: serde_json::Value = serde_json::from_str(&ran.out()).unwrap();
        assert_eq!(answer["totals"]["processes"], 10, "{state}: {}", ran.err());
        let warnings = answer["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), 1, "{state}: {warnings:?}");
        assert_eq!(warnings[0]["kind"], "not_kept", "{state}");
    }
}
