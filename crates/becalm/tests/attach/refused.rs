//! Who cannot be attached to, and what is said then.

use std::process::Command;

use testkit::live::wait_until;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Live, Scene, run};

use crate::{attach, attached, is_free, refusal};

fn refused(words: &[&str]) -> String {
    refusal(&run(&mut attach(&Scene::new(), words)))
}

#[test]
fn nobody_and_becalms_own_ancestors_and_the_first_process_are_refused() {
    assert!(refused(&["2147483647"]).contains("there is none of this number"));
    assert!(refused(&[&std::process::id().to_string()]).contains("becalm itself is below it"));
    assert!(refused(&["1"]).contains("the first one of the machine"));
}

#[test]
fn a_zombie_and_a_thread_are_refused() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id() as i32;
    wait_until("it has ended", || crate::status(pid, "State").starts_with('Z'));
    assert!(refused(&[&pid.to_string()]).contains("it has ended"));
    child.wait().unwrap();

    let mut waits = Live::start(&mut Command::new(testkit::trap("waits")));
    waits.wait_for("waiting");
    let pid = waits.pid();
    let thread = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().find_map(|entry| {
        let tid = entry.ok()?.file_name().to_str()?.parse::<i32>().ok()?;
        (tid != pid).then_some(tid)
    });
    let said = refused(&[&thread.unwrap().to_string()]);
    assert!(said.contains(&format!("it is a thread; attach to its process, {pid}")), "{said}");
    assert_eq!(waits.end().code(), 0);
}

#[test]
fn one_that_is_watched_already_is_refused_by_the_name_of_who_does_and_none_else_is_watched() {
    let scene = Scene::new();
    let cat = Live::start(&mut Command::new("cat"));
    let other = Live::start(&mut Command::new("cat"));
    let (pid, other_pid) = (cat.pid().to_string(), other.pid().to_string());
    let watching = Live::start(&mut attach(&scene, &["--until", "2", &pid]));
    wait_until("it is watched", || !is_free(cat.pid()));
    let said = refused(&["-o", "kept.becalm", &other_pid, &pid]);
    assert!(said.contains("(cat): it is traced by process") && said.contains("(becalm)"), "{said}");
    wait_until("the other one is free", || is_free(other.pid()));
    assert_eq!(watching.end().code(), 0);
    assert_eq!((cat.end().code(), other.end().code()), (0, 0));
}

#[test]
fn a_refusal_leaves_no_file_and_keeps_one_that_is_there() {
    let scene = Scene::new();
    let cat = Live::start(&mut Command::new("cat"));
    let pid = cat.pid().to_string();
    let kept = scene.at("kept.becalm");
    run(&mut attach(&scene, &["-o", &kept, "2147483647"]));
    assert!(!std::fs::exists(&kept).unwrap());
    assert_eq!(run(&mut attach(&scene, &["-o", &kept, "--until", "0.1", &pid])).code(), 0);
    let before = std::fs::read(&kept).unwrap();
    run(&mut attach(&scene, &["-o", &kept, "2147483647"]));
    assert_eq!(std::fs::read(&kept).unwrap(), before);
    assert_eq!(cat.end().code(), 0);
}

#[test]
fn a_user_attaches_to_his_own_and_is_refused_another_ones() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let becalm = scene.at("becalm");
    let his = Live::start(&mut as_a_user(&["cat"]));
    wait_until("it runs", || crate::status(his.pid(), "Name") == "cat");
    let by_him = |pid: i32| {
        let words = [&becalm, "attach", "--json", "--until", "0.2", &pid.to_string()];
        let mut command = as_a_user(&words);
        run(command.env("XDG_STATE_HOME", scene.at("state")).current_dir(scene.directory()))
    };
    let ran = by_him(his.pid());
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let roots = Live::start(&mut Command::new("cat"));
    let said = refusal(&by_him(roots.pid()));
    assert!(said.contains("it runs as user 0 and becalm as user 65534"), "{said}");
    // Root may.
    attached(&scene, his.pid(), "0.2");
    assert_eq!((his.end().code(), roots.end().code()), (0, 0));
}
