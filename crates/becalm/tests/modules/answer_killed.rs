//! What is killed while an answer is given for the first time: the answer is Modules' all the same.

use std::fs;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::answer::{Asking, seen, settle, tree};
use crate::scene::all;

/// Who follows a process, once somebody does.
pub fn tracer(child: &mut Child) -> Option<Pid> {
    let status = format!("/proc/{}/status", child.id());
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        match line.and_then(|number| number.trim().parse().ok()).and_then(Pid::from_raw) {
            None => std::thread::yield_now(),
            tracer => return tracer,
        }
    }
    None
}

fn begun(asking: &Asking, words: &[&str]) -> Child {
    let mut command = asking.becalm(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn whenever_the_tracer_is_killed_modules_answers_on() {
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
            if let Some(tracer) = tracer(&mut child) {
                std::thread::sleep(Duration::from_millis(millis));
                killed += u32::from(kill_process(tracer, Signal::KILL).is_ok());
            }
            assert_eq!(seen(&child.wait_with_output().unwrap()), real, "{millis} ms");
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
