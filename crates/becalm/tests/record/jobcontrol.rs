//! becalm as a job of an interactive shell, on a real terminal.

use std::time::Duration;

use testkit::live::{Live, comes_true_within, wait_until};
use testkit::terminal::Terminal;
use testkit::{Scene, trap};

/// The shell's line that runs words under becalm.
fn record_line(scene: &Scene, words: &[&str]) -> String {
    let command = scene.record(words);
    let mut line = command.get_program().to_str().unwrap().to_owned();
    for word in command.get_args() {
        line += &format!(" '{}'", word.to_str().unwrap());
    }
    line + "\n"
}

/// A command that answers each line, and ends with status 7 at the line `end`. Its answer
/// proves that it runs in the foreground: keys pressed before could be the shell's.
const ANSWERS: [&str; 3] =
    ["sh", "-c", "while read line; do echo \"read $line\"; test \"$line\" != end || exit 7; done"];

#[test]
fn control_z_stops_the_job_and_fg_resumes_it() {
    let scene = Scene::new();
    let mut terminal = Terminal::bash();
    terminal.send(&record_line(&scene, &ANSWERS));
    terminal.stop_and_resume(&["one", "two", "three"]);
    terminal.end_with("end", "read end", 7);
    assert!(scene.shows_a_whole_recording());
}

#[test]
fn a_program_that_tidies_up_on_control_z_gets_to_do_so() {
    let scene = Scene::new();
    let mut terminal = Terminal::bash();
    terminal.send(&record_line(&scene, &[&trap("full_screen")]));
    terminal.expect("[drawn]");
    for _ in 0..3 {
        terminal.send("\x1a");
        let before = terminal.expect("Stopped");
        assert!(before.contains("[tidied]"), "{before}");
        terminal.expect("ready: ");
        terminal.send("fg\n");
        terminal.expect("[drawn again]");
    }
    terminal.send("q\n");
    terminal.sees_status(11);
}

#[test]
fn a_command_that_stops_itself_is_a_stopped_job() {
    let scene = Scene::new();
    let mut terminal = Terminal::bash();
    terminal.send(&record_line(&scene, &[&trap("self_stop")]));
    terminal.expect("Stopped");
    terminal.expect("ready: ");
    terminal.send("fg\n");
    terminal.expect("[goes on]");
    terminal.sees_status(12);
}

#[test]
fn a_background_job_that_reads_is_stopped_until_it_is_in_the_foreground() {
    let scene = Scene::new();
    let mut terminal = Terminal::bash();
    let line = record_line(&scene, &ANSWERS);
    terminal.send(&format!("{} &\n", line.trim_end()));
    terminal.expect("ready: ");
    terminal.send("while ! jobs | grep -q Stopped; do sleep 0.05; done; echo is stopped\n");
    terminal.expect("is stopped");
    terminal.expect("ready: ");
    terminal.send("fg\n");
    terminal.end_with("end", "read end", 7);
}

#[test]
fn an_interactive_shell_under_becalm_has_job_control() {
    let scene = Scene::new();
    let mut terminal = Terminal::bash();
    let inner = ["bash", "--norc", "--noprofile", "--noediting", "-i"];
    terminal.send(&format!("PS1='inner: ' {}", record_line(&scene, &inner)));
    terminal.expect("inner: ");
    terminal.send(&format!("{} -c '{}'\n", ANSWERS[0], ANSWERS[2]));
    terminal.send("one\n");
    terminal.expect("read one");
    terminal.send("\x1a");
    terminal.expect("Stopped");
    terminal.expect("inner: ");
    terminal.send("fg\n");
    terminal.send("end\n");
    terminal.expect("read end");
    terminal.expect("inner: ");
    terminal.send("echo status $?; exit 4\n");
    terminal.expect("status 7");
    terminal.expect("ready: ");
    terminal.send("echo outer $?\n");
    terminal.expect("outer 4");
}

#[test]
fn a_command_that_is_stopped_from_outside_stands_still_until_it_is_continued() {
    let scene = Scene::new();
    let script = "echo $$; while :; do test -e /nonexistent/tick; echo tick; done";
    let mut live = Live::start(&mut scene.record(&["sh", "-c", script]));
    let pid: i32 = live.line().parse().unwrap();
    live.wait_for("tick");
    for _ in 0..3 {
        // SAFETY: kill has no preconditions; the pid is the command's.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0);
        wait_until("it is silent", || {
            live.forget_lines();
            !live.says_anything_within(Duration::from_millis(300))
        });
        // SAFETY: as above.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGCONT) }, 0);
        live.wait_for("tick");
    }
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    assert!(comes_true_within(testkit::live::LIMIT, || live.child.try_wait().unwrap().is_some()));
    wait_until("the recording is whole", || scene.shows_a_whole_recording());
}
