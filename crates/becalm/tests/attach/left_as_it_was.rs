//! Whoever is attached to goes on as it would.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use testkit::live::wait_until;
use testkit::terminal::Terminal;
use testkit::{Live, Scene, run, trap};

use crate::{attach, attached, is_free, status};

fn start(words: &[&str]) -> Live {
    Live::start(Command::new(words[0]).args(&words[1..]))
}

/// Lets a test send a signal to a process of its own.
fn kill(pid: i32, signal: i32) {
    // SAFETY: kill has no preconditions; the process is the test's.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn calls_that_threads_wait_in_restart_and_none_sees_that_it_was_stopped() {
    let scene = Scene::new();
    let mut waits = start(&[&trap("waits")]);
    waits.wait_for("waiting");
    let pid = waits.pid();
    let answer = attached(&scene, pid, "0.5");
    assert_eq!(answer["left"], 1, "{answer}");
    wait_until("all are left", || is_free(pid));
    assert_eq!(status(pid, "Seccomp"), "0");
    // And once more: who is woken at the letting go would have failed by now.
    attached(&scene, pid, "0.2");
    let ran = waits.end();
    assert_eq!((ran.code(), ran.out().as_str()), (0, "done\n"), "{}", ran.err());
}

#[test]
fn a_stopped_process_stays_stopped_and_goes_on_when_it_is_told_to() {
    let scene = Scene::new();
    let mut shell = start(&["bash", "-c", "echo here; read; echo over"]);
    shell.wait_for("here");
    let pid = shell.pid();
    kill(pid, libc::SIGSTOP);
    wait_until("it is stopped", || status(pid, "State").starts_with('T'));
    attached(&scene, pid, "0.3");
    wait_until("it is left", || is_free(pid));
    wait_until("it is stopped again", || status(pid, "State").starts_with('T'));
    // While it is watched it can be told to go on, and be stopped again.
    let watching = Live::start(&mut attach(&scene, &["--until", "1", &pid.to_string()]));
    wait_until("it is watched", || !is_free(pid));
    kill(pid, libc::SIGCONT);
    wait_until("it goes on", || status(pid, "State").starts_with('S'));
    kill(pid, libc::SIGSTOP);
    assert_eq!(watching.end().code(), 0);
    wait_until("it is left", || is_free(pid));
    wait_until("it is stopped", || status(pid, "State").starts_with('T'));
    kill(pid, libc::SIGCONT);
    let ran = shell.end();
    assert_eq!((ran.code(), ran.out().as_str()), (0, "over\n"));
}

#[test]
fn a_shell_on_a_terminal_keeps_its_job_control_while_it_is_watched_and_after() {
    let scene = Scene::new();
    let script = scene.file("talk.sh", "while read line; do echo read $line; done\n", 0o644);
    let mut terminal = Terminal::bash();
    terminal.send("echo pid $$ .\n");
    terminal.expect("pid ");
    let pid: i32 = terminal.expect(" .").parse().unwrap();
    let mut watching = Live::start(&mut attach(&scene, &["--json", &pid.to_string()]));
    wait_until("it is watched", || !is_free(pid));
    terminal.expect("ready: ");
    terminal.send(&format!("bash {script}\n"));
    terminal.stop_and_resume(&["one", "two"]);
    kill(watching.pid(), libc::SIGINT);
    let answer = testkit::answer::parse({
        let mut text = watching.line();
        while !text.ends_with('}') || serde_json::from_str::<serde_json::Value>(&text).is_err() {
            text.push_str(&watching.line());
        }
        text
    });
    assert_eq!(answer["end"], "asked", "{answer}");
    wait_until("it is left", || is_free(pid));
    terminal.stop_and_resume(&["three"]);
    terminal.send("\x04");
    terminal.sees_status(0);
}

#[test]
fn a_tree_whose_watcher_is_killed_runs_on_unharmed() {
    let scene = Scene::new();
    let script = "for i in $(seq 300); do /bin/echo $i; done; echo over";
    let shell = start(&["bash", "-c", &format!("read -t 0.3; {script}; sleep 1 & wait")]);
    let pid = shell.pid();
    let mut watching = Live::start(&mut attach(&scene, &[&pid.to_string()]));
    wait_until("it is watched", || !is_free(pid));
    sleep(Duration::from_millis(500));
    watching.child.kill().unwrap();
    watching.child.wait().unwrap();
    wait_until("it is left", || is_free(pid));
    let ran = shell.end();
    let lines: Vec<String> = (1..=300).map(|i| i.to_string()).chain(["over".into()]).collect();
    assert_eq!((ran.code(), ran.out()), (0, lines.join("\n") + "\n"), "{}", ran.err());
}

#[test]
fn children_that_are_born_as_it_attaches_are_neither_lost_nor_traced_afterwards() {
    let scene = Scene::new();
    // Short-lived children, some hundred in a second, from two processes.
    let child = "n=0; while [ $n -lt 400 ]; do n=$((n+1)); /bin/true || exit 9; done; echo $n";
    let shell = start(&["bash", "-c", &format!("({child}) & {child}; wait")]);
    let pid = shell.pid();
    let begin = Instant::now();
    let mut watched = 0;
    while begin.elapsed() < Duration::from_secs(20)
        && proc::ProcessStat::of(pid).is_some_and(|stat| stat.state() != b'Z')
    {
        let ran = run(&mut attach(&scene, &["--json", "--until", "0.1", &pid.to_string()]));
        // It may have ended meanwhile.
        watched += usize::from(ran.code() == 0);
    }
    let ran = shell.end();
    assert_eq!((ran.code(), ran.out().as_str()), (0, "400\n400\n"), "{}", ran.err());
    assert!(watched > 1, "{watched}");
}

#[test]
fn a_process_that_ends_while_it_is_watched_ends_with_its_own_status() {
    let scene = Scene::new();
    let shell = start(&["bash", "-c", "sleep 0.5; exit 7"]);
    let answer = attached(&scene, shell.pid(), "60");
    assert!(answer["left"] == 0 && answer["end"] == "all_ended", "{answer}");
    assert_eq!(shell.end().code(), 7);
}
