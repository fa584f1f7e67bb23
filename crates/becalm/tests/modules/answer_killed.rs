//! What is killed while an answer is given for the first time: the answer is Modules' all the same.

use std::fs;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use crate::answer::{Asking, seen, settle, tree};
use crate::scene::all;

/// The processes that a process has started.
pub fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether a process has ended, waited for or not.
pub fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" Z"))
}

fn begun(asking: &Asking, words: &[&str]) -> Child {
    let mut command = asking.becalm(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn who_kills_becalm_has_killed_modules_and_nothing_is_half_said() {
    for modules in &all() {
        let scene = tree();
        settle();
        let asking = Asking::new(&scene, modules);
        let words = &["autoinit"];
        let real = seen(&asking.real(words).output().unwrap());
        let mut killed = 0;
        for millis in 0..24 {
            let _ = fs::remove_dir_all(scene.at("state"));
            let mut child = begun(&asking, words);
            std::thread::sleep(Duration::from_millis(millis));
            let followed = children(child.id());
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            killed += u32::from(!followed.is_empty() && !output.status.success());
            // It may be killed once it has said all of one.
            let said = seen(&output);
            for (said, real) in [(&said.1, &real.1), (&said.2, &real.2)] {
                assert!(said == real || said.is_empty(), "{millis} ms: {said:?}");
            }
            for pid in followed {
                let what = "what becalm follows has ended with it";
                testkit::live::wait_until(what, || has_ended(pid));
            }
        }
        assert!(killed > 0);
        asking.agree(words);
        asking.agree(words);
        asking.is_remembered(words);
    }
}

#[test]
fn of_six_at_once_some_killed_each_other_is_answered_and_the_memory_is_whole() {
    for modules in &all() {
        let scene = tree();
        settle();
        let asking = Asking::new(&scene, modules);
        let words = &["whatis"];
        let real = seen(&asking.real(words).output().unwrap());
        for round in 0..4 {
            let mut children: Vec<Child> = (0..6).map(|_| begun(&asking, words)).collect();
            std::thread::sleep(Duration::from_millis(5 * round));
            children.iter_mut().step_by(3).for_each(|child| child.kill().unwrap());
            let ended: Vec<Output> =
                children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
            for (at, output) in ended.iter().enumerate() {
                // Who was killed may have been done.
                if at % 3 != 0 || output.status.success() {
                    assert_eq!(seen(output), real, "{at} of round {round}");
                }
            }
        }
        asking.agree(words);
        asking.is_remembered(words);
    }
}
